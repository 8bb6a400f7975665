"""What an API server does not let us do: how long it counts, and what it is called."""

import json

import pytest

from eventsched.cluster.kube.http.api import HttpAnswer
from eventsched.cluster.kube.http.refusals import Refusals
from tests.kube.fakeapi import PODS, refusal
from tests.kube.watched import run, serving, until

BIND = "create pods/binding"
TEXT = (
    'pods "web" is forbidden: User "x" cannot create resource "pods/binding" in API group "" in '
    'the namespace "shop"'
)
RULE = '{apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]}'


class Clock:
    """Seconds."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def said(status: int, message: str) -> HttpAnswer:
    """A Status."""
    return HttpAnswer(status, json.dumps({"kind": "Status", "message": message}).encode())


def test_a_forbidden_request_is_listed_with_its_rule_until_it_succeeds() -> None:
    refusals = Refusals(Clock())
    refusals.saw(BIND, said(403, TEXT))
    assert refusals.forbidden == [
        f"may not {BIND}: {TEXT}; add the rule {RULE} to the scheduler's role"
    ]
    refusals.saw(BIND, HttpAnswer(201, b""))
    assert refusals.forbidden == []


def test_a_forbidden_request_that_is_not_repeated_is_dropped_after_a_while() -> None:
    """For example a bind, by a replica that no longer leads."""
    clock = Clock()
    refusals = Refusals(clock)
    refusals.saw(BIND, said(403, TEXT))
    clock.now += 200
    refusals.saw(BIND, said(403, TEXT))
    clock.now += 300
    assert len(refusals.forbidden) == 1
    clock.now += 1
    assert refusals.forbidden == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (said(401, "Unauthorized"), [f"may not {BIND}: Unauthorized"]),
        (said(403, "exceeded quota: pods=3"), []),  # by admission, for the one object
        (said(409, "already assigned"), []),
        (said(500, "etcdserver: request timed out"), []),
    ],
)
def test_what_counts(answer: HttpAnswer, expected: list[str]) -> None:
    refusals = Refusals(Clock())
    refusals.saw(BIND, answer)
    assert refusals.forbidden == expected


def test_an_unanswered_request_does_not_count_as_forbidden() -> None:
    """Also if it was forbidden before: that may have changed."""
    refusals = Refusals(Clock())
    refusals.saw(BIND, said(403, TEXT))
    refusals.unanswered(BIND, "connection broken")
    assert refusals.forbidden == []
    assert refusals.present == [f"no answer to {BIND}: connection broken"]


def test_a_revoked_right_is_reported_with_its_rule() -> None:
    """In the report of the broken watch, which the log and readiness show."""
    message = 'pods is forbidden: User "x" cannot watch resource "pods" in API group "" at the …'

    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            await watched.follow()
            server.fail("watch", PODS, refusal(403, message))
            server.say(PODS, None)
            await until(lambda: bool(watched.reports_of("watch_broken")))
            [line] = watched.reports_of("watch_broken")
            assert line["reason"] == (
                f"{message}; add the rule "
                '{apiGroups: [""], resources: ["pods"], verbs: ["watch"]} to the scheduler\'s role'
            )

    run(scenario())
