"""What a replica is at, as probes and metrics ask for it (web/status.py says what they ask).

Everything is read from the parts themselves when somebody asks. A standby is ready when it could
take over at once: its watches and its log are live. A leader is ready when it leads, and the log
takes what it decides.
"""

import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from eventsched.cluster.kube.watch.resource_store import UndecodableObject
from eventsched.domain.records import Queue
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.process.kubernetes import Kube
from eventsched.runtime.effects.event_outbox import DROPPED, REFUSED
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.live.replica import Replica

STALE = 180.0
"""Seconds of a watch's silence, beyond which it counts as stalled: an API server says something
about every minute, and the watch itself is given up after 120 s."""
_SHOWN = 3
"""Troubles of one kind that readiness tells of."""


class WatchFacts(NamedTuple):
    """One resource's watch; the fields are those of web/status.py ``Watch``."""

    events: int
    relists: int
    reconnects: int
    lag: float
    undecodable: int


class LiveStatus:
    """A process's facts; its parts are set as they come to be."""

    def __init__(self, lease: str) -> None:
        """``lease`` is the Lease's name, "" where there is no election."""
        self.lease = lease
        self.waiting = "it has just started"
        """What the start waits for, "" once it is over."""
        self.kube: Kube | None = None
        self.replica: Replica | None = None

    # --- probes ---------------------------------------------------------------------------

    @property
    def liveness(self) -> Mapping[str, str]:
        """That there is an answer at all says that the loop turns; nothing else helps to restart
        for."""
        return {}

    @property
    def readiness(self) -> Mapping[str, str]:
        """Why it could not do its work now, by part."""
        return {
            "start": self.waiting,
            "watches": self._watch_trouble(),
            "rights": _some(self.kube.calls.refusals.forbidden) if self.kube is not None else "",
            "database": self._database_trouble(),
            "term": self._term_trouble(),
        }

    @property
    def remarks(self) -> Mapping[str, str]:
        """That it stands by, and for whom."""
        leader = self.replica.leader if self.replica is not None else ""
        return {"term": f"standing by, {leader} leads"} if leader else {}

    def _watch_trouble(self) -> str:
        if self.kube is None:
            return "the API server is not reached yet"
        progress = self.kube.store.progress
        troubles = [f"{name}: {each.problem}" for name, each in progress.items() if each.problem]
        if not troubles:
            facts = self.watches.items()
            troubles = [
                f"{name}: nothing heard for {each.lag:.0f} s"
                for name, each in facts
                if each.lag > STALE
            ]
        return _some(troubles)

    def _database_trouble(self) -> str:
        replica = self.replica
        if replica is None:
            return ""
        if replica.database is not None:
            return replica.database.reach.trouble
        return replica.follower.reach.trouble if replica.follower is not None else ""

    def _term_trouble(self) -> str:
        replica = self.replica
        if replica is None:
            return ""
        if replica.driver is not None:
            return "" if replica.driver.leader.leading else "a term has begun; it does not lead yet"
        if replica.follower is not None and not replica.follower.caught_up:
            return f"catching up with the log, {self.log_lag} records behind"
        return ""

    # --- numbers --------------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        """Whether attempts are made."""
        return self._leader is not None and self._leader.leading

    @property
    def epoch(self) -> int:
        """The epoch of the last term that is known."""
        if self._leader is not None and self._leader.leading:
            return self._leader.term.epoch
        follower = self.replica.follower if self.replica is not None else None
        return follower.epoch if follower is not None else 0

    @property
    def log_head(self) -> int:
        """Records that are known to be committed."""
        if self._leader is not None and self._leader.leading:
            return self._leader.engine.position - self._leader.backlog
        return self.replica.standby.head.next + self.log_lag if self.replica is not None else 0

    @property
    def log_lag(self) -> int:
        """Committed records that a standby has not taken in yet."""
        if self.replica is None or self.leading or self.replica.follower is None:
            return 0
        return self.replica.follower.lag

    @property
    def queues(self) -> Mapping[str, int]:
        """Pods in each queue."""
        if self._state is None or self.replica is None:
            return {}
        lengths = self.replica.standby.fold.engine.queue_lengths
        return {queue.value: count for queue, count in lengths.items()}

    @property
    def unschedulable(self) -> Mapping[tuple[str, str], int]:
        """Unschedulable pods by (plugin, profile)."""
        found: Counter[tuple[str, str]] = Counter()
        if self._state is not None:
            for each in self._state.pods.values():
                if each.queue is Queue.UNSCHEDULABLE:
                    profile = each.pod.scheduler_name
                    found.update((plugin, profile) for plugin in each.rejectors)
        return found

    @property
    def oldest_waiting(self) -> Mapping[tuple[str, str], float]:
        """When the oldest pod of each (queue, profile) was created, in seconds since 1970."""
        found: dict[tuple[str, str], float] = {}
        for standing in self._state.pods.values() if self._state is not None else ():
            if standing.queue is not None:
                key = standing.queue.value, standing.pod.scheduler_name
                created = (standing.pod.created_at or standing.since) / 1e6
                found[key] = min(created, found.get(key, created))
        return found

    @property
    def nodes(self) -> int:
        """Nodes that are known."""
        return len(self._state.nodes.rows) if self._state is not None else 0

    @property
    def node_names(self) -> Container[str]:
        """The names of these."""
        return self._state.nodes.rows if self._state is not None else ()

    @property
    def pods(self) -> int:
        """Pods on a node, reserved ones too."""
        return sum(map(len, self._state.nodes.residents)) if self._state is not None else 0

    @property
    def reservations(self) -> int:
        """Pods that a node is held for."""
        return len(self._state.reservations) if self._state is not None else 0

    @property
    def open_binds(self) -> int:
        """Intents to bind without an outcome."""
        if self._state is None:
            return 0
        return sum(held.intended for held in self._state.reservations.values())

    @property
    def open_evictions(self) -> int:
        """Intents to evict without an outcome."""
        return len(self._state.preemptions.evicting) if self._state is not None else 0

    @property
    def overcommitted_nodes(self) -> int:
        """Nodes whose pods request more than they offer, as far as they offer it at all."""
        if self._state is None:
            return 0
        table = self._state.nodes
        return table.overbooked(list(table.rows.values()))

    @property
    def reports_waiting(self) -> int:
        """Events and conditions that are to be written yet."""
        reports = self._leader.reports if self._leader is not None else None
        return len(reports) if reports is not None else 0

    @property
    def reports_dropped(self) -> int:
        """Those that were given up, by all leaders of this process."""
        return self._count(DROPPED)

    @property
    def reports_refused(self) -> int:
        """Those that the API server would not take, from all leaders of this process."""
        return self._count(REFUSED)

    @property
    def watches(self) -> Mapping[str, WatchFacts]:
        """Resource → its watch."""
        if self.kube is None:
            return {}
        now = time.monotonic()
        return {
            name: WatchFacts(
                each.lines,
                each.relists,
                each.reconnects,
                now - each.last_line if each.last_line is not None else 0.0,
                len(self.kube.store.stores[name].undecodable),
            )
            for name, each in self.kube.store.progress.items()
        }

    @property
    def undecodable(self) -> Iterator[UndecodableObject]:
        """The objects that are passed over."""
        return self.kube.store.undecodable if self.kube is not None else iter(())

    def pod_name(self, uid: str) -> str:
        """``namespace/name`` of a pod, "" where it is not known (any more)."""
        found = self._state.pods.get(uid) if self._state is not None else None
        return f"{found.pod.namespace}/{found.pod.name}" if found is not None else ""

    def _count(self, what: str) -> int:
        """What all leaders of this process have counted of something."""
        if self.replica is None:
            return 0
        present = self._leader.counts[what] if self._leader is not None else 0
        return self.replica.counts[what] + present

    @property
    def _leader(self) -> Leader | None:
        driver = self.replica.driver if self.replica is not None else None
        return driver.leader if driver is not None else None

    @property
    def _state(self) -> SchedulerState | None:
        """The state, as far as there is one that may be looked at."""
        replica = self.replica
        if replica is None or (replica.driver is not None and replica.driver.apart):
            return None
        return replica.standby.fold.engine.state


def _some(troubles: Sequence[str]) -> str:
    """The first ones in a line, and how many there are beside them."""
    more = f" (and {len(troubles) - _SHOWN} more)" if len(troubles) > _SHOWN else ""
    return "; ".join(troubles[:_SHOWN]) + more
