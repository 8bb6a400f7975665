"""A plugin that breaks ends one attempt, with its name in the record; the pod backs off, and the
scheduler goes on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue
from eventsched.scheduling import scheduling_cycle
from eventsched.scheduling.cycle import judgement
from eventsched.scheduling.framework import Status, Wait
from tests.builders import (
    SECOND,
    added,
    attempted,
    backing_off,
    engine_of,
    engine_with,
    make_node,
    make_pod,
    observed,
)

Method = Callable[..., Any]


def boom(*arguments: Any) -> Any:
    """What a broken plugin does."""
    raise RuntimeError("boom")


def array(values: Any) -> Method:
    """A column, whatever the nodes are."""
    return lambda cycle, pod, nodes: np.array(values)


def plugin(**methods: Method) -> Any:
    """A plugin of the name Broken that breaks for p1 only."""

    def guard(point: str, method: Method) -> Method:
        def call(*arguments: Any) -> Any:
            pod = arguments[0] if point.endswith("node") else arguments[1]
            return method(*arguments) if pod.name == "p1" else sound(point, *arguments)

        return call

    def sound(point: str, *arguments: Any) -> Any:
        if point in ("score", "filter"):
            return np.zeros(len(arguments[2]), dtype=int)
        return {"score_node": 0, "normalize_score": arguments[-1]}.get(point)

    made = type("Broken", (), {"name": "Broken"})()
    for point, method in methods.items():
        setattr(made, point, guard(point, method))
    return made


RAISED = "raised RuntimeError: boom"
ZEROS = array([0])

CASES = [
    ({"pre_filter": boom}, f"pre_filter: {RAISED}"),
    ({"filter": boom}, f"filter: {RAISED}"),
    ({"filter": ZEROS, "pre_score": boom, "score": ZEROS}, f"pre_score: {RAISED}"),
    ({"score": boom}, f"score: {RAISED}"),
    ({"score": ZEROS, "normalize_score": boom}, f"normalize_score: {RAISED}"),
    ({"reserve": boom}, f"reserve: {RAISED}"),
    ({"permit": boom}, f"permit: {RAISED}"),
    ({"pre_bind": boom}, f"pre_bind: {RAISED}"),
    ({"bind": boom}, f"bind: {RAISED}"),
    ({"filter_node": boom}, f"filter: {RAISED}"),
    ({"score_node": boom}, f"score: {RAISED}"),
    (
        {"filter": array([0, 0])},
        "filter: returned shape (2,); one value a node, (1,), is needed",
    ),
    ({"filter": array(0)}, "filter: returned shape (); one value a node, (1,), is needed"),
    ({"filter": array([0.0])}, "filter: returned float64 values; integers are needed"),
    ({"filter": array(["x"])}, "filter: returned <U1 values; integers are needed"),
    ({"filter": array([-1])}, "filter: returned a value outside [0, 65535]: -1 to -1"),
    ({"filter": array([65536])}, "filter: returned a value outside [0, 65535]: 65536 to 65536"),
    ({"score": array([1.5])}, "score: returned float64 values; integers are needed"),
    ({"score_node": lambda *_: 0.5}, "score_node: returned 0.5; an int is due"),
    (
        {"filter_node": lambda *_: 3},
        "filter_node: returned 3; None, a reason or a Status is due",
    ),
    (
        {"pre_score": lambda *_: Status.error("bad terms"), "score": ZEROS},
        "pre_score: bad terms",
    ),
    ({"reserve": lambda *_: "no"}, "reserve: returned 'no'; None or a Status is due"),
    (
        {"pre_bind": lambda *_: "no"},
        "pre_bind: returned 'no'; None or a Status or a Preparation is due",
    ),
    ({"bind": lambda *_: True}, "bind: returned True; None or a Status is due"),
    ({"permit": lambda *_: False}, "permit: returned False; None or a Status or a Wait is due"),
    (
        {"permit": lambda *_: Wait(float("nan"))},
        "permit: raised ValueError: a wait of nan seconds",
    ),
    (
        {"pre_filter": lambda *_: ["n1"]},
        "pre_filter: returned ['n1']; None or a Status or a PreFilterResult is due",
    ),
]


@pytest.mark.parametrize(("methods", "problem"), CASES, ids=[problem for _, problem in CASES])
def test_the_attempt_fails_and_the_next_pod_is_placed(
    methods: dict[str, Method], problem: str
) -> None:
    """One record with outcome error, one move to backoff."""
    engine = engine_of(plugin(**methods))
    observed(engine, *added(make_node(), make_pod("p1"), make_pod("p2")))
    decided, queued = attempted(engine)
    assert isinstance(decided, PodDecided)
    assert (decided.outcome, decided.plugin) == (Outcome.ERROR, "Broken")
    assert decided.message == f"plugin Broken failed in {problem}"
    assert queued == backing_off(plugin="Broken")
    healthy = attempted(engine)[-1]
    assert (healthy.uid, healthy.outcome) == ("p2", Outcome.SCHEDULED)


def test_an_error_of_pre_filter_is_no_refusal() -> None:
    """Status Error: its words, without the sentence about nodes."""
    engine = engine_of(plugin(pre_filter=lambda *_: Status.error("cannot read")))
    observed(engine, *added(make_node(), make_pod("p1")))
    decided, queued = attempted(engine)
    assert (decided.outcome, decided.message) == (Outcome.ERROR, "cannot read")
    assert queued == backing_off(plugin="Broken")


def test_errors_double_the_backoff() -> None:
    """1, 2, 4 seconds, by BackoffComplete alone."""
    engine = engine_of(plugin(filter=boom))
    observed(engine, *added(make_node(), make_pod("p1")))
    now, lengths = 0, []
    for _ in range(3):
        _, queued = attempted(engine)
        lengths.append((queued.until - now) // SECOND)
        now = queued.until
        observed(engine, records.TimePassed(), at=now)
    assert lengths == [1, 2, 4]


def test_a_pod_that_always_fails_is_parked() -> None:
    """The fifth error in a row: it waits like a refused pod, until it changes or is flushed."""
    engine = engine_of(plugin(filter=boom, sign=lambda pod: None))
    observed(engine, *added(make_node(), make_pod("p1")))
    for _ in range(5):
        *_, queued = attempted(engine)
        observed(engine, records.TimePassed(), at=queued.until)
    assert queued == PodQueued(
        uid="p1", queue=Queue.UNSCHEDULABLE, cause="Parked", plugin="Broken", rejectors=("Broken",),
        until=queued.until, errors=5,
    )  # fmt: skip
    assert engine.idle
    assert engine.due is None
    (*_, woken) = observed(
        engine, records.PodUpdated(pod=make_pod("p1", cpu=2)), at=queued.until + 1
    )
    assert (woken.queue, woken.cause) == (Queue.ACTIVE, "PodUpdate")


def test_a_pod_that_trips_over_a_mistake_of_ours_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = judgement.judge

    def judge(table: Any, cache: Any, profile: Any, pod: Any, *rest: Any) -> Any:
        if pod.name == "p1":
            raise KeyError("odd")
        return real(table, cache, profile, pod, *rest)

    monkeypatch.setattr(scheduling_cycle, "judge", judge)
    engine = engine_with()
    observed(engine, *added(make_node(), make_pod("p1"), make_pod("p2")))
    decided, queued = attempted(engine)
    assert (decided.outcome, decided.message) == (
        Outcome.ERROR, "eventsched failed: KeyError: 'odd'",
    )  # fmt: skip
    assert queued == backing_off()
    assert attempted(engine)[-1].outcome is Outcome.SCHEDULED


def test_a_gate_that_raises_holds_the_pod() -> None:
    """With what it raised as the message."""
    gate = type("Gate", (), {"name": "Gate", "pre_enqueue": lambda self, pod: boom()})()
    *_, queued = observed(engine_of(gate), *added(make_pod()))
    message = f"plugin Gate failed in pre_enqueue: {RAISED}"
    assert (queued.queue, queued.plugin, queued.message) == ("gated", "Gate", message)


def test_a_post_filter_that_raises_is_quoted() -> None:
    """The pod was unschedulable anyway."""
    engine = engine_of(plugin(filter=array([1]), post_filter=boom))
    observed(engine, *added(make_node(), make_pod("p1")))
    *_, decided, _ = attempted(engine)
    assert decided.message == (
        "0/1 nodes are available: 1 node(s) were refused by Broken. "
        f"plugin Broken failed in post_filter: {RAISED}"
    )


def test_post_bind_that_raises_changes_nothing() -> None:
    """The pod is bound, and the record says what went wrong."""
    engine = engine_of(plugin(post_bind=boom))
    observed(engine, *added(make_node(), make_pod("p1")))
    attempted(engine)
    outcome = records.BindSucceeded(uid="p1", node="n1")
    [first, bound] = observed(engine, outcome)
    assert first == outcome
    assert isinstance(bound, records.PodBound)
    assert bound.message.startswith("plugin Broken failed in post_bind: raised ")


def test_a_sign_that_raises_means_unsigned() -> None:
    """The plugin is asked again for every pod."""
    made = plugin(filter=array([0]))
    made.sign = boom
    engine = engine_of(made)
    observed(engine, *added(make_node(), make_pod("p1")))
    assert attempted(engine)[0].node == "n1"
