"""The events: what was decided; and the effects, what the world is asked to do because of it.

Stimuli (stimuli.py) and events are the records of a log: frozen facts with a version and canonical
bytes. ``SchedulerState.apply`` takes either. Times are microseconds; second 0 of a trace is
1970-01-01 UTC.

To change the shape of a kind: raise its ``version`` and add an upcaster where records are read;
stored bytes never change.
"""

from enum import StrEnum
from typing import Any

from eventsched.domain.objects import Frozen
from eventsched.domain.records.extender_questions import Consult
from eventsched.domain.records.object_writes import Prepare, Write
from eventsched.domain.records.stimuli import Event
from eventsched.domain.records.verdicts import ScoreColumn, Verdict


class Queue(StrEnum):
    """Where a pod that is not placed waits."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


class Outcome(StrEnum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    ERROR = "error"


class VerdictDefined(Event, frozen=True, tag=True):
    """The stream's dictionary got a new entry: ``number`` in a code vector means ``verdict``."""

    number: int
    verdict: Verdict


class ScoringDefined(Event, frozen=True, tag=True):
    """The stream's dictionary got a new entry: ``number`` in a decision means these score columns,
    in this order (their ``parameters`` are in the decision)."""

    number: int
    columns: tuple[ScoreColumn, ...]


class PodQueued(Event, frozen=True, tag=True):
    """A pod moved to a queue.

    ``cause`` is what moved it: a cluster event (``NodeAdd``), ``PodAdd``, ``AttemptFailed``,
    ``BackoffComplete``, ``Flush``, ``BindFailed``…; ``plugin`` whose hint or refusal did it;
    ``rejectors`` the plugins that refused the pod in its last attempt, ``pending`` those of them
    that answered Pending (they wake it without backoff); ``until`` the end of its backoff in
    microseconds, 0 where there is none. Its backoff grows with ``errors`` (attempts in a
    row that ended in an error), or where there are none with ``failures`` (all that found no node).
    """

    uid: str
    queue: Queue
    cause: str
    plugin: str = ""
    rejectors: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    until: int = 0
    failures: int = 0
    errors: int = 0
    message: str = ""


class PodDecided(Event, frozen=True, tag=True):
    """One attempt, from the queue's head to the intent to bind, as one fused record.

    ``counts`` are (verdict number, nodes) over the refused nodes; ``scoring`` names the
    columns whose vectors are in the detail (0: none), ``parameters`` what each needs to be
    normalised; ``digest`` covers those vectors. Of the best nodes ``ties`` had the
    same total, and ``draw`` (a hash, see domain.draw) chose number draw % ties among them in row
    order. ``carry`` is what Reserve and Permit left for PreBind; ``deadlines`` are the ends, in
    microseconds, of the permit waits by plugin. ``start`` is the node, counted over those that
    exist, that a search began with that was allowed to stop early; -1 where all nodes were due.
    ``nominated`` says that it is the node that the pod was nominated to: such a node is taken if it
    passes, whatever the scores. With outcome scheduled the record is the intent: the bind leaves
    when it is committed. ``binder`` names the extender that binds the pod, "" where it is bound as
    usual.
    """

    uid: str
    attempt: int
    outcome: Outcome
    profile: str = "default-scheduler"
    node: str = ""
    row: int = -1
    score: int = 0
    runner_up: str = ""
    runner_up_score: int = 0
    feasible: int = 0
    evaluated: int = 0
    ties: int = 0
    draw: int = 0
    counts: tuple[tuple[int, int], ...] = ()
    scoring: int = 0
    parameters: tuple[tuple[int, ...], ...] = ()
    digest: str = ""
    plugin: str = ""
    message: str = ""
    carry: dict[str, Any] = {}
    deadlines: dict[str, int] = {}
    start: int = -1
    nominated: bool = False
    binder: str = ""


class PermitGranted(Event, frozen=True, tag=True):
    """A plugin that had a pod wait lets it go on (``by`` says on whose behalf)."""

    uid: str
    plugin: str
    by: str = ""


class PreparationIntended(Event, frozen=True, tag=True):
    """What has to be so before a pod can be bound. ``writes`` are changes that PreBind asks the
    cluster for, by plugin: they leave when the record is committed. The bind is intended when all
    of them are made and the plugins find what they wait for, by ``deadlines`` (µs, by plugin)."""

    uid: str
    node: str
    attempt: int
    deadlines: dict[str, int] = {}
    writes: dict[str, tuple[Write, ...]] = {}


