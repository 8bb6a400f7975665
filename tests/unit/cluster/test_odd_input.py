"""Odd but legal: each was once a crash, a leak, a wrong placement or a stuck pod."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Container, NodeSelectorTerm, Pod, PodSpec, Requirement, Taint
from eventsched.domain.objects.pod_requests import of as requests_of
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    IntColumn,
    Normalization,
    PreFilterResult,
    QueuedPod,
    Status,
)
from tests.builders import added, attempted, engine_of, engine_with, make_node, make_pod, observed

NO_SCHEDULE = (Taint(key="full", effect="NoSchedule"),)


def decided(engine: Engine) -> PodDecided:
    """The next attempt's decision."""
    found = [each for each in attempted(engine) if isinstance(each, PodDecided)]
    return found[0]


def test_negative_raw_scores_do_not_let_a_refused_node_win() -> None:
    class Negative:
        name = "Negative"
        normalization = Normalization.DEFAULT

        def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
            return np.full(len(nodes), -50)

    engine = engine_with(Negative())
    observed(engine, *added(make_node("ok"), make_node("bad", taints=NO_SCHEDULE), make_pod()))
    found = decided(engine)
    assert found.outcome is Outcome.UNSCHEDULABLE
    assert "1 node(s) got a score out of range from Negative" in found.message


def test_what_a_plugin_takes_from_its_memory_is_a_copy() -> None:
    class Remembering:
        name = "Remembering"

        def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
            seen = cycle.memory.get("seen", [])
            seen.append(pod.name)
            cycle.remember("seen", seen)

    engine = engine_of(Remembering())
    observed(engine, *added(make_node(), make_pod("a"), make_pod("b")))
    attempted(engine)
    attempted(engine)
    outcomes = [records.BindSucceeded(uid=uid, node="n1") for uid in "ab"]
    changes = [
        each.value
        for each in observed(engine, *outcomes)
        if isinstance(each, records.MemoryChanged)
    ]
    assert changes == [["a"], ["a", "b"]]


def test_pods_wake_apart_where_a_hint_reads_what_is_not_signed() -> None:
    class Gate:
        name = "Gate"
        wakes_on = (ClusterEvent.NODE_ADD,)
        teams: set[str] = set()

        def pre_enqueue(self, pod: Pod) -> Status | None:
            return None if pod.labels["team"] in self.teams else Status.unresolvable("closed")

        def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
            return change.node.labels.get("team") == pod.labels["team"]

    gate = Gate()
    engine = engine_of(gate)
    observed(
        engine, *added(make_pod("a", labels={"team": "A"}), make_pod("b", labels={"team": "B"}))
    )
    gate.teams = {"B"}
    moved = observed(engine, *added(make_node(labels={"team": "B"})))
    assert [(m.uid, m.queue) for m in moved if isinstance(m, PodQueued)] == [("b", Queue.ACTIVE)]


@pytest.mark.parametrize(
    ("method", "answer", "words"),
    [
        ("filter", [[1], [2, 3]], "returned what is no array"),
        ("reserve", Status.unschedulable(5), "reasons must be texts"),  # type: ignore[arg-type]
    ],
)
def test_answers_that_are_none_fail_the_attempt(method: str, answer: object, words: str) -> None:
    plugin = type("Odd", (), {"name": "Odd", method: lambda self, *arguments: answer})
    engine = engine_of(plugin())
    observed(engine, *added(make_node(), make_pod()))
    found = decided(engine)
    assert (found.outcome, found.plugin) == (Outcome.ERROR, "Odd")
    assert words in found.message


def test_pre_filter_may_name_nodes_in_any_collection() -> None:
    class Listing:
        name = "Listing"

        def pre_filter(self, cycle: Cycle, pod: Pod, nodes: Any) -> PreFilterResult | Status | None:
            return PreFilterResult(["n2"])  # type: ignore[arg-type]

    engine = engine_of(Listing())
    observed(engine, *added(make_node("n1"), make_node("n2"), make_pod()))
    assert decided(engine).node == "n2"


