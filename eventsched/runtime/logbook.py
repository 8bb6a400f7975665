"""The log of a scheduler of one's own: for a program that watches, picks a node and binds, without
profiles, plugins and queues. What it sees of nodes and of its pods and what it decides is committed
before it takes effect, so that ``eventsched explain``, SQL and ``eventsched verify`` work on it.

    with Logbook(address, "my-scheduler") as book:
        book.saw(…)                                   # what the cluster tells
        book.decide(pod, node)                        # for each pod of book.waiting
        book.answered(await carry_out(book.promise))  # while there is one

docs/minimal.md has a whole scheduler. A decision is a promise: it is carried out, also by the next
process, until the pod has a node, is gone, or the cluster refuses. There is one writer: when a
second process opens the stream the first one's next record is refused (FencedError), before it can
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
from eventsched.domain.records.logged import Logged
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import Batch, Stored
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.seen_versions import NODE, POD, SeenResources

OWN = "scheduler"
"""Among the inputs of a stream's first record: who decides, where that is not the engine."""
_BATCH = 500
"""Records that are committed together at most, but for the rest of a step."""


class Logbook:
    """One stream, as the only one who writes it. ``state`` is what the log says, to be read."""

    def __init__(
        self,
        address: str,
        name: str,
        seed: str = "eventsched",
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        annotations: Iterable[str] = (),
    ) -> None:
        """``address`` is a database with the schema; ``name`` the stream's, and the schedulerName
        of its pods; ``seed`` is for ``draw``, and stands in a new stream; ``clock`` gives µs since
        1970; ``annotations`` are those of pods and nodes that are kept, as in
        ``KeptAnnotations``. Raises UnavailableError where the database is away, InputError where
        the stream is somebody else's."""
        self.name = name
        self.state = SchedulerState()
        self._clock = clock
        self._annotations = KeptAnnotations(annotations)
        self._seen = SeenResources()
        self._decisions = OpenDecisions(name)
        self._open: list[Stored] = []
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

    def saw(self, told: Listed | WatchEvent) -> None:
        """Writes down what is news of nodes and of this scheduler's pods; of lists also what is not
        there any more. Raises FencedError and UnavailableError, as everything that writes; then
        this object is of no more use."""
        match told:
            case Listed() | Relisted():
                listings = told.listings if isinstance(told, Listed) else [told.listing]
                mine = [each for each in listings if each.resource in (POD, NODE)]
                for each in takeover.differences(self.state, mine, self._seen):
                    self._observe(each)
            case PodSeen() | PodGone() | NodeSeen() | NodeGone():
                news = self._seen.watched(told)
                if news is not None:
                    self._observe(news)
        self._commit()

    @property
    def nodes(self) -> list[Node]:
        """The nodes that there are, as they came."""
        table = self.state.nodes
        there = (table.nodes[row] for row in sorted(table.rows.values()))
        return [node for node in there if node is not None]

    @property
    def waiting(self) -> list[Pod]:
        """This scheduler's pods without a node and without a decision, as they came."""
        there = (each.pod for each in self.state.pods.values() if each.queue is not None)
        return [pod for pod in there if not pod.deleting and not pod.gates]

    def draw(self, pod: Pod) -> int:
        """A number that is drawn for the pod's next decision: 64 bits that follow from the stream's
        seed, the pod's uid and the number of its attempt."""
        attempt = self.state.pods[pod.uid].attempts + 1
        return draw(self.state.seed, pod.uid, attempt, "tie-break")

    def decide(self, pod: Pod, node: Node, of: int = 1) -> None:
        """Commits that a waiting pod is to be bound to a node, chosen among ``of`` that would have
        done as well (by ``draw`` where these are several). Raises KeyError for a pod or node that
        is not there."""
        decided = PodDecided(
            uid=pod.uid, attempt=self.state.pods[pod.uid].attempts + 1, profile=self.name,
            outcome=Outcome.SCHEDULED, node=node.name, row=self.state.nodes.rows[node.name],
            feasible=of, evaluated=len(self.state.nodes.rows), ties=of,
            draw=self.draw(pod) if of > 1 else 0,
        )  # fmt: skip
        self._step(decided)
        self._commit()

    @property
    def promise(self) -> BindPod | None:
        """The oldest bind that was decided and has no outcome; None where there is none."""
        for uid, held in self.state.reservations.items():
            pod, version = self.state.pods[uid].pod, self._seen.of(POD).version(uid)
            decision = self._decisions.intents[uid]
            return BindPod(uid, pod.namespace, pod.name, held.node, version, decision)
        return None

    def answered(self, answer: ClusterAnswer) -> bool:
        """Writes down what came of the promise that was carried out; whether that is known. Where
        the cluster refuses it the pod waits again."""
        match answer:
            case Bound(request=bind):
                held = self.state.reservations[bind.uid]
                self._step(
                    records.BindSucceeded(uid=bind.uid, node=bind.node),
                    records.PodBound(uid=bind.uid, node=bind.node, attempt=held.attempt),
                )
            case PodAbsent(request=asked):
                self._seen.of(POD).absent(asked.uid)
                self._step(records.PodDeleted(uid=asked.uid))
            case PodShown():
                self._refused(answer.seen)
            case _:
                return False
        self._commit()
        return True

    # --- records --------------------------------------------------------------------------

    def _begin(self, opening: StreamStarted) -> None:
        """Folds the log, and begins a term."""
        for stored in self._log.read():
            self._apply(stored.logged)
            begun = stored.record
            if isinstance(begun, StreamStarted) and begun.inputs.get(OWN) != self.name:
                where = f"stream {self.name}"
                raise InputError(where, "was begun by another scheduler", "use another name")
        if not self.state.position:
            self._step(opening)
        self._step(takeover.beginning(self.state, self._log.term, opening))
        self._commit()

    def _observe(self, seen: Record) -> None:
        """Takes in what is news to the log, too."""
        match seen:
            case records.PodUpdated(pod=pod):
                self._pod(pod)
            case records.NodeUpdated(node=shown):
                node = self._annotations.seen(shown)
                row = self.state.nodes.rows.get(node.name)
                if row is None:
                    self._step(records.NodeAdded(node=node))
                elif self.state.nodes.nodes[row] != node:
                    self._step(records.NodeUpdated(node=node))
            case records.PodDeleted(uid=uid) if uid in self.state.pods:
                self._step(seen)
            case records.NodeDeleted(name=name) if name in self.state.nodes.rows:
                self._step(seen)

    def _pod(self, shown: Pod) -> None:
        pod = self._annotations.seen(shown)
        known, held = self.state.pods.get(pod.uid), self.state.reservations.get(pod.uid)
        if known is not None and held is not None and held.node == pod.node_name:
            # The answer to the bind did not reach us, or the process before us.
            bound = records.PodBound(uid=pod.uid, node=pod.node_name, attempt=held.attempt)
            self._step(records.PodUpdated(pod=pod), bound)
        elif known is not None and known.pod != pod:
            self._step(records.PodUpdated(pod=pod))
        elif known is None and pod.scheduler_name == self.name:
            queued = records.PodQueued(uid=pod.uid, queue=Queue.ACTIVE, cause="PodAdd")
            self._step(records.PodAdded(pod=pod), *(() if pod.node_name else (queued,)))

    def _refused(self, shown: PodSeen) -> None:
        """The pod as it is after a bind that was refused: on a node, or waiting again."""
        uid = shown.pod.uid
        if self._seen.answered(shown):
            self._pod(shown.pod)
        held = self.state.reservations.get(uid)
        if held is not None:
            said = "the cluster refused the bind"
            self._step(
                records.BindFailed(uid=uid, node=held.node, message=said),
                records.PodUnreserved(uid=uid, node=held.node, message=said),
                records.PodQueued(uid=uid, queue=Queue.ACTIVE, cause="BindFailed"),
            )

    def _step(self, *made: Record) -> None:
        """Records that belong together: the first is why there are the others."""
        if len(self._open) >= _BATCH:
            self._commit()
        at, cause = max(self.state.now, self._clock()), self.state.position
        for record in made:
            logged = Logged(self.state.position, at, cause, record)
            self._apply(logged)
            self._open.append(Stored.of(logged))

    def _apply(self, logged: Logged) -> None:
        self.state.apply(logged.record, logged.at)
        self._decisions.follow(logged)

    def _commit(self) -> None:
        """Returns when everything is durable."""
        if self._open:
            self._log.begin(Batch(self._open, {}))
            self._log.finish()
            self._open = []
