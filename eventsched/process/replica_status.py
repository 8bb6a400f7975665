"""The status of a replica, for probes and metrics (web/status.py defines what they read).

Every value is read from the running parts at the time of the request. A standby is ready when it
could take over at once: its watches and its log are current. A leader is ready when it makes
attempts and the log accepts its decisions.
"""

import time
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from eventsched.cluster.kube.watch.resource_store import UndecodableObject
from eventsched.domain.records import Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Verdict
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.process.kubernetes import WatchedKube
from eventsched.runtime.effects.event_outbox import DROPPED, REFUSED
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.live.log_housekeeping import HousekeepingStatus
from eventsched.runtime.live.replica import Replica
from eventsched.runtime.reconciliation.divergences import PodDivergence
from eventsched.runtime.symptoms.long_waits import LongWaitCounts, LongWaits
from eventsched.runtime.symptoms.preemption_anomalies import PreemptionAnomalies

STALE_SECONDS = 180.0
"""Seconds of silence after which a watch counts as stalled. An API server sends at least a bookmark
about every minute, and the watch itself is given up after 120 s."""
_SHOWN = 3
"""How many troubles of one kind readiness names."""


class WatchFacts(NamedTuple):
    """One resource's watch; the fields are those of web/status.py ``WatchStatus``."""

    events: int
    relists: int
    reconnects: int
    lag: float
    undecodable: int


