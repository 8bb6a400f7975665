"""Which Events are written, and that a pod which always fails does not fill the server."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.kube.calls.request_bodies import event_name
from eventsched.cluster.messages import Reported, Unknown, WriteEvent
from eventsched.domain.units import SECOND
from tests.kube.scripted import (
    CUT,
    NOT_FOUND,
    Object,
    RecordedRequest,
    ScriptedAnswer,
    failure,
    serving,
)

UID = "11111111-1111-1111-1111-111111111111"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
NODES = "0/3 nodes are available: 3 Insufficient cpu."
SCHEDULED = WriteEvent(
    key="main/5@00ff00ff", namespace="default", name="a", uid=UID, reason="Scheduled",
    action="Binding", type="Normal", note="Successfully assigned default/a to n1", related=None,
    at=5 * SECOND, controller="default-scheduler",
)  # fmt: skip
CREATED, PATCHED = ScriptedAnswer(201, {}), ScriptedAnswer(200, {})


def failed(at: float, note: str = NODES) -> WriteEvent:
    """A failed attempt at a second."""
    micros = round(at * SECOND)
    return replace(SCHEDULED, key=f"main/{micros}@00ff00ff", reason="FailedScheduling",
                   action="Scheduling", type="Warning", note=note, at=micros)  # fmt: skip


def carried_out(said: Any, *requests: WriteEvent) -> tuple[list[RecordedRequest], list[Any]]:
    """What is asked of a server that answers so, and what the requests come to."""

    async def run() -> tuple[list[RecordedRequest], list[Any]]:
        async with serving(said) as (server, api):
            calls = RequestDispatcher(api, host="h")
            return server.asked, [await calls.carry_out(each) for each in requests]

    return asyncio.run(run())


def obliging(asked: RecordedRequest) -> ScriptedAnswer:
    """Answers every request with success."""
    return CREATED if asked.what.startswith("POST") else PATCHED


def written_events(asked: list[RecordedRequest]) -> list[Any]:
    """The writes of Events, each as (note, count, decision)."""
    notes: dict[str, str] = {}
    events = []
    for request in asked:
        if request.what == f"POST {EVENTS}":
            notes[request.body["metadata"]["name"]] = request.body["note"]
            note = request.body["note"]
        else:
            note = notes[request.what.removeprefix(f"PATCH {EVENTS}/")]
        decision = request.body["metadata"]["annotations"]["eventsched.io/decision"]
        events.append((note, request.body.get("series", {}).get("count", 1), decision))
    return events


def test_an_event_reads_as_upstreams() -> None:
    asked, answers = carried_out([CREATED], SCHEDULED)
    assert answers == [Reported(SCHEDULED)]
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "name": event_name(SCHEDULED),
            "namespace": "default",
            "annotations": {"eventsched.io/decision": "main/5@00ff00ff"},
        },
        "eventTime": "1970-01-01T00:00:05.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-h",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": pod_reference("a", UID),
        "note": "Successfully assigned default/a to n1",
        "type": "Normal",
    }
    assert asked == [RecordedRequest(f"POST {EVENTS}", event, "application/json")]


def pod_reference(name: str, uid: str) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": name, "uid": uid}


def test_a_victims_event_names_for_whom() -> None:
    preempted = replace(SCHEDULED, reason="Preempted", related=("Pod", "default", "b", "u2"))
    asked, _ = carried_out([CREATED], preempted)
    assert asked[0].body["related"] == pod_reference("b", "u2")


def test_names_are_those_of_decisions_in_the_order_of_time() -> None:
    requests = [failed(1), failed(1.5), failed(2), replace(failed(2), key="main/7@00ff00ff")]
    names = [event_name(each) for each in requests]
    assert names[:3] == sorted(set(names[:3]))
    assert names == [event_name(each) for each in requests]
    assert len(set(names)) == 4
    assert all(len(name) <= 253 for name in names)
    assert len(event_name(replace(SCHEDULED, name="a" * 253))) == 32


@pytest.mark.parametrize(("length", "cut"), [(1024, 1024), (1025, 1024), (4000, 1024)])
def test_a_long_note_is_cut_as_upstream_cuts_it(length: int, cut: int) -> None:
    asked, _ = carried_out([CREATED], replace(SCHEDULED, note="x" * length))
    note = asked[0].body["note"]
    assert len(note) == cut
    assert note.endswith(" ...") == (length > cut)


def test_a_note_is_cut_between_characters() -> None:
    asked, _ = carried_out([CREATED], replace(SCHEDULED, note="ä" * 1000))
    assert asked[0].body["note"] == "ä" * 510 + " ..."


def test_a_pod_that_fails_all_day_is_reported_every_five_minutes() -> None:
    requests = [failed(10.0 * i) for i in range(1000)]
    asked, answers = carried_out(obliging, *requests)
    assert answers == [Reported(each) for each in requests]
    assert [each.what.split()[0] for each in asked] == ["POST"] + ["PATCH"] * 37
    counts = [count for _, count, _ in written_events(asked)]
    assert counts[:8] == [1, 2, 3, 4, 5, 31, 61, 91]
    assert counts[-1] == 991
    assert written_events(asked)[-1] == (NODES, 991, f"main/{9900 * SECOND}@00ff00ff")
    assert asked[-1].body == {
        "metadata": {"annotations": {"eventsched.io/decision": f"main/{9900 * SECOND}@00ff00ff"}},
        "series": {"count": 991, "lastObservedTime": "1970-01-01T02:45:00.000000Z"},
    }
    assert asked[-1].content_type == "application/merge-patch+json"


def test_other_words_are_an_event_of_their_own_when_there_is_room_for_it() -> None:
    notes = ["no cpu", "no cpu", "no port", "no cpu", "no cpu", "no gpu", "no gpu"]
    times = [0, 1, 3, 7, 15, 25, 305]
    asked, _ = carried_out(obliging, *map(failed, times, notes))
    assert [(note, count) for note, count, _ in written_events(asked)] == [
        ("no cpu", 1),
        ("no cpu", 2),
        ("no port", 1),
        ("no cpu", 1),
        ("no cpu", 2),
        ("no gpu", 1),
    ]


def test_pods_and_profiles_are_counted_apart() -> None:
    requests = [failed(0), replace(failed(1), uid="u2", name="b"),
                replace(failed(2), controller="other")]  # fmt: skip
    asked, _ = carried_out(obliging, *requests)
    assert [each.what for each in asked] == [f"POST {EVENTS}"] * 3


def test_a_request_that_comes_again_is_not_counted_again() -> None:
    asked, answers = carried_out(obliging, failed(0), failed(0), failed(1), failed(1), failed(0))
    assert [count for _, count, _ in written_events(asked)] == [1, 2]
    assert answers == [Reported(failed(t)) for t in (0, 0, 1, 1, 0)]


def test_an_event_of_unknown_outcome_is_written_when_the_request_is_repeated() -> None:
    said = [CUT, failure(409, "AlreadyExists"), failure(500, "InternalError"), PATCHED]
    asked, answers = carried_out(said, failed(0), failed(0), failed(1), failed(1))
    unknown, reported = Unknown(failed(0)), Reported(failed(0))
    assert answers == [unknown, reported, Unknown(failed(1)), Reported(failed(1))]
    assert [count for _, count, _ in written_events(asked)] == [1, 1, 2, 2]


def test_an_expired_event_is_created_again_with_its_count() -> None:
    asked, answers = carried_out([CREATED, NOT_FOUND, CREATED], failed(0), failed(1))
    assert answers == [Reported(failed(0)), Reported(failed(1))]
    assert asked[2].body["metadata"]["name"] == event_name(failed(1))
    assert asked[2].body["series"] == {
        "count": 2,
        "lastObservedTime": "1970-01-01T00:00:01.000000Z",
    }


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (failure(409, "AlreadyExists"), Reported(SCHEDULED)),
        (failure(404, "NotFound", "no namespace"), Reported(SCHEDULED, refused="no namespace")),
        (failure(403, "Forbidden", "ending"), Reported(SCHEDULED, refused="ending")),
        (failure(422, "Invalid", "bad"), Reported(SCHEDULED, refused="bad")),
        (failure(401, "Unauthorized"), Unknown(SCHEDULED)),
        (failure(429, "TooManyRequests"), Unknown(SCHEDULED)),
        (failure(500, "InternalError"), Unknown(SCHEDULED)),
        (CUT, Unknown(SCHEDULED)),
    ],
)
def test_an_event_that_is_not_written(said: ScriptedAnswer, answer: Any) -> None:
    assert carried_out([said], SCHEDULED)[1] == [answer]
