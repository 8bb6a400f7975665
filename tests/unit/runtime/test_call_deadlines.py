"""Plugins that take too long: what the log says about it, and that a replay says the same."""

import threading
import time
from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.records import PluginOverran, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.history.replay import stream_replay
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_loaded
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.scheduling.config import configuration
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import ClusterEvent
from eventsched.scheduling.framework.call_guard import Guard, OverrunError
from tests.builders import (
    SECOND,
    added,
    backing_off,
    make_node,
    make_pod,
    observed,
    parked,
    records_of,
    refused,
    woken,
)

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: PrioritySort}, {name: DefaultBinder}, {name: Slow}]
      disabled: [{name: "*"}]
"""
LIMIT = 0.2
TOOK = "took longer than 0.2 s"


class Slow:
    """Hangs at one method for pods of one name; ``asked`` are the methods called."""

    name = "Slow"
    wakes_on = (ClusterEvent.NODE_UPDATE_LABEL,)
    at = ""
    asked: list[str] = []

    def _maybe(self, method: str) -> None:
        self.asked.append(method)
        while self.at == method:
            pass

    def filter_node(self, pod: Any, node: Any) -> Any:
        self._maybe("filter")
        return None if "fits" in node.labels else "node(s) did not fit"

    def score_node(self, pod: Any, node: Any) -> int:
        self._maybe("score")
        return 0

    def reserve(self, cycle: Any, pod: Any, node: Any) -> None:
        self._maybe("reserve")

    def hint(self, cycle: Any, pod: Any, change: Any) -> bool:
        self._maybe("hint")
        return False


@pytest.fixture(autouse=True)
def _quick() -> Any:
    yield
    Slow.at, Slow.asked = "", []


def assembly(guard: Guard | None = None) -> Assembly:
    loaded = configuration.load(CONFIG, "test.yaml")
    return assemble_loaded(loaded, "test.yaml", {**IN_TREE, "Slow": Slow}, CONFIG, guard)


def engine(guard: Guard | None = None) -> Engine:
    return assembly(guard or Deadlines(LIMIT)).engine()


FITS = make_node("fits", labels={"fits": ""})
OTHER = make_node("other")


def overran(point: str, **fields: Any) -> PluginOverran:
    return PluginOverran(plugin="Slow", point=point, limit=200_000, **fields)


def failed(point: str, **fields: Any) -> list[Record]:
    said = f"plugin Slow failed in {point}: {TOOK}"
    decided = refused(
        "p1", said, outcome=records.Outcome.ERROR, plugin="Slow", **{"evaluated": 0, **fields}
    )
    return [decided, backing_off(plugin="Slow")]


# --- the clock ------------------------------------------------------------------------------


def spin() -> None:
    while True:
        pass


def sleep() -> None:
    time.sleep(60)


def keep_all() -> None:
    """Keeps what is raised, once."""
    try:
        spin()
    except BaseException:  # noqa: BLE001 - what a careless plugin does
        spin()


@pytest.mark.parametrize("function", [spin, sleep, keep_all])
def test_a_call_is_interrupted_at_its_deadline(function: Any) -> None:
    guard = Deadlines(LIMIT)
    with pytest.raises(OverrunError, match=f"plugin P {TOOK} in filter"):
        guard.call("P", "filter", function)
    assert guard.call("P", "score", lambda: 5) == 5


def test_a_call_in_another_thread_is_interrupted_too() -> None:
    guard, caught = Deadlines(LIMIT), []

    def run() -> None:
        try:
            guard.call("P", "hint", spin)
        except OverrunError as overrun:
            caught.append(str(overrun))
        caught.append(guard.call("P", "score", lambda: 5))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert caught == [f"plugin P {TOOK} in hint", 5]


def test_a_call_that_is_known_to_overrun_is_skipped() -> None:
    slow = engine()
    observed(slow, *added(FITS, make_pod()))
    observed(slow, overran("filter", uid="p1", attempt=1))
    assert records_of(slow.schedule_next()) == failed("filter")
    assert Slow.asked == []


# --- attempts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "fields"),
    [
        ("filter", {}),
        ("score", {}),
        ("reserve", {"node": "fits", "row": 0, "feasible": 1, "evaluated": 2, "ties": 1,
                     "counts": ((1, 1),), "scoring": 1, "parameters": ((),)}),
    ],
)  # fmt: skip
def test_an_attempt_that_overruns_is_repeated_without_the_call(
    point: str, fields: dict[str, Any]
) -> None:
    """Nothing of the void one is left, not even the words that its verdicts would have needed."""
    slow = engine()
    observed(slow, *added(FITS, OTHER, make_pod()))
    Slow.at = point
    before = slow.state.digest()
    assert records_of(slow.schedule_next()) == [overran(point, uid="p1", attempt=1)]
    assert len(slow.state.verdicts) == 1
    made = records_of(slow.schedule_next())
    assert made[-2:] == failed(point, **fields)
    assert slow.state.overruns == []
    assert before != slow.state.digest()


def test_the_next_attempt_makes_the_call_again() -> None:
    slow = engine()
    observed(slow, *added(FITS, make_pod()))
    Slow.at = "filter"
    slow.schedule_next()
    slow.schedule_next()
    Slow.at = ""
    observed(slow, records.TimePassed(), at=2 * SECOND)
    kinds = [type(each).__name__ for each in records_of(slow.schedule_next())]
    assert kinds[-1] == "PodDecided"
    assert slow.state.reservations.keys() == {"p1"}


def test_a_replay_decides_the_same_and_does_not_wait() -> None:
    slow, log = engine(), MemoryEventLog()
    taken: list[LogEntry] = []
    taken += slow.observe(records.StreamStarted(format=1, engine="", seed="s"), 0)
    for each in added(FITS, OTHER, make_pod(), make_pod("p2")):
        taken += slow.observe(each, 0)
    Slow.at = "reserve"
    while made := slow.schedule_next():
        taken += made
    details = {each.position: each.detail for each in taken if each.detail is not None}
    log.begin(Batch([StoredRecord.of(each) for each in taken], details))
    assert sum(each.record == overran("reserve", uid="p2", attempt=1) for each in taken) == 1
    done = stream_replay.verify(assembly().engine, log, end=len(taken))
    assert done.divergence is None
    assert done.engine.state.digest() == slow.state.digest()


def test_a_snapshot_holds_the_skipped_calls() -> None:
    slow, other = engine(), engine()
    observed(slow, *added(FITS, make_pod()))
    observed(slow, overran("filter", uid="p1", attempt=1), overran("hint"))
    other.restore(slow.snapshot(), slow.position)
    assert other.state.overruns == slow.state.overruns
    assert other.state.digest() == slow.state.digest()
    assert records_of(other.schedule_next()) == failed("filter")
    assert other.state.overruns == [overran("hint")]


# --- what cannot be undone ------------------------------------------------------------


def test_after_a_hint_overruns_the_next_engine_works_without_it() -> None:
    guard = Deadlines(LIMIT)
    slow = engine(guard)
    taken: list[LogEntry] = []
    for each in added(OTHER, make_pod()):
        taken += slow.observe(each, 0)
    taken += slow.schedule_next()
    assert records_of(taken)[-1] == parked("p1", "Slow")
    Slow.at = "hint"
    labelled = records.NodeUpdated(node=make_node("other", labels={"fits": ""}))
    with pytest.raises(OverrunError, match="in hint"):
        slow.observe(labelled, SECOND)
    successor = engine(guard)
    for logged in taken:
        successor.apply(logged)
    assert successor.unrecorded() == [overran("hint")]
    assert observed(successor, overran("hint"), at=SECOND) == [overran("hint")]
    assert successor.unrecorded() == []
    said = observed(successor, labelled, at=2 * SECOND)
    assert said == [labelled, woken("NodeUpdateLabel", "Slow")]


def test_skipped_calls_are_forgotten_with_another_configuration() -> None:
    slow = engine()
    observed(slow, overran("hint"))
    observed(slow, records.TermBegan(epoch=2, token="00ff00ff"))
    assert slow.state.overruns == [overran("hint")]
    observed(slow, records.TermBegan(epoch=3, token="00ff00ff", engine="0.2"))
    assert slow.state.overruns == []


class Signing(Slow):
    def sign(self, pod: Any) -> Any:
        self._maybe("sign")
        return ()


def test_a_signature_that_overruns_counts_as_none_and_is_not_logged() -> None:
    guard = Deadlines(LIMIT)
    signing = guard.guarded(Signing())
    Slow.at = "sign"
    assert [signing.sign(make_pod()), signing.sign(make_pod("p2"))] == [None, None]
    assert Slow.asked == ["sign"]
    assert guard.unrecorded == []


def test_in_tree_plugins_are_called_without_a_guard() -> None:
    plugins = assembly(Deadlines(LIMIT)).profiles["default-scheduler"].plugins
    assert [type(each).__name__ for each in plugins if each.name == "Slow"] == ["Guarded"]
    assert not [
        each for each in plugins if each.name != "Slow" and type(each).__name__ == "Guarded"
    ]
