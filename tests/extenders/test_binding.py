"""Binds made by an extender: the outcome that the leader gets, and how it reacts."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from eventsched.cluster.extenders.client import FailedError
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import RESOURCES
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    GetPod,
    PodAbsent,
    PodSeen,
    PodShown,
    TouchPod,
    Unknown,
)
from eventsched.domain import records
from eventsched.domain.records import Bind
from eventsched.process.extender_clients import bound, keeps
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.effects.intents import Intents
from eventsched.runtime.reconciliation.seen_versions import SeenResources
from eventsched.scheduling.config.sections import ExtenderSection as Section
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework.extender import Extender
from tests.builders import added, make_pod
from tests.unit.scheduling.test_extenders import engine_of

REQUEST = BindPod("p1", "default", "p1", "n0", 7, "s/1@0", extender=0)
SEEN = PodSeen(make_pod(), 9)


class Binder:
    """An extender that fails in one way, if at all."""

    def __init__(self, failed: FailedError | None, *, ignorable: bool = False) -> None:
        self.failed, self.ignorable = failed, ignorable

    async def bind(self, request: BindPod) -> None:
        """Binds, or fails."""
        if self.failed is not None:
            raise self.failed

    def is_ignorable(self, extender: int) -> bool:
        """As it was made."""
        return self.ignorable


class Calls:
    """An API server that gives one answer, and keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    async def carry_out(self, request: Any) -> Any:
        """The answer, to this request."""
        self.asked.append(request)
        return replace(self.answer, request=request)


GET = GetPod("p1", "default", "p1")
REFUSED = FailedError("node is reserved", refused=True)
SILENT = FailedError("no answer within 5 s", refused=False)


@pytest.mark.parametrize(
    ("binder", "shown", "asked", "told"),
    [
        (Binder(None), None, [], Bound(REQUEST)),
        (Binder(SILENT), None, [], Unknown(REQUEST)),
        (
            Binder(REFUSED), PodShown(GET, SEEN), [GET],
            PodShown(REQUEST, SEEN, "node is reserved"),
        ),
        (Binder(REFUSED), PodAbsent(GET), [GET], PodAbsent(REQUEST)),
        (Binder(REFUSED), Unknown(GET), [GET], Unknown(REQUEST)),
        (
            Binder(REFUSED, ignorable=True), Bound(REQUEST), [replace(REQUEST, extender=-1)],
            Bound(REQUEST),
        ),
        (
            Binder(SILENT, ignorable=True), PodShown(REQUEST, SEEN),
            [replace(REQUEST, extender=-1)], PodShown(REQUEST, SEEN),
        ),
    ],
)  # fmt: skip
def test_the_outcome_of_an_extenders_bind(
    binder: Any, shown: Any, asked: list[Any], told: Any
) -> None:
    calls: Any = Calls(shown)
    assert asyncio.run(bound(binder, calls, REQUEST)) == told
    assert calls.asked == asked


def intents_of(engine: Engine) -> tuple[Intents, list[Any]]:
    """A pod's intent, committed, and the requests that follow."""
    decisions, seen = OpenDecisions("s"), SeenResources()
    intents = Intents(engine.state, decisions, seen.of("Pod"), engine.binder)
    logged = [each for one in added(make_pod()) for each in engine.observe(one, 0)]
    logged += engine.schedule_next()
    for each in logged:
        decisions.follow(each)
    intents.follow(logged)
    effect = Bind(uid="p1", namespace="default", name="p1", node="n0", attempt=1, decision=0)
    return intents, list(intents.committed(effect))


def test_an_extender_that_refuses_ends_the_intent_with_its_words() -> None:
    engine = engine_of(Extender(0, "http://binder", binds=True), nodes=1)
    intents, [call] = intents_of(engine)
    assert isinstance(call, BindPod)
    assert call.extender == 0
    [touch] = intents.answered(PodShown(call, PodSeen(make_pod(), 99), "node is reserved"))
    assert isinstance(touch, TouchPod)
    [voided] = intents.answered(PodShown(touch, PodSeen(make_pod(), 100)))
    assert voided == records.BindVoided(
        uid="p1", node="n0", attempt=1, reason="node is reserved", resource_version=100
    )


def test_a_pod_that_it_does_not_look_after_is_bound_as_usual() -> None:
    resources = frozenset({"example.com/gpu"})
    engine = engine_of(Extender(0, "http://binder", binds=True, resources=resources), nodes=1)
    _, [call] = intents_of(engine)
    assert isinstance(call, BindPod)
    assert call.extender == -1


# --- what is kept for extenders -------------------------------------------------------------------

POD_BODY = (
    b'{"metadata":{"name":"p1","uid":"p1","resourceVersion":"7","managedFields":[{"a":1}]},'
    b'"spec":{"containers":[],"terminationGracePeriodSeconds":30},"status":{"phase":"Pending"}}'
)


@pytest.mark.parametrize(
    ("section", "kept"),
    [
        (Section(filter_verb="filter"), {"Pod", "Node"}),
        (Section(filter_verb="filter", node_cache_capable=True), {"Pod"}),
        (Section(bind_verb="bind"), {"Pod"}),
    ],
)
def test_bytes_are_kept_where_somebody_needs_them(section: Section, kept: set[str]) -> None:
    assert set(keeps([section])) == kept
    assert keeps([]) == {}


def test_pods_are_kept_as_they_are_while_they_wait() -> None:
    [resource] = [each for each in RESOURCES if each.type == "Pod"]
    decoder = Decoder(resource, keeps([Section(filter_verb="filter")])["Pod"])
    raw = decoder.object(POD_BODY).raw
    assert raw == POD_BODY.replace(b',"managedFields":[{"a":1}]', b"")
    on_node = POD_BODY.replace(b'"spec":{', b'"spec":{"nodeName":"n1",')
    assert decoder.object(on_node).raw == b""
    everyone = keeps([Section(preempt_verb="preempt")])["Pod"]
    assert Decoder(resource, everyone).object(on_node).raw
    assert Decoder(resource).object(POD_BODY).raw == b""
