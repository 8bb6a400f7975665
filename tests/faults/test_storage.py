"""Binds that wait for volumes, under random faults: see storage.py."""

from collections import Counter

import pytest

from eventsched.cluster.messages import WriteObject
from eventsched.domain.records import Prepare
from eventsched.runtime.leader.leader_messages import Request

from .invariants import ViolationError
from .mutants import Hasty, Mutant
from .processes import Process
from .storage import StorageWorld
from .test_faults import names

SEEDS = 60
REACHED = """
Written; WriteRefused; refusal; theft; crash; ghost WriteObject; late WriteObject; lost WriteObject;
unanswered WriteObject; record PreparationIntended;
record WriteSucceeded; record WriteFailed; record BindIntended; record PermitGranted;
record PodUnreserved; record PreemptionDecided
"""


class PrepareFirst(Hasty):
    """Writes that a bind waits for are sent together with their batch, not after its commit."""

    kind = Prepare


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_nothing_wrong_happens_to_volumes(lossy: bool) -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        counts += StorageWorld(seed, lossy=lossy).run().counts
    wanted = names(REACHED) | ({"record HistoryLost"} if lossy else set())
    assert not {name for name in wanted if not counts[name]}, "the seeds do not reach this"


class DyingWriter(StorageWorld):
    """The first process that is about to send a write dies just before."""

    def _send(self, process: Process, requests: list[Request]) -> None:
        writes = any(isinstance(request, WriteObject) for request in requests)
        if writes and not self.counts["crash before WriteObject"]:
            self.counts["crash before WriteObject"] += 1
            self.crash(process)
            return
        super()._send(process, requests)


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_a_crash_before_a_write(lossy: bool) -> None:
    """The next leader makes it."""
    worlds = [DyingWriter(seed, lossy=lossy).run() for seed in range(10)]
    assert sum(world.counts["crash before WriteObject"] for world in worlds) >= 5


def test_a_seed_runs_twice_alike() -> None:
    one, other = StorageWorld(7).run(), StorageWorld(7).run()
    assert one.trace == other.trace
    assert one.database.head == other.database.head


def test_seeds_catch_writes_that_are_sent_before_their_commit() -> None:
    def violated(seed: int) -> str:
        try:
            StorageWorld(seed, make_leader=Mutant(PrepareFirst).make_leader).run()
        except ViolationError as violation:
            return str(violation)
        return ""

    assert any("no record of it was committed" in violated(seed) for seed in range(10))
