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
from eventsched.process.extenders.extender_clients import bound, keeps
from eventsched.runtime.effects.bind_tracker import BindTracker
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.reconciliation.seen_versions import SeenResources
from eventsched.scheduling.config.sections import ExtenderSection as Section
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework.extender import Extender
from tests.builders import added, make_pod
from tests.unit.scheduling.test_extenders import engine_of

REQUEST = BindPod("p1", "default", "p1", "n0", 7, "s/1@0", extender=0)
SEEN = PodSeen(make_pod(), 9)


class Binder:
    """An extender whose binds fail with ``failed``, or succeed if it is None."""

    def __init__(self, failed: FailedError | None, *, ignorable: bool = False) -> None:
        self.failed, self.ignorable = failed, ignorable

    async def bind(self, request: BindPod) -> None:
        """Binds, or fails."""
        if self.failed is not None:
            raise self.failed

    def is_ignorable(self, extender: int) -> bool:
        """The configured value."""
        return self.ignorable


class Calls:
    """An API server that gives one answer. ``requests`` has what was requested."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[Any] = []

    async def carry_out(self, request: Any) -> Any:
        """The answer to this request."""
        self.requests.append(request)
        return replace(self.answer, request=request)


GET = GetPod("p1", "default", "p1")
REFUSED = FailedError("node is reserved", refused=True)
SILENT = FailedError("no answer within 5 s", refused=False)


@pytest.mark.parametrize(
    ("binder", "answer", "requests", "outcome"),
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
    binder: Any, answer: Any, requests: list[Any], outcome: Any
) -> None:
    calls: Any = Calls(answer)
    assert asyncio.run(bound(binder, calls, REQUEST)) == outcome
    assert calls.requests == requests


def intents_of(engine: Engine) -> tuple[BindTracker, list[Any]]:
    """The intents after a pod's bind intent is committed, and the requests that follow."""
    decisions, seen = OpenDecisions("s"), SeenResources()
    intents = BindTracker(engine.state, decisions, seen.of("Pod"), engine.binder)
    logged = [entry for stimulus in added(make_pod()) for entry in engine.observe(stimulus, 0)]
    logged += engine.schedule_next()
    for entry in logged:
        decisions.on_record(entry)
    intents.on_records(logged)
    effect = Bind(uid="p1", namespace="default", name="p1", node="n0", attempt=1, decision=0)
    return intents, list(intents.committed(effect))


def test_the_refusal_of_an_extender_voids_the_intent_with_its_reason() -> None:
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


def test_a_pod_that_the_extender_does_not_manage_is_bound_as_usual() -> None:
    resources = frozenset({"example.com/gpu"})
    engine = engine_of(Extender(0, "http://binder", binds=True, resources=resources), nodes=1)
    _, [call] = intents_of(engine)
    assert isinstance(call, BindPod)
    assert call.extender == -1


# --- stored JSON for extenders --------------------------------------------------------------------

POD_BODY = (
    b'{"metadata":{"name":"p1","uid":"p1","resourceVersion":"7","managedFields":[{"a":1}]},'
    b'"spec":{"containers":[],"terminationGracePeriodSeconds":30},"status":{"phase":"Pending"}}'
)


@pytest.mark.parametrize(
    ("section", "kinds"),
    [
        (Section(filter_verb="filter"), {"Pod", "Node"}),
        (Section(filter_verb="filter", node_cache_capable=True), {"Pod"}),
        (Section(bind_verb="bind"), {"Pod"}),
    ],
)
def test_json_is_stored_if_an_extender_needs_it(section: Section, kinds: set[str]) -> None:
    assert set(keeps([section])) == kinds
    assert keeps([]) == {}


def test_the_json_of_waiting_pods_is_stored_unchanged() -> None:
    [resource] = [resource for resource in RESOURCES if resource.type == "Pod"]
    decoder = Decoder(resource, keeps([Section(filter_verb="filter")])["Pod"])
    raw = decoder.object(POD_BODY).raw
    assert raw == POD_BODY.replace(b',"managedFields":[{"a":1}]', b"")
    on_node = POD_BODY.replace(b'"spec":{', b'"spec":{"nodeName":"n1",')
    assert decoder.object(on_node).raw == b""
    all_pods = keeps([Section(preempt_verb="preempt")])["Pod"]
    assert Decoder(resource, all_pods).object(on_node).raw
    assert Decoder(resource).object(POD_BODY).raw == b""
