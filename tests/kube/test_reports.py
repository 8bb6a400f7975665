"""What is written into a pod's status, and what is left alone."""

import asyncio
from typing import Any

import pytest

from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.messages import (
    PatchStatus,
    PodAbsent,
    PodSeen,
    PodShown,
    Reported,
    Unknown,
)
from eventsched.domain.objects import Container, Pod, PodSpec
from eventsched.domain.units import SECOND
from tests.kube.scripted import (
    CONFLICT,
    CUT,
    NOT_FOUND,
    Object,
    RecordedRequest,
    ScriptedAnswer,
    failure,
    serving,
)

UID = "11111111-1111-1111-1111-111111111111"
POD = "/api/v1/namespaces/default/pods/a"
BAD = failure(422, "Invalid", "bad")
BEFORE = "2026-01-31T12:00:00Z"


def report(version: int = 8, message: str = "no room", *, nominated: str | None = None,
           reason: str = "Unschedulable", at: int = 5) -> PatchStatus:  # fmt: skip
    return PatchStatus(UID, "default", "a", version, reason, message, nominated, at * SECOND)


def condition(**fields: Any) -> Object:
    """PodScheduled as an API server shows it."""
    return {"type": "PodScheduled", "status": "False", "lastProbeTime": None,
            "lastTransitionTime": BEFORE, **fields}  # fmt: skip


def pod_object(version: int = 8, *conditions: Object, **status: Any) -> ScriptedAnswer:
    """A pod as an API server shows it."""
    metadata = {"name": "a", "namespace": "default", "uid": UID, "generation": 3,
                "resourceVersion": str(version)}  # fmt: skip
    spec = {"containers": [{"name": "app", "image": "app:1"}]}
    shown = {"phase": "Pending", "conditions": list(conditions), **status}
    return ScriptedAnswer(200, {"kind": "Pod", "metadata": metadata, "spec": spec, "status": shown})


def seen(version: int = 8, **fields: Any) -> PodSeen:
    """The same as scheduling reads it."""
    spec = PodSpec(containers=(Container(image="app:1"),))
    return PodSeen(Pod(uid=UID, name="a", spec=spec, **fields), version)


def carried_out(
    said: list[ScriptedAnswer], *requests: PatchStatus
) -> tuple[list[RecordedRequest], list[Any]]:
    """The requests that a server with these answers gets, and the outcomes."""

    async def run() -> tuple[list[RecordedRequest], list[Any]]:
        async with serving(said) as (server, api):
            calls = RequestDispatcher(api, host="h")
            return server.asked, [await calls.carry_out(each) for each in requests]

    return asyncio.run(run())


def patches(asked: list[RecordedRequest]) -> list[Object]:
    """The bodies of the patches, without the uid that each of them contains."""
    found = [each.body for each in asked if each.what == f"PATCH {POD}/status"]
    for body in found:
        assert body["metadata"].pop("uid") == UID
    return found


def test_the_first_report_of_a_pod_reads_it_and_writes_the_condition() -> None:
    asked, answers = carried_out([pod_object(8), pod_object(9)], report())
    assert answers == [Reported(report(), seen(9))]
    written = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "lastTransitionTime": "1970-01-01T00:00:05Z",
        "observedGeneration": 3,
    }
    body = {"metadata": {"uid": UID, "resourceVersion": "8"}, "status": {"conditions": [written]}}
    assert asked == [
        RecordedRequest(f"GET {POD}", None, "application/octet-stream"),
        RecordedRequest(f"PATCH {POD}/status", body, "application/strategic-merge-patch+json"),
    ]


def test_a_report_equal_to_the_status_is_not_written() -> None:
    there = condition(reason="Unschedulable", message="no room")
    asked, answers = carried_out(
        [pod_object(8), pod_object(9, there)], report(8), report(9, at=6), report(9, at=7)
    )
    assert answers == [
        Reported(report(8), seen(9)),
        Reported(report(9, at=6)),
        Reported(report(9, at=7)),
    ]
    assert len(asked) == 2


def test_a_new_message_is_written_and_the_transition_time_stays() -> None:
    old, new = condition(message="no room"), condition(message="no port")
    asked, answers = carried_out([pod_object(8, old), pod_object(9, new)], report(8, "no port"))
    assert answers == [Reported(report(8, "no port"), seen(9))]
    (patch,) = patches(asked)
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == BEFORE


def test_a_condition_that_changes_gets_a_new_transition_time() -> None:
    asked, _ = carried_out([pod_object(8, condition(status="True")), pod_object(9)], report(8))
    (patch,) = patches(asked)
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == "1970-01-01T00:00:05Z"


def test_a_pod_that_changed_since_it_was_cached_is_read_again() -> None:
    there = condition(reason="Unschedulable", message="no room")
    asked, answers = carried_out(
        [pod_object(8), pod_object(9, there), pod_object(11, there)], report(8), report(11)
    )
    assert answers == [Reported(report(8), seen(9)), Reported(report(11))]
    assert [each.what for each in asked] == [f"GET {POD}", f"PATCH {POD}/status", f"GET {POD}"]


@pytest.mark.parametrize(
    ("held", "wanted", "status"),
    [
        ("", "n1", {"nominatedNodeName": "n1"}),
        ("n1", "", {"nominatedNodeName": None}),
        ("n1", "n2", {"nominatedNodeName": "n2"}),
        ("n1", "n1", None),
        ("n1", None, None),
        ("", "", None),
    ],
)
def test_a_nomination_alone(held: str, wanted: str | None, status: Object | None) -> None:
    request = report(8, "", reason="", nominated=wanted)
    shown = pod_object(8, nominatedNodeName=held)
    asked, answers = carried_out([shown, pod_object(9, nominatedNodeName=wanted or "")], request)
    bodies = [] if status is None else [{"metadata": {"resourceVersion": "8"}, "status": status}]
    assert patches(asked) == bodies
    after = None if status is None else seen(9, nominated_node=wanted or "")
    assert answers == [Reported(request, after)]


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ([NOT_FOUND], PodAbsent(report())),
        ([pod_object(9)], PodShown(report(), seen(9))),
        ([pod_object(8), CONFLICT, pod_object(9)], PodShown(report(), seen(9))),
        ([pod_object(8), NOT_FOUND, NOT_FOUND], PodAbsent(report())),
        ([pod_object(8), BAD, pod_object(8)], Reported(report(), refused="bad")),
        ([pod_object(8), BAD, pod_object(9)], PodShown(report(), seen(9))),
        ([pod_object(8), BAD, NOT_FOUND], PodAbsent(report())),
        ([pod_object(8), BAD, CUT], Unknown(report())),
        ([failure(403, "Forbidden", "no")], Reported(report(), refused="no")),
        (
            [ScriptedAnswer(200, {"metadata": {"name": "a", "uid": UID}, "spec": 5})],
            Reported(report(), refused="HTTP 200"),
        ),
        ([failure(500, "InternalError")], Unknown(report())),
        ([pod_object(8), failure(429, "TooManyRequests")], Unknown(report())),
        ([pod_object(8), CUT], Unknown(report())),
        ([CUT], Unknown(report())),
    ],
)
def test_a_report_that_is_not_written(said: list[ScriptedAnswer], answer: Any) -> None:
    assert carried_out(said, report())[1] == [answer]
