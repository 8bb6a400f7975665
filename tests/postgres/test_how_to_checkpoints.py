"""docs/how-to/sign-checkpoints.md: its commands, and the values that it gives the chart."""

import re
import stat
from pathlib import Path

import pytest
import yaml

from eventsched.cli.main import main
from eventsched.process import settings
from tests.databases import ROOT
from tests.deploy.chart import templated
from tests.deploy.rendering import configuration, pod_spec
from tests.pages import Page

PAGE = "how-to/sign-checkpoints.md"
STREAM = "my-scheduler"


def test_the_commands(database: str, tmp_path: Path) -> None:
    words = ["simulate", "--generate", "nodes=3,pods=9", "--stream", STREAM]
    assert main([*words, "--database", database]) == 0
    page = Page(PAGE, tmp_path, {"DATABASE_URL": database})
    assert page.run() == 8
    assert stat.S_IMODE((tmp_path / "checkpoint.pem").stat().st_mode) == 0o600
    assert (tmp_path / "checkpoints").read_text().count(f"— eventsched/{STREAM}") == 2


@pytest.mark.process
def test_the_values() -> None:
    """The process can read the key where the settings say that it is."""
    [block] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / PAGE).read_text(), re.DOTALL)
    objects = templated(**yaml.safe_load(block))
    found = settings.load(configuration(objects), "eventsched.yaml").checkpoints
    spec = pod_spec(objects)
    [mount] = [m for m in spec["containers"][0]["volumeMounts"] if m["name"] == "checkpoints"]
    assert (found.key, found.every) == (f"{mount['mountPath']}/checkpoint.pem", "10m")
    assert mount["readOnly"] is True
    [volume] = [v for v in spec["volumes"] if v["name"] == "checkpoints"]
    assert volume["secret"] == {"secretName": "eventsched-checkpoints", "defaultMode": 0o440}