class BindIntended(Event, frozen=True, tag=True):
    """A pod that waited, at Permit or for what PreBind needs, is to be bound now: the intent, as a
    record of its own."""

    uid: str
    node: str
    attempt: int


class PodUnreserved(Event, frozen=True, tag=True):
    """A reservation was given up; the plugins' Unreserve ran in reverse order."""

    uid: str
    node: str
    plugin: str = ""
    message: str = ""


class PodSkipped(Event, frozen=True, tag=True):
    """A pod came to the head of the queue and left it without an attempt; ``message`` says why (it
    is being deleted). Upstream: schedule_one.go skipPodSchedule."""

    uid: str
    message: str


class PodBound(Event, frozen=True, tag=True):
    """A pod that we placed is on its node; ``message`` is what went wrong in PostBind."""

    uid: str
    node: str
    attempt: int
    message: str = ""


class PreemptionDecided(Event, frozen=True, tag=True):
    """A pod that found no node is nominated to one which less important pods have to leave: the
    intent to evict them.

    Of ``nodes`` where evictions might help ``looked`` were tried, from row ``first`` on to row
    ``last`` (from the last row on to the first where ``last`` is smaller; ``draw``, a hash, chose
    where to begin), and ``candidates`` would do. The detail holds each candidate's victims and what
    the criteria compare, ``digest`` covers them; ``violations`` of budgets, the ``highest``
    priority, the ``total`` of priorities and the earliest ``start`` (µs; 0: none of them has) of
    those that have the highest are the chosen node's. ``criterion`` is the one that left this node
    alone.

    ``victims`` are the most important first. Those in ``leaving`` were being deleted already, those
    in ``sent_back`` are not bound yet, as their binds wait, and go back to a queue; all others are
    evicted when the record is committed. ``plugin`` decided it by quotas, under which pods of other
    namespaces may have to leave that are more important; "" is DefaultPreemption.
    """

    uid: str
    attempt: int
    node: str
    row: int
    criterion: str
    victims: tuple[str, ...]
    leaving: tuple[str, ...] = ()
    sent_back: tuple[str, ...] = ()
    nodes: int = 0
    looked: int = 0
    candidates: int = 0
    first: int = 0
    last: int = 0
    draw: int = 0
    violations: int = 0
    highest: int = 0
    total: int = 0
    start: int = 0
    digest: str = ""
    plugin: str = ""

    @property
    def evicted(self) -> tuple[str, ...]:
        """The victims that the cluster is asked to delete."""
        spared = {*self.leaving, *self.sent_back}
        return tuple(uid for uid in self.victims if uid not in spared)


class NominationCleared(Event, frozen=True, tag=True):
    """A pod is no longer nominated to a node. ``cause``: ``NoCandidate`` (preemption finds no node
    any more), ``AttemptFailed``, ``BindFailed``…, or ``Preempted``: a more important pod (``by``)
    was nominated to the node."""

    uid: str
    node: str
    cause: str
    by: str = ""


class NodeOvercommitted(Event, frozen=True, tag=True):
    """A node's pods request more of some resources than it has: somebody else has placed the pod
    ``by`` (a uid) there, or the node has changed (""). ``resources`` gives what is requested, and
    what there is."""

    node: str
    by: str
    resources: dict[str, tuple[int, int]]


class MemoryChanged(Event, frozen=True, tag=True):
    """A plugin's memory has a new value under a key, or none any more (null)."""

    plugin: str
    key: str
    value: Any = None


# --- effects: what the world is asked to do, once the record that says so is committed ----


class Bind(Frozen, frozen=True):
    """Bind a pod to a node; ``decision`` is the position in the stream of the record that says so:
    the intent, or its retry."""

    uid: str
    namespace: str
    name: str
    node: str
    attempt: int
    decision: int


class Evict(Frozen, frozen=True):
    """Delete a pod, to make room for another one (``preemptor``, a uid); ``decision`` is the
    position in the stream of the record that says so."""

    uid: str
    namespace: str
    name: str
    node: str
    preemptor: str
    decision: int


Effect = Bind | Evict | Prepare | Consult