def test_a_queue_sort_that_raises_puts_its_pods_last() -> None:
    class Picky:
        name = "Picky"

        def sort_key(self, queued: QueuedPod) -> tuple[Any, ...]:
            return (int(queued.pod.labels["rank"]),)

    engine = engine_with(points={"queueSort": [Picky()]})
    pods = [
        make_pod("none"),
        make_pod("two", labels={"rank": "2"}),
        make_pod("one", labels={"rank": "1"}),
    ]
    observed(engine, *added(make_node(), *pods))
    assert [decided(engine).uid for _ in pods] == ["one", "two", "none"]


def test_a_repeated_addition_is_an_update_and_an_unknown_end_is_nothing() -> None:
    engine = engine_of()
    node, pod = make_node(), make_pod(node_name="n1")
    observed(engine, *added(node, pod))
    assert observed(engine, *added(node, pod)) == []
    wider = make_node(cpu=9000)
    assert observed(engine, *added(wider)) == [records.NodeUpdated(node=wider)]
    observed(engine, records.PodDeleted(uid="p1"))
    assert engine.state.nodes.totals[1].tolist() == [0] * engine.state.nodes.totals.shape[1]
    gone = (records.PodDeleted(uid="p1"), records.NodeDeleted(name="nobody"))
    assert observed(engine, *gone) == []


def test_a_pod_with_many_resources_is_told_all_that_is_short() -> None:
    names = [f"example.com/r{i:02}" for i in range(20)]
    spec = PodSpec(containers=(Container(requests=dict.fromkeys(names, 1)),))
    engine = engine_with()
    pod = msgspec.structs.replace(make_pod(), spec=spec)
    observed(engine, *added(make_node(), pod))
    found = decided(engine)
    assert found.outcome is Outcome.UNSCHEDULABLE
    assert found.message.count("Insufficient example.com/") == 20


def test_sums_of_huge_quantities_stay_within_what_can_be_stored() -> None:
    """They wrap around, as upstream's do."""
    huge = Container(requests={"memory": 2**63 - 1})
    assert requests_of(PodSpec(containers=(huge, huge))).effective == {"memory": -2}


def test_a_transient_error_of_pre_score_is_not_remembered() -> None:
    class Shaky:
        name = "Shaky"
        failures = 1

        def sign(self, pod: Pod) -> Hashable:
            return 1

        def pre_score(self, cycle: Cycle, pod: Pod, nodes: Any) -> None:
            self.failures -= 1
            if self.failures == 0:
                raise RuntimeError("once")

        def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
            return np.zeros(len(nodes), dtype=np.int64)

    engine = engine_of(Shaky())
    observed(engine, *added(make_node(), make_pod("a"), make_pod("b")))
    assert [decided(engine).outcome for _ in range(2)] == [Outcome.ERROR, Outcome.SCHEDULED]


def test_a_term_with_what_is_no_label_matches_nothing() -> None:
    for key, value in (("disk", "not a label!"), ("no key!", "a"), ("gen", "-1")):
        operator = "Gt" if key == "gen" else "NotIn"
        wanted = Requirement(key=key, operator=operator, values=(value,))
        term = NodeSelectorTerm(expressions=(wanted,))
        engine = engine_with()
        pod = make_pod(spec={"required_node_terms": (term,)})
        observed(engine, *added(make_node(labels={"gen": "5"}), pod))
        assert decided(engine).outcome is Outcome.UNSCHEDULABLE


def test_evaluate_refuses_an_object_that_is_there_twice_and_reads_all_of_unicode(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = {"kind": "Node", "metadata": {"name": "n1", "annotations": {"a": "x\u2028y"}}}
    line = {"id": "a", "objects": [node], "pending": []}
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(line, ensure_ascii=False), encoding="utf-8")
    assert main(["evaluate", str(path)]) == 0
    path.write_text(json.dumps({**line, "objects": [node, node]}))
    assert main(["evaluate", str(path)]) == 2
    assert "objects[1]: node n1 is there twice" in capsys.readouterr().err
