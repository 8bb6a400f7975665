"""The chart, and the program that installs it."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml

from .rendering import DEPLOY

CHART = DEPLOY / "helm"
DOCUMENT = yaml.safe_load(Path(__file__).with_name("scheduler-plugins-values.yaml").read_text())
"""Values of another chart, which ours takes."""


def values() -> Any:
    """The chart's own."""
    return yaml.safe_load((CHART / "values.yaml").read_text())


def chart_of_0_1(folder: Path) -> Path:
    """A copy of the chart with the values that 0.1's had, which ``--reuse-values`` keeps."""
    chart = shutil.copytree(CHART, folder / "old")
    old = values()
    for key in ("priorityClassName", "nodeSelector", "affinity", "tolerations"):
        del old["scheduler"][key]
    (chart / "values.yaml").write_text(yaml.safe_dump(old))
    return chart


def helm(program: Path, *arguments: str, given: object) -> str:
    """What it prints, with more values as its input, and without the user's own settings of it.
    Raises AssertionError where it complains."""
    with tempfile.TemporaryDirectory() as home:
        homes = {f"HELM_{name}_HOME": home for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [program, *arguments], input=json.dumps(given), text=True, capture_output=True,
            timeout=120, check=False, env={**os.environ, **homes},
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout
