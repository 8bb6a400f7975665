"""What is asked of an API server for each request, and what its answers come to."""

import asyncio
from typing import Any

import pytest
import structlog

from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    PodAbsent,
    PodSeen,
    PodShown,
    TouchPod,
    Unknown,
)
from eventsched.domain.objects import Container, Pod, PodSpec
from eventsched.domain.units import SECOND
from tests.kube import skipping_time
from tests.kube.scripted import (
    CONFLICT,
    CUT,
    DONE,
    NOT_FOUND,
    SILENCE,
    Object,
    RecordedRequest,
    ScriptedAnswer,
    failure,
    serving,
)

UID = "11111111-1111-1111-1111-111111111111"
OTHER = "22222222-2222-2222-2222-222222222222"
BIND = BindPod(UID, "default", "a", "n1", 7, "main/5@00ff00ff")
GET = GetPod(UID, "default", "a")
TOUCH = TouchPod(UID, "default", "a")
EVICT = EvictPod(UID, "default", "a", "main/9@00ff00ff")
POD = "/api/v1/namespaces/default/pods/a"
FORBIDDEN = failure(
    403,
    "Forbidden",
    'pods "a" is forbidden: User "me" cannot create resource "pods/binding" in API group "" in the'
    ' namespace "default"',
)


def pod_object(version: int = 8, *, uid: str = UID, node: str = "", phase: str = "Pending",
               deleting: bool = False, conditions: list[Any] | None = None) -> Object:  # fmt: skip
    """A pod as an API server shows it."""
    metadata: Object = {"name": "a", "namespace": "default", "uid": uid, "generation": 3,
                        "resourceVersion": str(version)}  # fmt: skip
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    spec: Object = {"containers": [{"name": "app", "image": "app:1"}]}
    if node:
        spec["nodeName"] = node
    status: Object = {"phase": phase, **({"conditions": conditions} if conditions else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def seen(version: int = 8, **fields: Any) -> PodSeen:
    """The same as scheduling reads it."""
    spec = PodSpec(containers=(Container(image="app:1"),))
    return PodSeen(Pod(uid=UID, name="a", spec=spec, **fields), version)


def carried_out(request: Any, *said: ScriptedAnswer) -> tuple[list[RecordedRequest], Any]:
    """What is asked of a server that answers so, and what the request comes to."""

    async def run() -> tuple[list[RecordedRequest], Any]:
        async with serving(said) as (server, api):
            calls = RequestDispatcher(api, host="h", now=lambda: 5 * SECOND, nonce=lambda: "N")
            answer = await calls.carry_out(request)
            return server.asked, answer

    return skipping_time.run(run())


def test_a_bind_has_preconditions_and_names_its_decision() -> None:
    asked, answer = carried_out(BIND, DONE)
    assert answer == Bound(BIND)
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "a",
            "namespace": "default",
            "uid": UID,
            "resourceVersion": "7",
            "annotations": {"eventsched.io/decision": "main/5@00ff00ff"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
    assert asked == [RecordedRequest(f"POST {POD}/binding", binding, "application/json")]


@pytest.mark.parametrize(
    "refusal",
    [CONFLICT, NOT_FOUND, FORBIDDEN, failure(422, "Invalid"), failure(400, "BadRequest")],
)
@pytest.mark.parametrize(
    ("shown", "answer"),
    [
        (ScriptedAnswer(200, pod_object(9)), PodShown(BIND, seen(9))),
        (ScriptedAnswer(200, pod_object(9, node="n2")), PodShown(BIND, seen(9, node_name="n2"))),
        (ScriptedAnswer(200, pod_object(9, deleting=True)), PodShown(BIND, seen(9, deleting=True))),
        (ScriptedAnswer(200, pod_object(9, uid=OTHER)), PodAbsent(BIND)),
        (ScriptedAnswer(200, pod_object(9, phase="Failed")), PodAbsent(BIND)),
        (NOT_FOUND, PodAbsent(BIND)),
        (ScriptedAnswer(404, "<html>"), Unknown(BIND)),
        (failure(500, "InternalError"), Unknown(BIND)),
        (FORBIDDEN, Unknown(BIND)),
        (CUT, Unknown(BIND)),
    ],
)
def test_after_a_refused_bind_the_pod_is_read(
    refusal: ScriptedAnswer, shown: ScriptedAnswer, answer: Any
) -> None:
    asked, found = carried_out(BIND, refusal, shown)
    assert found == answer
    assert [each.what for each in asked] == [f"POST {POD}/binding", f"GET {POD}"]


@pytest.mark.parametrize(
    "said",
    [
        CUT,
        SILENCE,
        failure(401, "Unauthorized"),
        failure(429, "TooManyRequests"),
        failure(500, "InternalError"),
        failure(503, "ServiceUnavailable"),
        failure(504, "Timeout"),
        ScriptedAnswer(502, "<html>"),
        ScriptedAnswer(302, ""),
    ],
)
@pytest.mark.parametrize("request_", [BIND, GET, TOUCH, EVICT])
def test_without_a_clear_answer_the_outcome_is_unknown(request_: Any, said: ScriptedAnswer) -> None:
    asked, answer = carried_out(request_, said)
    assert answer == Unknown(request_)
    assert len(asked) == 1


def test_a_bind_that_the_server_puts_off_is_sent_again_when_it_says() -> None:
    put_off = failure(429, "TooManyRequests")._replace(retry_after="3")

    async def run() -> tuple[list[str], Any, list[float]]:
        paused: list[float] = []

        async def sleep(seconds: float) -> None:
            paused.append(seconds)

        said = [put_off, put_off, DONE]
        async with serving(said, patience=30.0, sleep=sleep, draw=lambda: 0.0) as (server, api):
            answer = await RequestDispatcher(api, host="h").carry_out(BIND)
            return server.whats, answer, paused

    whats, answer, paused = asyncio.run(run())
    assert answer == Bound(BIND)
    assert whats == [f"POST {POD}/binding"] * 3
    assert paused == [3.0, 3.0]


def test_a_pod_is_read_without_a_resource_version() -> None:
    asked, answer = carried_out(GET, ScriptedAnswer(200, pod_object()))
    assert answer == PodShown(GET, seen())
    assert asked == [RecordedRequest(f"GET {POD}", None, "application/octet-stream")]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (NOT_FOUND, PodAbsent(GET)),
        (ScriptedAnswer(200, pod_object(uid=OTHER)), PodAbsent(GET)),
        (ScriptedAnswer(200, pod_object(phase="Succeeded")), PodAbsent(GET)),
        (ScriptedAnswer(200, {"metadata": {"name": "a", "uid": UID}, "spec": 5}), Unknown(GET)),
        (ScriptedAnswer(200, "{"), Unknown(GET)),
        (FORBIDDEN, Unknown(GET)),
    ],
)
def test_outcomes_of_reading_a_pod(said: ScriptedAnswer, answer: Any) -> None:
    assert carried_out(GET, said)[1] == answer


def test_a_touch_writes_a_nonce_into_a_condition() -> None:
    asked, answer = carried_out(TOUCH, ScriptedAnswer(200, pod_object(9)))
    assert answer == PodShown(TOUCH, seen(9))
    condition = {
        "type": "eventsched.io/Touched",
        "status": "True",
        "reason": "BindFenced",
        "message": "older binds fail from here on (N)",
    }
    body = {"metadata": {"uid": UID}, "status": {"conditions": [condition]}}
    assert asked == [
        RecordedRequest(f"PATCH {POD}/status", body, "application/strategic-merge-patch+json")
    ]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ([NOT_FOUND, NOT_FOUND], PodAbsent(TOUCH)),
        ([CONFLICT, ScriptedAnswer(200, pod_object(uid=OTHER))], PodAbsent(TOUCH)),
        ([CONFLICT, ScriptedAnswer(200, pod_object(9))], Unknown(TOUCH)),
        ([FORBIDDEN, ScriptedAnswer(200, pod_object(9))], Unknown(TOUCH)),
        ([ScriptedAnswer(200, pod_object(9, phase="Failed"))], PodAbsent(TOUCH)),
    ],
)
def test_a_pod_that_was_not_touched_is_never_shown(said: list[ScriptedAnswer], answer: Any) -> None:
    assert carried_out(TOUCH, *said)[1] == answer


def test_a_victim_gets_the_condition_and_is_deleted_with_its_own_grace() -> None:
    deleting = ScriptedAnswer(200, pod_object(10, deleting=True, node="n1"))
    pods = ScriptedAnswer(200, pod_object()), ScriptedAnswer(200, pod_object(9))
    asked, answer = carried_out(EVICT, *pods, deleting, deleting)
    assert answer == PodShown(EVICT, seen(10, deleting=True, node_name="n1"))
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod"
        " (main/9@00ff00ff)",
        "lastTransitionTime": "1970-01-01T00:00:05Z",
        "observedGeneration": 3,
    }
    patch = {"metadata": {"uid": UID}, "status": {"conditions": [condition]}}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": UID}}
    assert asked == [
        RecordedRequest(f"GET {POD}", None, "application/octet-stream"),
        RecordedRequest(f"PATCH {POD}/status", patch, "application/strategic-merge-patch+json"),
        RecordedRequest(f"DELETE {POD}", options, "application/json"),
        RecordedRequest(f"GET {POD}", None, "application/octet-stream"),
    ]


DISPLACED = [
    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
]
THERE = ScriptedAnswer(200, pod_object())


@pytest.mark.parametrize(
    ("said", "methods", "answer"),
    [
        ([NOT_FOUND], "GET", PodAbsent(EVICT)),
        (
            [ScriptedAnswer(200, pod_object(deleting=True))],
            "GET",
            PodShown(EVICT, seen(deleting=True)),
        ),
        (
            [ScriptedAnswer(200, pod_object(conditions=DISPLACED)), THERE, NOT_FOUND],
            "GET DELETE GET",
            PodAbsent(EVICT),
        ),
        ([THERE, FORBIDDEN, THERE], "GET PATCH GET", PodShown(EVICT, seen())),
        ([THERE, NOT_FOUND, NOT_FOUND], "GET PATCH GET", PodAbsent(EVICT)),
        ([THERE, CUT], "GET PATCH", Unknown(EVICT)),
        ([THERE, THERE, FORBIDDEN, THERE], "GET PATCH DELETE GET", PodShown(EVICT, seen())),
        (
            [THERE, THERE, CONFLICT, ScriptedAnswer(200, pod_object(uid=OTHER))],
            "GET PATCH DELETE GET",
            PodAbsent(EVICT),
        ),
        ([THERE, THERE, SILENCE], "GET PATCH DELETE", Unknown(EVICT)),
        ([THERE, THERE, THERE, CUT], "GET PATCH DELETE GET", Unknown(EVICT)),
    ],
)
def test_an_eviction_step_by_step(said: list[ScriptedAnswer], methods: str, answer: Any) -> None:
    asked, found = carried_out(EVICT, *said)
    assert found == answer
    assert [each.what.split()[0] for each in asked] == methods.split()


