"""The election over a small API server that keeps one Lease."""

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
from tests.kube.scripted import CUT, SILENCE, Asked, Object, Said, failure, serving

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
FAST = Timing(lease_duration=3.0, renew_deadline=1.0, retry_period=0.1)
SLOW = Timing(lease_duration=60.0, renew_deadline=40.0, retry_period=20.0)
PATIENCE = 20.0


class Leases:
    """Keeps a Lease. ``refuse`` may answer a request first; ``watchable`` says whether it may be
    watched."""

    def __init__(self) -> None:
        self.held: Object | None = None
        self.version = 0
        self.watches: list[asyncio.Queue[Object | None]] = []
        self.watchable = True
        self.refuse: Callable[[Asked], Said | None] = lambda asked: None

    def answer(self, asked: Asked) -> Said:
        refused = self.refuse(asked)
        if refused is not None:
            return refused
        method = asked.what.split()[0]
        if method == "GET" and "watch=true" in asked.what:
            return self._watch(asked)
        if method == "GET":
            return failure(404, "NotFound") if self.held is None else Said(200, self.held)
        if method == "POST" and self.held is not None:
            return failure(409, "AlreadyExists")
        if method == "PUT":
            expected = asked.body["metadata"]["resourceVersion"]
            if self.held is None or expected != self.held["metadata"]["resourceVersion"]:
                return failure(409, "Conflict")
        return Said(201 if method == "POST" else 200, self.store(asked.body))

    def _watch(self, asked: Asked) -> Said:
        assert "fieldSelector=metadata.name%3Ds" in asked.what
        if not self.watchable:
            return failure(403, "Forbidden", "no watching")
        queue: asyncio.Queue[Object | None] = asyncio.Queue()
        if self.held is not None:
            queue.put_nowait({"type": "ADDED", "object": self.held})
        self.watches.append(queue)
        return Said(200, queue)

    def store(self, made: Object) -> Object:
        kind = "ADDED" if self.held is None else "MODIFIED"
        self.version += 1
        metadata = {**made["metadata"], "resourceVersion": str(self.version)}
        self.held = {**made, "metadata": metadata}
        self._tell(kind, self.held)
        return self.held

    def delete(self) -> None:
        assert self.held is not None
        self.version += 1
        self.held["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", self.held)
        self.held = None

    def _tell(self, kind: str, held: Object) -> None:
        for each in self.watches:
            each.put_nowait({"type": kind, "object": held})

    @property
    def holder(self) -> str:
        return "" if self.held is None else str(self.held["spec"]["holderIdentity"])


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
                        timing=timing, refusals=self.refusals, draw=lambda: 0.0)  # fmt: skip
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
            for each in made.elections:
                await each.close()
            for queue in leases.watches:
                queue.put_nowait(None)


def staged(play: Callable[[Stage], Awaitable[Any]]) -> Any:
    """Plays on a stage, and not for ever."""

    async def run() -> Any:
        async with asyncio.timeout(PATIENCE), stage() as made:
            return await play(made)

    return asyncio.run(run())


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def test_one_that_observes_wins_once_it_stands() -> None:
    """The lease of a dead one has run out by then: nothing more is waited for."""

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


def test_the_lease_goes_from_one_to_the_other_when_it_is_released() -> None:
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
        assert stage.leases.held is not None
        return [*seen, (second.leading, stage.leases.held["spec"]["leaseTransitions"])]

    assert staged(play) == [(True, False, "a"), (False, True), (False, True), (True, 1)]


def test_a_lease_that_is_deleted_is_taken_at_once() -> None:
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


def test_a_lease_that_is_not_renewed_is_taken_when_it_is_over() -> None:
    async def play(stage: Stage) -> str:
        first = stage.candidate("a", FAST)
        await first.won()
        await first.close()
        second = stage.candidate("b", FAST)
        await second.won()
        return stage.leases.holder

    assert staged(play) == "b"


@pytest.mark.parametrize("said", [SILENCE, CUT, failure(500, "InternalError")])
def test_a_leader_that_cannot_renew_has_lost_at_its_deadline_and_may_win_again(said: Said) -> None:
    async def play(stage: Stage) -> tuple[bool, str]:
        election = stage.candidate("a", FAST)
        await election.won()
        stage.leases.refuse = lambda asked: said
        await election.lost.wait()
        held = stage.leases.holder
        stage.leases.refuse = lambda asked: None
        await election.won()
        return election.leading, held

    assert staged(play) == (True, "a")


def test_a_leader_learns_at_once_that_another_has_the_lease() -> None:
    async def play(stage: Stage) -> tuple[bool, str]:
        election = stage.candidate("a")
        await election.won()
        await until(lambda: election._candidate.watched)
        assert stage.leases.held is not None
        spec = {**stage.leases.held["spec"], "holderIdentity": "b"}
        stage.leases.store({**stage.leases.held, "spec": spec})
        await election.lost.wait()
        return election.leading, election.leader

    assert staged(play) == (False, "b")


def test_without_leave_to_watch_the_lease_is_looked_at() -> None:
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


def test_what_is_forbidden_is_said_and_tried_again() -> None:
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
    assert sorted(each.split(":")[0] for each in during) == [
        "may not get lease kube-system/s",
        "may not watch lease kube-system/s",
    ]
    assert all(each.endswith(rule) for each in during)
    assert afterwards == []


def test_a_release_that_is_not_answered_ends_all_the_same() -> None:
    async def play(stage: Stage) -> tuple[bool, str]:
        election = stage.candidate("a", FAST)
        await election.won()
        stage.leases.refuse = lambda asked: SILENCE
        await election.release()
        return election.leading, stage.leases.holder

    assert staged(play) == (False, "a")


def test_whenever_it_ends_while_it_begins_the_lease_is_nobodys() -> None:
    """Before it has looked, while it asks, while it writes, and just after."""

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


def test_who_never_looked_writes_nothing() -> None:
    async def play(stage: Stage) -> object:
        await stage.candidate("a").release()
        return stage.leases.held

    assert staged(play) is None


def test_a_standby_says_for_whom_once() -> None:
    async def play(stage: Stage) -> list[Any]:
        first = stage.candidate("a")
        await first.won()
        second = stage.candidate("b")
        await until(lambda: second.leader == "a" and second._candidate.watched)
        stage.leases.store(stage.leases.held or {})  # renewed
        await first.release()
        await second.won()
        third = stage.candidate("c")
        await until(lambda: third.leader == "b")
        await third.release()
        return [(each["event"], each.get("leader")) for each in told]

    with capture_logs() as told:
        found = staged(play)
    competes = [each for each in found if each[0] == "standing by"]
    assert competes == [("standing by", "a"), ("standing by", "b")]


def test_an_election_that_is_over_is_not_won() -> None:
    async def play(stage: Stage) -> None:
        stage.leases.refuse = lambda asked: FORBIDDEN
        election = stage.candidate("a")
        await election.close()
        await election.won()

    with pytest.raises(RuntimeError, match="the election is over"):
        staged(play)


def test_identities_differ() -> None:
    assert len({own_identity() for _ in range(3)}) == 3
