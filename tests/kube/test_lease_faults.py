"""Candidates with different clocks and late or lost answers: never do two lead at once."""

import random
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.kube.lease.candidate import (
    Lease,
    LeaseCandidate,
    LeaseSpec,
    ReadLease,
    Step,
    Timing,
    WaitUntil,
    Withdrawn,
    WriteLease,
)
from tests.properties.strategies import deterministic

EARLIER = "2026-01-31T12:00:00.000000Z"


@dataclass
class World:
    """Candidates and one lease, driven by true time. Each candidate's clock has a rate and an
    offset of its own."""

    seed: int
    names: tuple[str, ...] = ("a", "b", "c")
    faults: bool = True
    checked: bool = True
    """Whether to check that at most one leads; False if the lease is deleted."""
    now: float = 0.0
    held: Lease | None = None
    version: int = 0
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.order = count()
        self.due: list[tuple[float, int, Any]] = []
        self.candidates = {
            name: LeaseCandidate(name, Timing(), self.random.random) for name in self.names
        }
        self.clocks = {
            name: (self.random.uniform(0.85, 1.15), self.random.uniform(0, 1e6))
            for name in self.names
        }
        self.busy: set[str] = set()
        self.paused: set[str] = set()

    def clock(self, name: str) -> float:
        rate, offset = self.clocks[name]
        return offset + self.now * rate

    def later(self, delay: float, act: Any) -> None:
        heappush(self.due, (self.now + delay, next(self.order), act))

    def run(self, until: float) -> None:
        for name in self.names:
            self.later(0, lambda name=name: self.move(name))
        while self.due and self.due[0][0] <= until:
            self.now, _, act = heappop(self.due)
            act()
            if self.checked:
                self.check()
        self.now = until

    def check(self) -> None:
        leading = [
            name for name, candidate in self.candidates.items() if candidate.leads(self.clock(name))
        ]
        assert len(leading) <= 1, (self.now, leading, self.log)

    def move(self, name: str) -> None:
        """Carries out the candidate's next step, unless it waits for an answer."""
        if name in self.busy or name in self.paused:
            return
        step = self.candidates[name].step(self.clock(name))
        if isinstance(step, WaitUntil):
            pause = max(step.until - self.clock(name), 0.0) / self.clocks[name][0]
            self.later(min(pause, 1.0) + 1e-6, lambda: self.move(name))
        elif not isinstance(step, Withdrawn):
            self.busy.add(name)
            self.request(name, step)

    def request(self, name: str, step: Step) -> None:
        requested_at, patience = self.clock(name), 5.0
        outward, back = self.delay(), self.delay()
        answer: list[Any] = []

        def arrive() -> None:
            if self.random.random() >= (0.1 if self.faults else 0):
                answer.append(self.serve(step))

        def conclude() -> None:
            self.busy.discard(name)
            self.answered(name, step, requested_at, answer if outward + back < patience else [])
            self.move(name)

        self.later(outward, arrive)
        self.later(min(outward + back, patience), conclude)

    def delay(self) -> float:
        if self.faults and self.random.random() < 0.1:
            return self.random.uniform(0, 30)
        return self.random.uniform(0, 0.2)

    def serve(self, step: Step) -> Any:
        """The API server: None for a conflict."""
        if isinstance(step, ReadLease):
            return self.held, True
        assert isinstance(step, WriteLease)
        if (step.old is None) != (self.held is None):
            return None
        if step.old is not None and self.held is not None and step.old.version != self.version:
            return None
        self.store(Lease({}, LeaseSpec(step.holder, step.seconds, EARLIER, str(self.now),
                                  step.transitions)))  # fmt: skip
        self.log.append(f"{self.now:.2f} {step.holder}")
        return self.held, True

    def store(self, lease: Lease | None) -> None:
        self.version += 1
        version = self.version
        if lease is not None:
            lease = Lease({"name": "s", "resourceVersion": str(version)}, lease.spec)
        self.held = lease
        for name, candidate in self.candidates.items():
            if candidate.watched:
                self.later(
                    self.random.uniform(0, 0.3), lambda n=name: self.deliver(n, lease, version)
                )

    def deliver(self, name: str, lease: Lease | None, version: int) -> None:
        candidate = self.candidates[name]
        if not candidate.watched or name in self.paused:
            return
        if lease is None:
            candidate.vanished(version, self.clock(name))
        else:
            candidate.saw(lease, self.clock(name))
        self.move(name)

    def answered(self, name: str, step: Step, requested_at: float, answer: list[Any]) -> None:
        candidate, now = self.candidates[name], self.clock(name)
        if not answer:
            candidate.failed(now)
        elif answer[0] is None:
            candidate.failed(now, conflict=True)
        elif isinstance(step, ReadLease):
            candidate.saw(answer[0][0], now)
        else:
            candidate.wrote(answer[0][0], requested_at, now)

    def disturb(self, until: float) -> None:
        """Breaks watches, deletes leases, and pauses processes at random until a time."""

        def happen() -> None:
            name, draw = self.random.choice(self.names), self.random.random()
            candidate = self.candidates[name]
            if draw < 0.3:
                candidate.watched = True
            elif draw < 0.5:
                candidate.unwatched(self.clock(name))
            elif draw < 0.55 and not self.checked:
                self.store(None)
            elif draw < 0.75 and name not in self.paused:
                self.paused.add(name)
                self.later(self.random.uniform(0, 40), lambda: self.resume(name))
            if self.now < until:
                self.later(self.random.expovariate(0.3), happen)

        self.later(0, happen)

    def resume(self, name: str) -> None:
        self.paused.discard(name)
        self.move(name)

    @property
    def leaders(self) -> list[str]:
        return [
            name for name, candidate in self.candidates.items() if candidate.leads(self.clock(name))
        ]


@pytest.mark.faults
@deterministic(150)
@given(st.integers(0, 2**32), st.booleans())
def test_at_most_one_leads_and_in_the_end_one_does(seed: int, deleted: bool) -> None:
    world = World(seed, checked=not deleted)
    world.disturb(200)
    world.run(200)
    world.faults = False
    world.paused.clear()
    world.busy.clear()
    world.run(280)
    assert len(world.leaders) == 1
    first = world.leaders
    world.run(330)
    assert world.leaders == first


@deterministic(40)
@given(st.integers(0, 2**32), st.booleans())
def test_a_lease_that_is_released_or_deleted_is_taken_within_a_second(
    seed: int, deleted: bool
) -> None:
    world = World(seed, faults=False, checked=not deleted)
    for candidate in world.candidates.values():
        candidate.watched = True
    world.run(30)
    (old,) = world.leaders
    if deleted:
        world.paused.add(old)  # it would recreate the lease itself
        world.store(None)
    else:
        world.candidates[old].withdraw()
        world.later(0, lambda: world.move(old))
    world.run(31)
    assert len([name for name in world.leaders if name != old]) == 1