def test_unanswered_requests_are_logged_once_until_one_is_answered() -> None:
    async def run() -> tuple[list[str], list[str]]:
        async with serving([CUT, CUT, DONE]) as (_, api):
            calls = RequestDispatcher(api, host="h", clock=lambda: 0.0)
            await calls.carry_out(BIND)
            await calls.carry_out(BIND)
            during = calls.refusals.present
            await calls.carry_out(BIND)
            return during, calls.refusals.present

    with structlog.testing.capture_logs() as lines:
        during, afterwards = asyncio.run(run())
    assert during == ["no answer to BindPod: connection broken: Server disconnected"]
    assert afterwards == []
    assert [(each["event"], each["log_level"]) for each in lines] == [
        ("no answer", "error"),
        ("the API server accepts this again", "info"),
    ]


def test_a_forbidden_bind_is_reported_with_the_missing_rule_until_it_is_allowed() -> None:
    async def run() -> tuple[list[str], list[str], Any]:
        async with serving([FORBIDDEN, THERE, DONE]) as (_, api):
            calls = RequestDispatcher(api, host="h")
            await calls.carry_out(BIND)
            during = calls.refusals.present
            await calls.carry_out(BIND)
            return during, calls.refusals.present, calls.counts

    during, afterwards, counts = asyncio.run(run())
    assert during == [
        'may not create pods/binding: pods "a" is forbidden: User "me" cannot create resource'
        ' "pods/binding" in API group "" in the namespace "default"; add the rule {apiGroups:'
        ' [""], resources: ["pods/binding"], verbs: ["create"]} to the scheduler\'s role'
    ]
    assert afterwards == []
    assert counts == {("BindPod", "PodShown"): 1, ("BindPod", "Bound"): 1}
