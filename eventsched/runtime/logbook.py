"""The log of a custom scheduler: a program that watches, picks a node and binds, without profiles,
plugins and queues. What it sees of nodes and its pods and what it decides is committed before it
takes effect, so that ``eventsched explain``, SQL and ``eventsched verify`` work on the log.

    with Logbook(address, "my-scheduler") as book:
        book.saw(…)                                   # lists and watch events
        book.decide(pod, node)                        # for each pod of book.waiting
        book.answered(await carry_out(book.promise))  # while there is one

docs/minimal.md has a whole scheduler. A decision is a promise: the bind is requested, also by the
next process, until the pod has a node, is gone, or the cluster refuses. There is one writer: when a
second process opens the stream, the next record of the first is refused (FencedError) before it can
take effect. For programs on one event loop; the calls block while the database commits.
"""

import time
from collections.abc import Callable, Iterable
from typing import Self

from eventsched import __version__
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    ClusterAnswer,
    Listed,
    NodeGone,
    NodeSeen,
    PodAbsent,
    PodGone,
    PodSeen,
    PodShown,
    Relisted,
    WatchEvent,
)
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain import records
from eventsched.domain.draw import draw
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import FORMAT, Outcome, PodDecided, Queue, Record, StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.stimuli import OWN
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.seen_versions import NODE, POD, SeenResources

_BATCH_RECORDS = 500
"""A batch is committed once it has this many records and the step is complete."""


