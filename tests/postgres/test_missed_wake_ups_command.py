"""``eventsched queue --missed-wake-ups``: of a database and of its export, with a plugin whose hint
is broken on purpose, and with the plugins as they are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from tests.databases import Server, migrate

DEAF, SOUND = "deaf", "sound"
LOAD = "nodes=1,pods=60,shape=tight,seed=2,rate=0.15,runtime=400"
PLUGIN = '''
from eventsched.plugins.node_resources_fit import NodeResourcesFit


class DeafFit(NodeResourcesFit):
    """Its hint misses every change."""

    name = "DeafFit"

    def hint(self, cycle, pod, change):
        return False
'''
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      disabled: [{name: NodeResourcesFit}]
      enabled: [{name: DeafFit}]
"""


@pytest.fixture(scope="module")
def place(one_server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the plugin and its configuration, and the URL of a database with both
    histories."""
    folder = tmp_path_factory.mktemp("deaf")
    (folder / "deaf.py").write_text(PLUGIN)
    (folder / "config.yaml").write_text(CONFIG)
    with one_server.fresh(migrate) as url:
        (folder / "url").write_text(url)
        log = ("--generate", LOAD, "--database", url, "--stream")
        plugin = ("--plugin", str(folder / "deaf.py"), "--config", str(folder / "config.yaml"))
        assert main(["simulate", *log, DEAF, *plugin]) == 0
        assert main(["simulate", *log, SOUND]) == 0
        yield folder


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["queue", "--missed-wake-ups", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def stream(place: Path, name: str) -> tuple[str, ...]:
    return ("--database", (place / "url").read_text(), "--stream", name)


def test_each_pod_that_waited_for_the_flush_has_its_change(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is the end of another pod: nothing else makes room."""
    plugin = ("--plugin", str(place / "deaf.py"))
    found: Any = json.loads(printed(capsys, *stream(place, DEAF), *plugin, "-o", "json"))
    assert found["flushed"] == found["examined"] == len(found["missed"])
    assert found["missed"]
    for each in found["missed"]:
        assert each["failedPlugins"] == ["DeafFit"]
        assert each["change"]["kind"] == "PodDeleted"
        assert each["failed_seq"] < each["change"]["seq"] < each["flushed_seq"]
        assert each["flushed_seq"] < each["placed_seq"]
    text = printed(capsys, *stream(place, DEAF), *plugin)
    assert found["missed"][0]["pod"] in text
    assert "MISSED BY" in text
    first = str(found["missed"][0]["flushed_seq"])
    none = printed(capsys, *stream(place, DEAF), *plugin, "--until", first)
    assert none == "0 pods came to a node only after the flush; no plugin missed a change\n"


def test_an_export_has_the_same(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported = str(tmp_path / "log.jsonl")
    assert main(["log", "export", exported, *stream(place, DEAF)]) == 0
    plugin = ("--plugin", str(place / "deaf.py"), "-o", "json")
    whole = printed(capsys, *stream(place, DEAF), *plugin)
    assert printed(capsys, "--file", exported, *plugin) == whole


def test_the_plugins_as_they_are_miss_none(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, *stream(place, SOUND), "-o", "json"))
    assert found["missed"] == []
    assert found["flushed"] == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--from", "3"), "--from: is about --missed-wake-ups"),
        (("--missed-wake-ups", "--at", "3"), "--at: is about the pods that wait"),
        (
            ("--missed-wake-ups", "--from", "5", "--until", "3"),
            "--from: is position 5, after --until (3); exchange them",
        ),
        (("--missed-wake-ups", "--from", "x"), "--from: 'x' is neither a position nor a time"),
    ],
)
def test_options_that_do_not_go_together(
    place: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    capsys.readouterr()
    assert main(["queue", *words, *stream(place, SOUND)]) == 2
    assert problem in capsys.readouterr().err
