"""Invariants that must hold after every step, and at the end.

The auditor reads each batch when it is committed and folds it independently. It knows all decision
ids that were ever committed, even if the history was lost since.
"""

from collections import Counter

from eventsched.cluster.messages import BindPod, EvictPod, WriteEvent
from eventsched.domain import records
from eventsched.domain.nodes.node_table import ALLOCATABLE, REQUESTED
from eventsched.domain.records import Outcome
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch
from eventsched.runtime.leader.leader import Leader
from eventsched.scheduling.engine import Engine

from . import cluster
from .apiserver import ApiServer
from .cluster import STREAM
from .database import Database, stored_of
from .expected_reports import ExpectedReports


class ViolationError(AssertionError):
    """An invariant was violated."""


def ensure(holds: bool, message: str) -> None:
    """Raises ViolationError if a condition does not hold."""
    if not holds:
        raise ViolationError(message)


class Auditor:
    """Watches a database and an API server."""

    make_engine = staticmethod(cluster.engine)
    expected_reports: type[ExpectedReports] = ExpectedReports

    def __init__(self, database: Database, api: ApiServer) -> None:
        self._database = database
        self._api = api
        self._committed: dict[str, tuple[str, str]] = {}
        """Decision id → pod and node: every intent that was ever in the log."""
        self._evictions: set[tuple[str, str]] = set()
        """Victim and decision id: every eviction that was ever in the log."""
        self._named: set[str] = set()
        self._compared = 0
        self.kinds: Counter[str] = Counter()
        """Records read, by kind."""
        self._begin()

    def _begin(self) -> None:
        self.engine: Engine = self.make_engine()
        self._batches = 0
        self._head = Head(0, chain.genesis(STREAM))
        self._epoch = 0
        self._token = ""
        self._expected_reports = self.expected_reports(self._named)
        self._open: dict[str, str] = {}
        self._void: set[str] = set()

    # --- after each step ------------------------------------------------------------------

    def history_changed(self) -> None:
        """The database has failed over: reads the remaining log again."""
        before = self._expected_reports
        self._begin()
        self.read()
        self._expected_reports.note_lost(before)

    def read(self) -> None:
        """Reads the new batches and checks the chain, the epochs and every record."""
        for batch in self._database.batches[self._batches :]:
            self._check_chain(batch)
            for stored in stored_of(batch):
                self._take(stored.logged)
            self._batches += 1

    def _check_chain(self, batch: SealedBatch) -> None:
        at = f"batch {self._batches}"
        ensure(Head(batch.first, batch.previous) == self._head, f"chain: {at} is not at the head")
        ensure(chain.batch_hash(batch) == batch.hash, f"chain: {at} has another hash")
        ensure(batch.term.epoch >= self._epoch, f"epochs: {at} is of an older epoch")
        self._head, self._epoch = batch.head, batch.term.epoch

    def _take(self, logged: LogEntry) -> None:
        state, record = self.engine.state, logged.record
        ensure(logged.at >= state.now, f"time goes back at {logged.position}")
        match record:
            case records.TermBegan(token=token):
                self._token = token
            case records.PodDecided(outcome=Outcome.SCHEDULED | Outcome.WAITING, uid=uid):
                pod = state.pods[uid]
                ensure(
                    uid not in state.reservations and not pod.bound,
                    f"two decisions for {uid}, the second at {logged.position}",
                )
                if record.outcome is Outcome.SCHEDULED:
                    self._intended(uid, record.node, logged)
            case records.BindIntended(uid=uid, node=node):
                self._intended(uid, node, logged)
            case records.PreemptionDecided():
                self._check_victims(record, logged)
            case records.BindVoided(uid=uid) if uid in self._open:
                self._void.add(self._open.pop(uid))
            case records.PodBound(uid=uid, node=node):
                ensure(self._api.was_placed(uid, node), f"{uid} is not on {node}: PodBound")
        self.kinds[type(record).__name__] += 1
        if isinstance(record, records.NodeAdded) and record.row >= 0:
            self.kinds["NodeAdded to a free row"] += 1
        self._expected_reports.read(logged, state)
        self.engine.apply(logged)
        if isinstance(record, records.PodDecided) and record.node:
            self._check_room(record)

    def _intended(self, uid: str, node: str, logged: LogEntry) -> None:
        decision = f"{STREAM}/{logged.position}@{self._token}"
        self._open[uid] = decision
        self._committed[decision] = (uid, node)

    def _check_victims(self, decided: records.PreemptionDecided, logged: LogEntry) -> None:
        state = self.engine.state
        limit = state.pods[decided.uid].pod.priority
        for uid in decided.victims:
            victim = state.pods[uid]
            ensure(victim.pod.priority < limit, f"{uid} is evicted for {decided.uid}")
            ensure(victim.booked_node == decided.node, f"{uid} is not on {decided.node}")
        for uid in decided.evicted:
            decision = f"{STREAM}/{logged.position}@{self._token}"
            self._evictions.add((uid, decision))
            ensure(not state.pods[uid].pod.deleting, f"{uid} is being deleted already")

    def evicted(self, request: EvictPod) -> None:
        """An eviction has arrived: its decision must have been committed."""
        known = (request.uid, request.decision) in self._evictions
        ensure(known, f"{request.uid} is evicted, but no decision was committed")

    def announced(self, request: WriteEvent) -> None:
        """An event has arrived: its decision must have been committed."""
        ensure(
            request.key in self._named,
            f"{request.note!r} is reported, but no decision was committed",
        )

    def _check_room(self, decided: records.PodDecided) -> None:
        nodes = self.engine.state.nodes
        books = nodes.books[nodes.rows[decided.node]]
        room = bool(books[REQUESTED, 0] <= books[ALLOCATABLE, 0])
        ensure(room, f"{decided.uid} was decided onto {decided.node}, which was full")

    def bound(self, request: BindPod, barrier: int) -> None:
        """A bind has succeeded. ``barrier`` is the API server's resourceVersion when the sender's
        term began: the sender knew all foreign binds up to it."""
        uid, node, decision = request.uid, request.node, request.decision
        committed = self._committed.get(decision)
        ensure(committed is not None, f"{uid} is bound to {node}, but no intent was committed")
        ensure(committed == (uid, node), f"{uid} is bound to {node}, the intent says {committed}")
        ensure(decision not in self._void, f"{uid} is bound by {decision}, which is void")
        self._check_load(uid, node, barrier)

    def _check_load(self, uid: str, node: str, barrier: int) -> None:
        seen = self._api.nodes.get(node)
        if seen is not None:
            used, room = self._api.cpu_used(node, barrier), seen.node.allocatable["cpu"]
            ensure(used <= room, f"{node} is over-committed by {uid}: {used} m of {room} m")

    def compare(self, leader: Leader) -> None:
        """A leader without requests in flight must have the state that the log folds to."""
        live, folded = leader.engine, self.engine
        if not leader.all_committed or live.position != folded.position:
            return
        self._compared += 1
        if self._compared % 3 == 0:
            same = live.state.digest() == folded.state.digest()
            ensure(same, f"the live state is not the folded one at {live.position}")

    # --- at the end -----------------------------------------------------------------------

    def converged(self, leader: Leader) -> None:
        """Nothing is open, the log agrees with the cluster, and pods that fit are bound."""
        self.compare(leader)
        self._check_replay()
        state = self.engine.state
        ensure(not state.reservations, f"open at the end: {sorted(state.reservations)}")
        evicting = state.preemptions.evicting
        ensure(not evicting, f"evictions open at the end: {sorted(evicting)}")
        ensure(set(state.nodes.rows) == set(self._api.nodes), "other nodes in the log")
        ensure(set(state.pods) == set(self._api.pods), "other pods in the log")
        in_cluster = {seen.object.title: seen.object for seen in self._api.objects()}
        in_log = {obj.title: obj for obj in state.registry.everything()}
        ensure(in_log == in_cluster, "other objects in the log")
        missing = self._expected_reports.missing(state, self._api)
        ensure(not missing, missing)
        on_nodes = [uid for uid, seen in self._api.pods.items() if seen.pod.node_name]
        wrong = [uid for uid in on_nodes if uid in self._api.conditions]
        ensure(not wrong, f"{wrong} are on nodes, but their conditions say that they are not")
        for uid, seen in self._api.pods.items():
            logged_pod = state.pods[uid].pod
            ensure(logged_pod == seen.pod, f"{uid} is {seen.pod} but the log says {logged_pod}")
            if cluster.is_to_be_bound(seen.pod) and self._api.is_open(seen.pod):
                self._check_that_it_fits_nowhere(uid)

    def _check_replay(self) -> None:
        """A fresh engine that gets only the stimuli must produce the same records."""
        engine, expected = self.make_engine(), [stored.logged for stored in self._database.records]
        while engine.position < len(expected):
            at = engine.position
            stimulus = expected[at].record
            if isinstance(stimulus, records.Stimulus):
                engine = self.engine_for(stimulus, engine)
                made = engine.observe(stimulus, expected[at].at)
            else:
                made = engine.schedule_next()
            same = [entry._replace(detail=None) for entry in made] == expected[at : at + len(made)]
            ensure(bool(made) and same, f"replayed, the records from {at} on are others")

    def engine_for(self, stimulus: records.Stimulus, engine: Engine) -> Engine:
        """The engine that decides from a stimulus on, if ``engine`` did before."""
        return engine

    def _check_that_it_fits_nowhere(self, uid: str) -> None:
        for name, seen in self._api.nodes.items():
            used = self._api.cpu_used(name, self._api.version) + self._kept_from(uid, name)
            free = seen.node.allocatable["cpu"] - used
            ensure(free < self._api.cpu_of(uid), f"{uid} fits on {name} but is not bound")

    def _kept_from(self, uid: str, node: str) -> int:
        """The cpu (millicores) on a node that a pod must leave to pods nominated to it. A pod keeps
        its nomination if extenders refuse its next preemption (upstream: preemption.go Preempt,
        after callExtenders), and until it is tried again after a failover lost that preemption."""
        pod = self.engine.state.pods[uid].pod
        nominated = self.engine.state.preemptions.on(node)
        return sum(
            self._api.cpu_of(other)
            for other, kept in nominated.items()
            if other != uid and kept.priority >= pod.priority
        )