class Logbook:
    """One stream and its only writer. ``state`` is the state that the log gives, for reading
    only."""

    def __init__(
        self,
        address: str,
        name: str,
        seed: str = "eventsched",
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        annotations: Iterable[str] = (),
    ) -> None:
        """``address`` is that of a database with the schema. ``name`` is the stream's name and the
        schedulerName of its pods. ``seed`` is written to a new stream and used by ``draw``.
        ``clock`` returns µs since 1970. ``annotations`` are the annotations of pods and nodes to
        keep, as in ``KeptAnnotations``. Raises UnavailableError if the database is unreachable, and
        InputError if another scheduler began the stream."""
        self.name = name
        self.state = SchedulerState()
        self._clock = clock
        self._annotations = KeptAnnotations(annotations)
        self._seen = SeenResources()
        self._decisions = OpenDecisions(name)
        self._open: list[StoredRecord] = []
        self._log = PostgresEventLog(address, name, holder=name, clock=clock)
        try:
            self._begin(StreamStarted(format=FORMAT, engine=__version__, seed=seed,
                                      inputs={OWN: name}))  # fmt: skip
        except BaseException:
            self._log.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def saw(self, event: Listed | WatchEvent) -> None:
        """Records what a list or an event shows of nodes and of this scheduler's pods, if it is
        new; for lists also which objects are gone. Like everything that writes it raises
        FencedError and UnavailableError; this object cannot be used any more then."""
        match event:
            case Listed() | Relisted():
                listings = event.listings if isinstance(event, Listed) else [event.listing]
                listings = [listing for listing in listings if listing.resource in (POD, NODE)]
                for stimulus in list(takeover.differences(self.state, listings, self._seen)):
                    if stimulus is not None:
                        self._observe(stimulus)
            case PodSeen() | PodGone() | NodeSeen() | NodeGone():
                new = self._seen.note_event(event)
                if new is not None:
                    self._observe(new)
        self._commit()

    @property
    def nodes(self) -> list[Node]:
        """The nodes, in the order in which they came."""
        table = self.state.nodes
        nodes = (table.nodes[row] for row in sorted(table.rows.values()))
        return [node for node in nodes if node is not None]

    @property
    def waiting(self) -> list[Pod]:
        """This scheduler's pods without a node and without a decision, in the order in which they
        came."""
        queued = (
            pod_state.pod for pod_state in self.state.pods.values() if pod_state.queue is not None
        )
        return [pod for pod in queued if not pod.deleting and not pod.gates]

    def draw(self, pod: Pod) -> int:
        """A 64-bit number drawn for the pod's next decision, from the stream's seed, the pod's uid
        and the number of its attempt."""
        attempt = self.state.pods[pod.uid].attempts + 1
        return draw(self.state.seed, pod.uid, attempt, "tie-break")

    def decide(self, pod: Pod, node: Node, ties: int = 1) -> None:
        """Commits the decision to bind a waiting pod to a node. ``ties`` is the number of equally
        good nodes; if there are several, ``draw`` chose among them. Raises KeyError for an unknown
        pod or node."""
        decided = PodDecided(
            uid=pod.uid, attempt=self.state.pods[pod.uid].attempts + 1, profile=self.name,
            outcome=Outcome.SCHEDULED, node=node.name, row=self.state.nodes.rows[node.name],
            feasible=ties, evaluated=len(self.state.nodes.rows), ties=ties,
            draw=self.draw(pod) if ties > 1 else 0,
        )  # fmt: skip
        self._step(decided)
        self._commit()

    @property
    def promise(self) -> BindPod | None:
        """The oldest decided bind without an outcome; None if there is none."""
        for uid, reservation in self.state.reservations.items():
            pod, version = self.state.pods[uid].pod, self._seen.of(POD).version(uid)
            decision = self._decisions.intents[uid]
            return BindPod(uid, pod.namespace, pod.name, reservation.node, version, decision)
        return None

    def answered(self, answer: ClusterAnswer) -> bool:
        """Records the outcome of the promise. False if it is unknown. If the cluster refuses the
        bind, the pod waits again."""
        match answer:
            case Bound(request=bind):
                attempt = self.state.reservations[bind.uid].attempt
                self._step(
                    records.BindSucceeded(uid=bind.uid, node=bind.node),
                    records.PodBound(uid=bind.uid, node=bind.node, attempt=attempt),
                )
            case PodAbsent(request=request):
                self._seen.of(POD).note_absence(request.uid)
                self._step(records.PodDeleted(uid=request.uid))
            case PodShown():
                self._refused(answer.seen)
            case _:
                return False
        self._commit()
        return True

    # --- records --------------------------------------------------------------------------

    def _begin(self, opening: StreamStarted) -> None:
        """Applies the log, and begins a term."""
        for stored in self._log.read():
            self._apply(stored.logged)
            record = stored.record
            if isinstance(record, StreamStarted) and record.inputs.get(OWN) != self.name:
                raise InputError(
                    f"stream {self.name}", "was begun by another scheduler", "use another name"
                )
        if not self.state.position:
            self._step(opening)
        self._step(takeover.term_record(self.state, self._log.term, opening))
        self._commit()

    def _observe(self, stimulus: Record) -> None:
        """Records a stimulus if the state does not show it already."""
        match stimulus:
            case records.PodUpdated(pod=pod):
                self._observe_pod(pod)
            case records.NodeUpdated(node=whole_node):
                node = self._annotations.stripped(whole_node)
                row = self.state.nodes.rows.get(node.name)
                if row is None:
                    self._step(records.NodeAdded(node=node))
                elif self.state.nodes.nodes[row] != node:
                    self._step(records.NodeUpdated(node=node))
            case records.PodDeleted(uid=uid) if uid in self.state.pods:
                self._step(stimulus)
            case records.NodeDeleted(name=name) if name in self.state.nodes.rows:
                self._step(stimulus)

    def _observe_pod(self, whole_pod: Pod) -> None:
        pod = self._annotations.stripped(whole_pod)
        pod_state = self.state.pods.get(pod.uid)
        reservation = self.state.reservations.get(pod.uid)
        is_reserved = reservation is not None and reservation.node == pod.node_name
        if pod_state is not None and reservation is not None and is_reserved:
            # The answer to the bind reached neither this process nor the one before it.
            bound = records.PodBound(uid=pod.uid, node=pod.node_name, attempt=reservation.attempt)
            self._step(records.PodUpdated(pod=pod), bound)
        elif pod_state is not None and pod_state.pod != pod:
            self._step(records.PodUpdated(pod=pod))
        elif pod_state is None and pod.scheduler_name == self.name:
            queued = records.PodQueued(
                uid=pod.uid, queue=Queue.ACTIVE, cause=records.MoveCause.POD_ADD
            )
            self._step(records.PodAdded(pod=pod), *(() if pod.node_name else (queued,)))

    def _refused(self, seen: PodSeen) -> None:
        """Records the pod after a refused bind: it is on a node, or it waits again."""
        uid = seen.pod.uid
        if self._seen.note_answer(seen):
            self._observe_pod(seen.pod)
        reservation = self.state.reservations.get(uid)
        if reservation is not None:
            node, message = reservation.node, "the cluster refused the bind"
            self._step(
                records.BindFailed(uid=uid, node=node, message=message),
                records.PodUnreserved(uid=uid, node=node, message=message),
                records.PodQueued(uid=uid, queue=Queue.ACTIVE, cause=records.MoveCause.BIND_FAILED),
            )

    def _step(self, *step: Record) -> None:
        """Adds the records of a step; the first is the cause of the others."""
        if len(self._open) >= _BATCH_RECORDS:
            self._commit()
        at, cause = max(self.state.now, self._clock()), self.state.position
        for record in step:
            logged = LogEntry(self.state.position, at, cause, record)
            self._apply(logged)
            self._open.append(StoredRecord.of(logged))

    def _apply(self, logged: LogEntry) -> None:
        self.state.apply(logged.record, logged.at)
        self._decisions.on_record(logged)

    def _commit(self) -> None:
        """Commits the open records, and waits until they are durable."""
        if self._open:
            self._log.begin(Batch(self._open, {}))
            self._log.finish()
            self._open = []