class LiveStatus:
    """The status of a process. ``kube`` and ``replica`` are set once they exist."""

    def __init__(self, lease: str) -> None:
        """``lease`` is the Lease's name, "" if there is no election."""
        self.lease = lease
        self.waiting = "it has just started"
        """What the start waits for, "" once it is over."""
        self.kube: WatchedKube | None = None
        self.replica: Replica | None = None
        self._long_waits, self._preemption_anomalies = LongWaits(), PreemptionAnomalies()

    def records_committed(self, committed: Sequence[LogEntry], *, is_own: bool = True) -> None:
        """Notes committed records, in the order of the log: those that this replica makes as the
        leader, or reads as a standby."""
        if (state := self._state) is not None:
            self._long_waits.follow(committed, state)
            self._preemption_anomalies.follow(committed, state, is_own=is_own)

    # --- probes ---------------------------------------------------------------------------

    @property
    def liveness(self) -> Mapping[str, str]:
        """Always empty. An answer shows that the event loop runs, and a restart would fix nothing
        else."""
        return {}

    @property
    def readiness(self) -> Mapping[str, str]:
        """Why the replica cannot do its work now, by part; "" for a part without trouble."""
        return {
            "start": self.waiting,
            "watches": self._watch_trouble(),
            "rights": _some(self.kube.refusals.forbidden) if self.kube is not None else "",
            "database": self._database_trouble(),
            "term": self._term_trouble(),
        }

    @property
    def remarks(self) -> Mapping[str, str]:
        """That this replica stands by, and which one leads."""
        leader = self.replica.leader if self.replica is not None else ""
        return {"term": f"standing by, {leader} leads"} if leader else {}

    def _watch_trouble(self) -> str:
        if self.kube is None:
            return "the API server is not reached yet"
        progress = self.kube.store.progress
        troubles = [f"{name}: {watch.problem}" for name, watch in progress.items() if watch.problem]
        if not troubles:
            facts = self.watches.items()
            troubles = [
                f"{name}: nothing heard for {watch.lag:.0f} s"
                for name, watch in facts
                if watch.lag > STALE_SECONDS
            ]
        return _some(troubles)

    def _database_trouble(self) -> str:
        replica = self.replica
        if replica is None:
            return ""
        if replica.database is not None:
            return replica.database.health.problem
        return replica.follower.health.problem if replica.follower is not None else ""

    def _term_trouble(self) -> str:
        replica = self.replica
        if replica is None:
            return ""
        if replica.refusal:
            return replica.refusal
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
        """The number of records that are known to be committed."""
        if self._leader is not None and self._leader.leading:
            return self._leader.engine.position - self._leader.uncommitted
        return (
            self.replica.followed_stream.head.next + self.log_lag if self.replica is not None else 0
        )

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
        lengths = self.replica.followed_stream.stream_state.engine.queue_lengths
        return {queue.value: count for queue, count in lengths.items()}

    @property
    def unschedulable(self) -> Mapping[tuple[str, str], int]:
        """Unschedulable pods by (plugin, profile)."""
        counts: Counter[tuple[str, str]] = Counter()
        if self._state is not None:
            for pod_state in self._state.pods.values():
                if pod_state.queue is Queue.UNSCHEDULABLE:
                    profile = pod_state.pod.scheduler_name
                    counts.update((plugin, profile) for plugin in pod_state.rejectors)
        return counts

    @property
    def oldest_waiting(self) -> Mapping[tuple[str, str], float]:
        """When the oldest pod of each (queue, profile) was created, in seconds since 1970."""
        oldest: dict[tuple[str, str], float] = {}
        for pod_state in self._state.pods.values() if self._state is not None else ():
            if pod_state.queue is not None:
                key = pod_state.queue.value, pod_state.pod.scheduler_name
                created = (pod_state.pod.created_at or pod_state.since) / 1e6
                oldest[key] = min(created, oldest.get(key, created))
        return oldest

    @property
    def long_waits(self) -> LongWaitCounts:
        """Pods that wait too long, by profile; none on a standby."""
        if not self.leading or self._state is None:
            return LongWaitCounts({}, {})
        return self._long_waits.counts(self._state)

    @property
    def preemption_anomalies(self) -> Mapping[str, int]:
        """Kind → preemptions that did not help, in all terms that this process has led."""
        return self._preemption_anomalies.counts

    @property
    def nodes(self) -> int:
        """The number of known nodes."""
        return len(self._state.nodes.rows) if self._state is not None else 0

    @property
    def node_names(self) -> Container[str]:
        """The names of the known nodes."""
        return self._state.nodes.rows if self._state is not None else ()

    @property
    def pods(self) -> int:
        """The number of pods on nodes, reserved ones included."""
        return sum(map(len, self._state.nodes.residents)) if self._state is not None else 0

    @property
    def reservations(self) -> int:
        """The number of pods for which a node is reserved."""
        return len(self._state.reservations) if self._state is not None else 0

    @property
    def open_binds(self) -> int:
        """Intents to bind without an outcome."""
        if self._state is None:
            return 0
        return sum(reservation.intended for reservation in self._state.reservations.values())

    @property
    def open_evictions(self) -> int:
        """Intents to evict without an outcome."""
        return len(self._state.preemptions.evicting) if self._state is not None else 0

    @property
    def overcommitted_nodes(self) -> int:
        """The number of nodes whose pods request more of a resource than the node offers. A
        resource that a node does not offer at all is not counted."""
        if self._state is None:
            return 0
        table = self._state.nodes
        return table.overbooked(list(table.rows.values()))

    @property
    def reports_waiting(self) -> int:
        """Events and conditions that are not written yet."""
        reports = self._leader.outbox if self._leader is not None else None
        return len(reports) if reports is not None else 0

    @property
    def reports_dropped(self) -> int:
        """Events and conditions that were given up, by all leaders of this process."""
        return self._count(DROPPED)

    @property
    def reports_refused(self) -> int:
        """Events and conditions that the API server refused, from all leaders of this process."""
        return self._count(REFUSED)

    @property
    def divergences(self) -> Mapping[str, int]:
        """Kind → pods that a list of the API server showed otherwise than the log."""
        return {kind.value: self._count(kind) for kind in PodDivergence}

    @property
    def database_size(self) -> int | None:
        """Bytes of the whole database at the last measurement of the present term."""
        database = self.replica.database if self.replica is not None else None
        return database.size if database is not None else None

    @property
    def housekeeping(self) -> HousekeepingStatus | None:
        """What the leader's last look at its log found."""
        return self.replica.housekeeping if self.replica is not None else None

    @property
    def watches(self) -> Mapping[str, WatchFacts]:
        """Resource → its watch."""
        if self.kube is None:
            return {}
        now = time.monotonic()
        return {
            name: WatchFacts(
                watch.lines,
                watch.relists,
                watch.reconnects,
                now - watch.last_line if watch.last_line is not None else 0.0,
                len(self.kube.store.stores[name].undecodable),
            )
            for name, watch in self.kube.store.progress.items()
        }

    @property
    def undecodable(self) -> Iterator[UndecodableObject]:
        """The objects that are skipped because they cannot be decoded."""
        return self.kube.store.undecodable if self.kube is not None else iter(())

    def pod_name(self, uid: str) -> str:
        """``namespace/name`` of a pod, "" if it is not known (any more)."""
        pod_state = self._state.pods.get(uid) if self._state is not None else None
        return f"{pod_state.pod.namespace}/{pod_state.pod.name}" if pod_state is not None else ""

    def verdict(self, number: int) -> Verdict | None:
        """What a number in a decision means; None if it is not known (any more)."""
        known = [] if self._state is None else self._state.verdicts
        return known[number] if number < len(known) else None

    def _count(self, counter: str) -> int:
        """The sum of a counter over all leaders of this process."""
        if self.replica is None:
            return 0
        present = self._leader.counts[counter] if self._leader is not None else 0
        return self.replica.counts[counter] + present

    @property
    def _leader(self) -> Leader | None:
        driver = self.replica.driver if self.replica is not None else None
        return driver.leader if driver is not None else None

    @property
    def _state(self) -> SchedulerState | None:
        """The state; None if there is none."""
        replica = self.replica
        return None if replica is None else replica.followed_stream.stream_state.engine.state


def _some(troubles: Sequence[str]) -> str:
    """The first troubles in one line, and how many more there are."""
    more = f" (and {len(troubles) - _SHOWN} more)" if len(troubles) > _SHOWN else ""
    return "; ".join(troubles[:_SHOWN]) + more
