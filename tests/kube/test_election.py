"""The election over a small API server that stores one Lease. Waits are skipped, except for sockets
(see ``skipping_time``)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from eventsched.cluster.kube.http.api import ApiClient
from eventsched.cluster.kube.http.refusals import Refusals
from eventsched.cluster.kube.lease.candidate import Timing
from eventsched.cluster.kube.lease.election import LeaseParticipant, own_identity
from tests.kube import skipping_time
from tests.kube.scripted import (
    CUT,
    SILENCE,
    Object,
    RecordedRequest,
    ScriptedAnswer,
    failure,
    serving,
)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
FAST = Timing(lease_duration=3.0, renew_deadline=1.0, retry_period=0.1)
SLOW = Timing(lease_duration=60.0, renew_deadline=40.0, retry_period=20.0)
TEST_SECONDS = 20.0
"""Seconds of the loop for a test. With SLOW an unwatched Lease is read no earlier than that."""


class Leases:
    """Stores one Lease. ``refuse`` may answer a request instead; ``watchable`` says whether watches
    are allowed."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self.version = 0
        self.watches: list[asyncio.Queue[Object | None]] = []
        self.watchable = True
        self.refuse: Callable[[RecordedRequest], ScriptedAnswer | None] = lambda asked: None

    def answer(self, asked: RecordedRequest) -> ScriptedAnswer:
        refused = self.refuse(asked)
        if refused is not None:
            return refused
        method = asked.what.split()[0]
        if method == "GET" and "watch=true" in asked.what:
            return self._watch(asked)
        if method == "GET":
            return (
                failure(404, "NotFound") if self.lease is None else ScriptedAnswer(200, self.lease)
            )
        if method == "POST" and self.lease is not None:
            return failure(409, "AlreadyExists")
        if method == "PUT":
            expected = asked.body["metadata"]["resourceVersion"]
            if self.lease is None or expected != self.lease["metadata"]["resourceVersion"]:
                return failure(409, "Conflict")
        return ScriptedAnswer(201 if method == "POST" else 200, self.store(asked.body))

    def _watch(self, asked: RecordedRequest) -> ScriptedAnswer:
        assert "fieldSelector=metadata.name%3Ds" in asked.what
        if not self.watchable:
            return failure(403, "Forbidden", "no watching")
        queue: asyncio.Queue[Object | None] = asyncio.Queue()
        if self.lease is not None:
            queue.put_nowait({"type": "ADDED", "object": self.lease})
        self.watches.append(queue)
        return ScriptedAnswer(200, queue)

    def store(self, made: Object) -> Object:
        kind = "ADDED" if self.lease is None else "MODIFIED"
        self.version += 1
        metadata = {**made["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**made, "metadata": metadata}
        self._tell(kind, self.lease)
        return self.lease

    def delete(self) -> None:
        assert self.lease is not None
        self.version += 1
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", self.lease)
        self.lease = None

    def _tell(self, kind: str, lease: Object) -> None:
        for queue in self.watches:
            queue.put_nowait({"type": kind, "object": lease})

    @property
    def holder(self) -> str:
        return "" if self.lease is None else str(self.lease["spec"]["holderIdentity"])


class Stage:
    """A server with candidates."""

    def __init__(self, leases: Leases, api: ApiClient) -> None:
        self.leases = leases
        self.api = api
        self.refusals = Refusals(lambda: 0.0)
        self.elections: list[LeaseParticipant] = []

    def candidate(
        self, identity: str, timing: Timing = SLOW, *, competes: bool = True
    ) -> LeaseParticipant:
        made = LeaseParticipant(self.api, namespace="kube-system", name="s", identity=identity,
                        timing=timing, refusals=self.refusals, draw=lambda: 0.0,
                        clock=asyncio.get_running_loop().time)  # fmt: skip
        self.elections.append(made)
        made.start(competes=competes)
        return made


@asynccontextmanager
async def stage() -> AsyncIterator[Stage]:
    leases = Leases()
    async with serving(leases.answer) as (_, api):
        made = Stage(leases, api)
        try:
            yield made
        finally:
            for election in made.elections:
                await election.close()
            for queue in leases.watches:
                queue.put_nowait(None)


def staged(play: Callable[[Stage], Awaitable[Any]]) -> Any:
    """Plays on a stage for at most ``TEST_SECONDS``."""

    async def run() -> Any:
        async with asyncio.timeout(TEST_SECONDS), stage() as made:
            return await play(made)

    return skipping_time.run(run())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(TEST_SECONDS):
        while not condition():
            await asyncio.sleep(0.05)


def test_an_observer_of_an_expired_lease_wins_as_soon_as_it_competes() -> None:

    async def play(stage: Stage) -> list[Any]:
        first = stage.candidate("a", FAST)
        await first.won()
        await first.close()
        second = stage.candidate("b", FAST, competes=False)
        await until(lambda: second.leader == "a")
        await asyncio.sleep(FAST.lease_duration)
        seen: list[Any] = [second.leading, stage.leases.holder]
        second.compete()
        async with asyncio.timeout(FAST.lease_duration / 2):
            await second.won()
        return [*seen, stage.leases.holder]

    assert staged(play) == [False, "a", "b"]


def test_a_released_lease_is_taken_by_the_other_candidate() -> None:
    async def play(stage: Stage) -> list[Any]:
        first, second = stage.candidate("a"), None
        await first.won()
        seen: list[Any] = [(first.leading, first.lost.is_set(), first.leader)]
        second = stage.candidate("b")
        await until(lambda: second.leader == "a" and second._candidate.watched)
        seen.append((second.leading, second.lost.is_set()))
        await first.release()
        seen.append((first.leading, first.lost.is_set()))
        await second.won()
        assert stage.leases.lease is not None
        return [*seen, (second.leading, stage.leases.lease["spec"]["leaseTransitions"])]

    assert staged(play) == [(True, False, "a"), (False, True), (False, True), (True, 1)]


def test_a_deleted_lease_is_taken_at_once() -> None:
    async def play(stage: Stage) -> str:
        first = stage.candidate("a")
        await first.won()
        second = stage.candidate("b")
        await until(lambda: second._candidate.watched)
        await first.close()
        stage.leases.delete()
        await second.won()
        return stage.leases.holder

    assert staged(play) == "b"


def test_a_lease_that_is_not_renewed_is_taken_when_it_expires() -> None:
    async def play(stage: Stage) -> str:
        first = stage.candidate("a", FAST)
        await first.won()
        await first.close()
        second = stage.candidate("b", FAST)
        await second.won()
        return stage.leases.holder

    assert staged(play) == "b"


@pytest.mark.parametrize("answer", [SILENCE, CUT, failure(500, "InternalError")])
def test_a_leader_that_cannot_renew_loses_at_its_deadline_and_may_win_again(
    answer: ScriptedAnswer,
) -> None:
    async def play(stage: Stage) -> tuple[bool, str]:
        election = stage.candidate("a", FAST)
        await election.won()
        stage.leases.refuse = lambda asked: answer
        await election.lost.wait()
        holder = stage.leases.holder
        stage.leases.refuse = lambda asked: None
        await election.won()
        return election.leading, holder

    assert staged(play) == (True, "a")


def annotations(asked: RecordedRequest) -> tuple[str, Any]:
    """The method of a request, and the annotations that it writes."""
    method = asked.what.split()[0]
    return method, asked.body and asked.body["metadata"].get("annotations")


def test_an_annotation_goes_with_the_next_renewal() -> None:
    """It costs no request; what is not changed stays."""

    async def play(stage: Stage) -> list[Any]:
        election = stage.candidate("a", FAST)
        election.annotate("early", "not leading yet")
        await election.won()
        await until(lambda: election._candidate.watched)
        seen: list[tuple[str, Any]] = []
        stage.leases.refuse = lambda asked: seen.append(annotations(asked))
        election.annotate("checkpoint", "1")
        await until(lambda: len(seen) == 1)
        election.annotate("checkpoint", "2")
        await until(lambda: len(seen) == 3)
        return seen[:3]

    first, second = {"checkpoint": "1"}, {"checkpoint": "2"}
    assert staged(play) == [("PUT", first), ("PUT", second), ("PUT", second)]


def test_an_annotation_is_written_again_after_a_failure() -> None:
    async def play(stage: Stage) -> Any:
        election = stage.candidate("a", FAST)
        await election.won()
        stage.leases.refuse = lambda asked: failure(500, "InternalError")
        election.annotate("checkpoint", "1")
        await asyncio.sleep(3 * FAST.retry_period)
        assert election.leading
        stage.leases.refuse = lambda asked: None
        lease = stage.leases
        await until(lambda: lease.lease and lease.lease["metadata"].get("annotations"))
        return lease.lease and lease.lease["metadata"]["annotations"]

    assert staged(play) == {"checkpoint": "1"}


def test_an_annotation_of_a_leader_that_has_lost_is_dropped() -> None:
    """Another leader may have written a newer one meanwhile."""

    async def play(stage: Stage) -> Any:
        election = stage.candidate("a", FAST)
        await election.won()
        stage.leases.refuse = lambda asked: failure(500, "InternalError")
        election.annotate("checkpoint", "1")
        await election.lost.wait()
        election.annotate("checkpoint", "2")
        stage.leases.refuse = lambda asked: None
        await election.won()
        seen: list[tuple[str, Any]] = []
        stage.leases.refuse = lambda asked: seen.append(annotations(asked))
        await until(lambda: [each for each in seen if each[0] == "PUT"])
        return stage.leases.lease and stage.leases.lease["metadata"].get("annotations")

    assert staged(play) is None


def test_a_leader_learns_at_once_that_another_has_the_lease() -> None:
    async def play(stage: Stage) -> tuple[bool, str]:
        election = stage.candidate("a")
        await election.won()
        await until(lambda: election._candidate.watched)
        assert stage.leases.lease is not None
        spec = {**stage.leases.lease["spec"], "holderIdentity": "b"}
        stage.leases.store({**stage.leases.lease, "spec": spec})
        await election.lost.wait()
        return election.leading, election.leader

    assert staged(play) == (False, "b")


def test_a_lease_that_may_not_be_watched_is_read_periodically() -> None:
    async def play(stage: Stage) -> list[str]:
        stage.leases.watchable = False
        first = stage.candidate("a", FAST)
        await first.won()
        second = stage.candidate("b", FAST)
        await until(lambda: second.leader == "a")
        await first.release()
        await second.won()
        return stage.refusals.present

    assert staged(play) == []


FORBIDDEN = failure(
    403,
    "Forbidden",
    'leases.coordination.k8s.io "s" is forbidden: User "me" cannot get resource "leases" in API'
    ' group "coordination.k8s.io" in the namespace "kube-system"',
)


def test_forbidden_requests_are_reported_and_repeated() -> None:
    async def play(stage: Stage) -> tuple[list[str], list[str]]:
        stage.leases.refuse = lambda asked: FORBIDDEN
        election = stage.candidate("a", FAST)
        await until(lambda: len(stage.refusals.present) == 2)
        during = stage.refusals.present
        stage.leases.refuse = lambda asked: None
        await election.won()
        await until(lambda: not stage.refusals.present)
        return during, stage.refusals.present

    during, afterwards = staged(play)
    rule = (
        '; add the rule {apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get"]}'
        " to the scheduler's role"
    )
    assert sorted(sentence.split(":")[0] for sentence in during) == [
        "may not get lease kube-system/s",
        "may not watch lease kube-system/s",
    ]
    assert all(sentence.endswith(rule) for sentence in during)
    assert afterwards == []


def test_a_release_without_an_answer_ends_too() -> None:
    async def play(stage: Stage) -> tuple[bool, str]:
        election = stage.candidate("a", FAST)
        await election.won()
        stage.leases.refuse = lambda asked: SILENCE
        await election.release()
        return election.leading, stage.leases.holder

    assert staged(play) == (False, "a")


def test_a_candidate_that_ends_while_it_starts_holds_no_lease() -> None:
    """Before it reads the Lease, while it reads or writes it, and just after."""

    async def play(stage: Stage) -> list[str]:
        holders = []
        for turns in range(60):
            election = stage.candidate(f"c{turns}")
            for _ in range(turns):
                await asyncio.sleep(0)
            await election.release()
            assert not election.leading
            holders.append(stage.leases.holder)
        return holders

    assert staged(play) == [""] * 60


def test_a_candidate_that_has_not_read_the_lease_writes_nothing() -> None:
    async def play(stage: Stage) -> object:
        await stage.candidate("a").release()
        return stage.leases.lease

    assert staged(play) is None


def test_a_standby_logs_each_leader_once() -> None:
    async def play(stage: Stage) -> list[Any]:
        first = stage.candidate("a")
        await first.won()
        second = stage.candidate("b")
        await until(lambda: second.leader == "a" and second._candidate.watched)
        stage.leases.store(stage.leases.lease or {})  # renewed
        await first.release()
        await second.won()
        third = stage.candidate("c")
        await until(lambda: third.leader == "b")
        await third.release()
        return [(line["event"], line.get("leader")) for line in lines]

    with capture_logs() as lines:
        logged = staged(play)
    assert [line for line in logged if line[0] == "standing by"] == [
        ("standing by", "a"),
        ("standing by", "b"),
    ]


def test_waiting_to_win_an_election_that_is_over_raises() -> None:
    async def play(stage: Stage) -> None:
        stage.leases.refuse = lambda asked: FORBIDDEN
        election = stage.candidate("a")
        await election.close()
        await election.won()

    with pytest.raises(RuntimeError, match="the election is over"):
        staged(play)


def test_identities_differ() -> None:
    assert len({own_identity() for _ in range(3)}) == 3
