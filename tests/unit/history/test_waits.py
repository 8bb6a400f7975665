"""What explain says about a bind that waited: for what, and how long."""

from typing import Any

import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.domain import records
from eventsched.domain.records import AnyRecord, Outcome
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.explanation import Step, explain
from eventsched.history.explain.record_text import describe
from eventsched.history.explain.waits import PluginWait, waits_of_attempt
from eventsched.output.explain_output import story_json, story_text
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from tests import volumes
from tests.builders import SECOND, make_pod, scheduled
from tests.volumes import intended, promise, selection, written

PROMISED = "PersistentVolume v for PersistentVolumeClaim default/c"
MADE = "a volume for PersistentVolumeClaim default/c on n1"
DECIDED = scheduled(outcome=Outcome.WAITING)
GANG = scheduled(outcome=Outcome.WAITING, deadlines={"Gang": 10 * SECOND})
UNRESERVED = records.PodUnreserved(uid="p1", node="n1", plugin="VolumeBinding", message="late")


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (DECIDED, "attempt 1: n1 with 0, 1 of 1 nodes feasible"),
        (GANG, "attempt 1: n1 with 0, 1 of 1 nodes feasible; waits at Permit for Gang"),
        (intended(), "before the bind to n1 VolumeBinding waits"),
        (
            intended(promise(), selection()),
            f"before the bind to n1 VolumeBinding waits for {PROMISED}, {MADE}",
        ),
        (written(selection()), f"the cluster accepted {MADE}"),
        (
            records.WriteFailed(uid="p1", attempt=1, write=promise(), message="conflict"),
            f"the cluster refused {PROMISED}: conflict",
        ),
    ],
)
def test_records_in_words(record: AnyRecord, text: str) -> None:
    assert describe(record) == text


def steps(*found: tuple[int, AnyRecord]) -> list[Step]:
    """The records of p1 with their times in seconds."""
    return [Step(n, at * SECOND, record, "", None) for n, (at, record) in enumerate(found)]


BOUND = PluginWait(
    "VolumeBinding", "PreBind", 0, 600 * SECOND, (PROMISED,), 3 * SECOND, "BindIntended"
)


def test_a_wait_for_volumes() -> None:
    intent = records.BindIntended(uid="p1", node="n1", attempt=1)
    story = steps((0, DECIDED), (0, intended(promise())), (1, written(promise())), (3, intent))
    assert waits_of_attempt(story, 0) == [BOUND]
    assert BOUND.seconds == 3
    assert waits_of_attempt(story, 7) == []


def test_one_that_is_not_over() -> None:
    story = steps((0, DECIDED), (0, intended()))
    [wait] = waits_of_attempt(story, 0)
    assert (wait.ended, wait.seconds, wait.writes) == (None, None, ())


@pytest.mark.parametrize(
    "end",
    [
        UNRESERVED,
        records.PodDeleted(uid="p1"),
        records.PodUpdated(pod=make_pod(node_name="n2")),
    ],
)
def test_one_that_came_to_nothing(end: AnyRecord) -> None:
    """And the next attempt's waits are its own."""
    again = scheduled(outcome=Outcome.WAITING, attempt=2)
    story = steps((0, DECIDED), (0, intended()), (5, end), (9, again), (9, intended(attempt=2)))
    [first] = waits_of_attempt(story, 0)
    assert (first.ended, first.ended_by) == (5 * SECOND, type(end).__name__)
    [second] = waits_of_attempt(story, 3)
    assert (second.since, second.ended) == (9 * SECOND, None)


def test_permit_before_it() -> None:
    granted = records.PermitGranted(uid="p1", plugin="Gang", by="p2")
    story = steps((0, GANG), (4, granted), (4, intended(promise())), (7, UNRESERVED))
    assert [(each.plugin, each.point, each.seconds) for each in waits_of_attempt(story, 0)] == [
        ("Gang", "Permit", 4), ("VolumeBinding", "PreBind", 3)
    ]  # fmt: skip


def test_explain_tells_of_it() -> None:
    """In the text, and in the object for programs."""
    assembly = assemble_loaded(configuration.default(), "default", IN_TREE)
    source, log = volumes.load(), MemoryEventLog()
    cluster = InMemoryCluster(source.nodes, source.arrivals, objects=source.objects)
    Simulation(assembly, cluster, log).run()
    found = explain(ScannedEvidence(log, "main"), "default/web-0")
    made = "a volume for PersistentVolumeClaim default/data-0 on n2"
    text = story_text(found)
    assert f"before the bind to n2 VolumeBinding waits for {made}" in text
    lines = text.splitlines()
    begin = lines.index("What its bind waited for at attempt 1:")
    assert lines[begin + 2].split() == ["VolumeBinding", "PreBind", *made.split(), "2.001s"]
    told_to_programs: dict[str, Any] = story_json(found)["waits"][0]
    assert told_to_programs == {
        "plugin": "VolumeBinding",
        "point": "PreBind",
        "writes": [made],
        "since": "1970-01-01T00:00:00+00:00",
        "due": "1970-01-01T00:10:00+00:00",
        "ended": "1970-01-01T00:00:02.001000+00:00",
        "ended_by": "BindIntended",
    }
