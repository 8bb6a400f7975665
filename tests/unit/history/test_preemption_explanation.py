"""What is explained and verified about preemptions afterwards: explanations, and verification of
lies."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.explanation import explain
from eventsched.history.verify.verification import verify_file
from eventsched.output.explain_output import story_json, story_text
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from tests.builders import SECOND, make_node, make_pod
from tests.unit.history.test_verification import write


@pytest.fixture(scope="module")
def log() -> MemoryEventLog:
    """Two nodes full of pods, and an important one that comes later."""
    nodes = [make_node(f"n{number}") for number in range(2)]
    low = [make_pod(f"low-{n}", memory=0, priority=n % 2, node_name=f"n{n % 2}") for n in range(8)]
    high = TracePod(make_pod("high", cpu=2000, memory=0, priority=9), 5 * SECOND)
    made = MemoryEventLog("s")
    assembly = assemble_loaded(configuration.default(), "test.yaml", IN_TREE)
    Simulation(assembly, InMemoryCluster(nodes, [high], low), made).run()
    return made


def test_the_story_of_the_pod_that_displaced_others(log: MemoryEventLog) -> None:
    text = story_text(explain(ScannedEvidence(log, "s"), "high"))
    for said in (
        "nominated to n0, which default/low-4, default/low-6 have to leave: the priority of "
        "its most important victim is lowest; 2 candidates, 2 of 2 nodes tried",
        "the pod was nominated to it",
        "Who has to leave n0 for it:",
        "it was placed there (position ",
        "Why n0 of 2 candidates: the priority of its most important victim is lowest",
        "n1     0                  1                  2     default/low-5, default/low-7",
    ):
        assert said in text


def test_the_story_of_a_victim(log: MemoryEventLog) -> None:
    text = story_text(explain(ScannedEvidence(log, "s"), "low-6"))
    assert "has to leave n0 for default/high" in text
    assert "is being deleted: the cluster accepted the eviction" in text


def test_the_story_as_json(log: MemoryEventLog) -> None:
    evidence = ScannedEvidence(log, "s")
    found = story_json(explain(evidence, "high", 1))["preemption"]
    assert found["landed"] == "n0"
    assert [each["pod"] for each in found["victims"]] == ["default/low-4", "default/low-6"]
    assert all(each["outcome"].startswith("is gone") for each in found["victims"])
    assert [each["node"] for each in found["compared"]] == ["n0", "n1"]
    assert story_json(explain(evidence, "low-6"))["preemption"] is None


def items(log: MemoryEventLog) -> list[list[Any]]:
    return [[each.at, each.cause, each.version, json.loads(each.body)] for each in log.read()]


def the(found: list[list[Any]], kind: str) -> dict[str, Any]:
    return next(item[3] for item in found if item[3]["kind"] == kind)


def test_what_was_written_is_right(log: MemoryEventLog, tmp_path: Path) -> None:
    result = verify_file(write(tmp_path / "log", items(log), details=log._details))
    assert result.problems == []
    assert result.details == result.decisions + 1


LIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "not row": lambda made: made.update(node="n1"),
    "was chosen by 'start'": lambda made: made.update(criterion="start"),
    "expected row 0": lambda made: made.update(node="n1", row=1),
    "victims": lambda made: made.update(victims=made["victims"][:1]),
    "not more important": lambda made: made.update(victims=["high"]),
    "not evicted": lambda made: made.update(leaving=["low-0"]),
    "candidates, looked, nodes": lambda made: made.update(looked=1),
    "candidates, expected 2": lambda made: made.update(candidates=1),
    "digest": lambda made: made.update(digest="0" * 32),
    "criteria": lambda made: made.update(total=7),
    "not of its shape": lambda made: made.update(victims=["nobody"]),
}


@pytest.mark.parametrize("said", LIES)
def test_lies_are_found(log: MemoryEventLog, said: str, tmp_path: Path) -> None:
    found = copy.deepcopy(items(log))
    made = the(found, "PreemptionDecided")
    LIES[said](made)
    result = verify_file(write(tmp_path / "log", found, details=log._details))
    assert result.first is not None
    assert said in result.first.text
    assert found[result.first.position or 0][3] is made


def test_a_lie_in_the_vectors_is_found(log: MemoryEventLog, tmp_path: Path) -> None:
    details = dict(log._details)
    [position] = [each.position for each in log.read() if each.kind == "PreemptionDecided"]
    detail = details[position]
    assert isinstance(detail.scores[0], np.ndarray)
    details[position] = msgspec.structs.replace(
        detail, scores=(detail.scores[0] + 1, *detail.scores[1:])
    )
    result = verify_file(write(tmp_path / "log", items(log), details=details))
    assert result.first is not None
    assert "digest" in result.first.text
