"""Kills the scheduler again and again, at the boundaries of what it does and at any moment, while
pods come and go; checks at the end that nothing was lost, done twice or overcommitted.

    with Campaign(plane, database, namespace, seed) as campaign:
        campaign.kill(20)
        print(campaign.settle())
"""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from random import Random
from typing import Any, NamedTuple, Self

from eventsched.domain.records import PodBound, PreemptionDecided
from tests.cluster.harness import load
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.faults import Fault, Hold, Lose, Rule, Swallow
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.load import PROFILES, Load, strayed, turnstile
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import Schedulers

WAIT_SECONDS = 15.0
"""Seconds in which a boundary is to be met; then the kill comes anyway."""


class Boundary(NamedTuple):
    """A request that the scheduler is killed at, and what happens to it."""

    method: str
    path: str
    faults: tuple[Callable[[], Fault], ...]


BOUNDARIES = {
    "before a bind": Boundary("POST", "/binding$", (Hold, Lose)),
    "after a bind": Boundary("POST", "/binding$", (Swallow,)),
    "before an eviction": Boundary("DELETE", "/pods/", (Hold, Lose)),
    "after an eviction": Boundary("DELETE", "/pods/", (Swallow,)),
    "before a report": Boundary("POST", "/events$", (Hold, Lose)),
    "after a report": Boundary("POST", "/events$", (Swallow,)),
    "before a volume is promised": Boundary("PATCH", "/persistentvolumes/", (Hold, Lose)),
    "after a volume is promised": Boundary("PATCH", "/persistentvolumes/", (Swallow,)),
}
MOMENTS = ("any moment", "any moment", "any moment", "while it starts")
"""Kills without a boundary: in each round as often as they are listed here."""
ROUND = len(BOUNDARIES) + len(MOMENTS)
"""After this number of kills each boundary has had its turn; one that was not met has another
soon."""


class Outcome(NamedTuple):
    """What a campaign was like. ``bound`` are pods that came to a node, ``moments`` the kills by
    where they hit, ``missed`` those at a boundary that was not met in time."""

    kills: int
    moments: dict[str, int]
    missed: dict[str, int]
    created: int
    bound: int
    preemptions: int
    records: int
    seconds: float
    longest: float
    """Seconds of the longest start, until attempts are made."""

    @property
    def never(self) -> set[str]:
        """The boundaries that were never met."""
        return BOUNDARIES.keys() - self.moments.keys()

    def __str__(self) -> str:
        return (
            f"{self.kills} kills in {self.seconds:.0f} s ({_listed(self.moments)}; not met: "
            f"{_listed(self.missed) or 'none'}): {self.created} pods created, {self.bound} bound, "
            f"{self.preemptions} preemptions, {self.records} records; "
            f"the longest start took {self.longest:.1f} s"
        )


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


class Campaign:
    """One scheduler behind a proxy, its load, and who watches it."""

    def __init__(
        self, plane: ControlPlane, database: str, namespace: str, seed: int, **options: Any
    ) -> None:
        """``options`` are the scheduler's."""
        self._random = Random(seed)
        self._running = ExitStack()
        self._kills, self._missed = Counter[str](), Counter[str]()
        self._turns: list[str] = []
        self._began, self._longest = time.monotonic(), 0.0
        load.begin(plane)
        enter = self._running.enter_context
        self.observer = enter(Observer(plane, namespace))
        self.proxy = enter(KubeProxy(plane))
        self.scheduler = enter(Schedulers(plane, database)).make(
            config={"profiles": PROFILES},
            settings={"snapshot": {"records": 1000}},
            kubeconfig=self.proxy.kubeconfig(),
            arguments=[f"--plugin={turnstile(plane)}"],
            **options,
        )
        self.load = enter(Load(plane, namespace, seed))

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *how: object) -> None:
        self.proxy.clear()
        self._running.__exit__(*how)  # type: ignore[arg-type]

    def kill(self, times: int, tell: Callable[[str], None] = lambda _: None) -> None:
        """Kills it so often; each time it comes to lead again, or is killed while it tries to."""
        for number in range(1, times + 1):
            name = self._turn()
            hit = self._kill_at(name)
            if hit != name:
                self._missed[name] += 1
                self._turns.insert(self._random.randrange(len(self._turns) + 1), name)
            self._kills[hit] += 1
            tell(f"{number}: {hit}")
            assert self.observer.wrong == [], hit

    def kill_until_met(self, most: int) -> None:
        """At most so often, until every boundary was met."""
        for _ in range(most):
            if BOUNDARIES.keys() <= self._kills.keys():
                return
            self.kill(1)

    def _turn(self) -> str:
        if not self._turns:
            self._turns = [*BOUNDARIES, *MOMENTS]
            self._random.shuffle(self._turns)
        return self._turns.pop()

    def settle(self) -> Outcome:
        """The load ends, and everything comes to rest: whatever is there has a node, and all that
        was seen and logged fits together. Raises AssertionError, TimeoutError."""
        self.proxy.clear()
        self.load.come_to_rest(self.observer)
        wait_for(self._is_logged, "the nodes of the pods are in the log", 60.0, 1.0)
        log = self.scheduler.log()
        self.observer.check(log)
        assert strayed(log) == {}
        return Outcome(
            self._kills.total(),
            dict(self._kills),
            dict(self._missed),
            self.load.created,
            len(self.observer.placed),
            len(log.of(PreemptionDecided)),
            len(log.records),
            time.monotonic() - self._began,
            self._longest,
        )

    def _is_logged(self) -> bool:
        bound = {each.uid for each in self.scheduler.log().of(PodBound)}
        return set(self.observer.pods) <= bound

    def _kill_at(self, name: str) -> str:
        """Kills it there, and starts it again; what really happened."""
        if name not in BOUNDARIES:
            self._pause(3.0)
            self.scheduler.kill()
            if name == "while it starts":
                self.scheduler.server.start()
                self._pause(4.0)
                self.scheduler.kill()
            self._start()
            return name
        method, path, faults = BOUNDARIES[name]
        rule = self.proxy.on(method, path, self._random.choice(faults)(), times=1)
        hit = self._met(rule)
        self.scheduler.kill()
        # What is on its way arrives before the next leader, or after it has taken over.
        if self._random.random() < 0.5:
            rule.release()
        self._start()
        rule.release()
        return name if hit else "any moment"

    def _met(self, rule: Rule) -> bool:
        try:
            rule.wait(within=WAIT_SECONDS)
        except TimeoutError:
            return False
        return True

    def _start(self) -> None:
        began = time.monotonic()
        self.scheduler.start(120.0)
        self._longest = max(self._longest, time.monotonic() - began)

    def _pause(self, most: float) -> None:
        time.sleep(self._random.uniform(0.0, most))
