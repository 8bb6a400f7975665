"""The chart, and the program that installs it."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.harness import binaries

from .rendering import DEPLOY, Object

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


def run(*arguments: str, given: object) -> str:
    """What helm prints. Skips the test without helm."""
    try:
        program = binaries.helm(build=False)
    except binaries.MissingProgramError as missing:
        pytest.skip(f"{missing}: nothing renders what is in deploy/helm")
    return helm(program, *arguments, given=given)


def templated(release: str = "eventsched", **given: object) -> list[Object]:
    """The objects of a release in kube-system with these values, without hooks. Skips the test
    without helm."""
    return made_of(CHART, release, given)


def of_overlay(name: str, namespace: str) -> list[Object]:
    """The objects with the values of an overlay, without hooks."""
    file = f"--values={CHART / 'overlays' / name}.yaml"
    return made_of(CHART, "eventsched", {}, file, namespace=namespace)


def made_of(
    chart: Path,
    release: str,
    given: object,
    *more: str,
    namespace: str = "kube-system",
    hooks: bool = False,
) -> list[Object]:
    """What ``helm template`` prints for a chart."""
    where = [release, str(chart), f"--namespace={namespace}", "--values=-", *more]
    objects = yaml.safe_load_all(
        run("template", *where, *([] if hooks else ["--no-hooks"]), given=given)
    )
    return [each for each in objects if each is not None]


def notes(folder: Path, *kinds: str, **given: object) -> str:
    """What people read after an installation with more values into a cluster that has these kinds:
    the notes, rendered as any other template of the chart is."""
    chart = shutil.copytree(CHART, folder / "chart")
    text = (chart / "templates" / "NOTES.txt").read_text()
    lines = "\n".join(f"  {line}" for line in text.splitlines())
    (chart / "templates" / "shown.yaml").write_text(f"kind: Notes\ntext: |\n{lines}\n")
    more = [f"--api-versions={each}" for each in kinds]
    objects = made_of(chart, "eventsched", given, *more)
    (shown,) = [each for each in objects if each["kind"] == "Notes"]
    return str(shown["text"])
