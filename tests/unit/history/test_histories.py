"""What 0.1 wrote can be explained by the present code, and covers enough to notice if that
breaks."""

import json
from functools import cache
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from eventsched.cli.main import main
from eventsched.domain.records import AnyRecord, StreamStarted, TermBegan
from eventsched.history.explain.explanation import explain
from eventsched.history.export_reader import FileLog
from eventsched.history.replay.tolerances import Tolerance
from eventsched.output.explain_output import story_json
from eventsched.plugins import IN_TREE
from tests.old_logs import (
    GOLDEN,
    HISTORIES,
    TOLERATED,
    UNRELEASED,
    Explained,
    golden,
    parts,
    written,
)

LOGS = sorted(HISTORIES.glob("*.jsonl.gz"))
UNSEEN = {
    "BindFailed", "EvictionFailed", "HistoryLost", "MemoryForgotten", "NodeOvercommitted",
    "NominationCleared", "PluginOverran", "WriteFailed",
}  # fmt: skip
"""Kinds of records that no history has."""
LATER = {"PartitionSealed", "PlacementCompared", "PodSkipped"}
"""Kinds that 0.1 did not have."""
LATER_PLUGINS = {"CapacityScheduling", "NodeResourceTopologyMatch", "NodeResourcesAllocatable"}


@cache
def opened(path: Path) -> Explained:
    return Explained(path)


def test_every_log_is_replayed_and_every_tolerance_needed() -> None:
    names = {each.name.removesuffix(".jsonl.gz") for each in LOGS}
    assert names == TOLERATED.keys() | UNRELEASED
    assert {name for each in TOLERATED.values() for name in each} == set(Tolerance)


def test_the_logs_have_the_kinds_of_records_and_the_plugins_of_0_1() -> None:
    kinds: set[str] = set()
    plugins: set[str] = set()
    for path in LOGS:
        for each in FileLog(path).read():
            kinds.add(each.kind)
            if isinstance(record := each.record, StreamStarted | TermBegan):
                plugins |= record.plugins.keys()
    assert {each.__name__ for each in get_args(AnyRecord)} - kinds == UNSEEN | LATER
    assert IN_TREE.keys() - plugins == LATER_PLUGINS


@pytest.mark.parametrize("path", LOGS, ids=[path.name for path in LOGS])
def test_every_pod_is_explained(path: Path) -> None:
    """In words, which begin with where it stands, and as data."""
    log = opened(path)
    assert log.pods
    for uid, name in log.pods.items():
        found = explain(log.evidence, uid)
        first, *others = log.text(uid).splitlines()
        told = json.loads(json.dumps(story_json(found)))
        stands = ANSWERS[told["summary"]["state"]]
        assert first.startswith(f"{name} {stands}"), first
        assert told["summary"]["node"] is None or told["summary"]["node"] in first
        assert any(uid in each for each in others)
        assert (told["uid"], f"{told['namespace']}/{told['name']}") == (uid, name)


ANSWERS = {
    "bound": "has been on ",
    "binding": "has been binding to ",
    "waiting": "has reserved ",
    "active": "has been waiting for a node",
    "backoff": "has been waiting for a node",
    "unschedulable": "has been waiting for a node",
    "gated": "has been gated",
    "unqueued": "has b",
    "gone": "has been gone",
}
"""State → the words that follow the pod's name."""


@pytest.mark.parametrize("name", GOLDEN)
def test_some_are_explained_as_before(name: str) -> None:
    assert list(written(name)) == parts(golden(name).read_text())


@pytest.mark.parametrize("path", LOGS, ids=[path.name for path in LOGS])
def test_the_command_explains_a_log_in_a_file(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uid, name = next(iter(opened(path).pods.items()))
    assert main(["explain", uid, "--file", str(path)]) == 0
    assert capsys.readouterr().out.startswith(name)
    assert main(["explain", uid, "--file", str(path), "-o", "json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["uid"] == uid
