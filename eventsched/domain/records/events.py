"""Events: the decisions of the engine.

Stimuli (stimuli.py) and events are the records of a log: frozen values with a version and canonical
bytes. ``SchedulerState.apply`` takes both. Times are in microseconds; second 0 of a trace is
1970-01-01 UTC.

To change the shape of a kind: raise its ``version`` and add an upcaster where records are read;
stored bytes never change.
"""

from enum import StrEnum
from typing import Any

from eventsched.domain.records.object_writes import Write
from eventsched.domain.records.record import Event
from eventsched.domain.records.verdicts import ScoreColumn, Verdict


class Queue(StrEnum):
    """The queue in which a pod waits."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"


class MoveCause(StrEnum):
    """Why a pod moved to a queue or lost its nomination. The values are stored. A move can have a
    cluster event (framework/cluster_events.py) as its cause instead."""

    POD_ADD = "PodAdd"
    """The pod came into the scheduler's responsibility."""
    RECONFIGURED = "Reconfigured"
    """The configuration changed."""
    ATTEMPT_FAILED = "AttemptFailed"
    """The attempt found no node or ended in an error."""
    OVER_BUDGET = "OverBudget"
    """The pod was not tried: it would take more work than the budget allows."""
    PARKED = "Parked"
    """Too many attempts in a row ended in errors."""
    PERMIT_DENIED = "PermitDenied"
    """A Permit plugin refused the node."""
    NODE_GONE = "NodeGone"
    """The node was deleted while the pod waited at Permit."""
    BINDING_FAILED = "BindingFailed"
    """Another step of the binding cycle failed before the bind."""
    BIND_FAILED = "BindFailed"
    """The bind itself failed."""
    BIND_VOIDED = "BindVoided"
    """An open bind was given up."""
    PREEMPTED = "Preempted"
    """A more important pod took the node."""
    EVICTION_FAILED = "EvictionFailed"
    """The cluster refused to evict a victim of the pod."""
    NO_CANDIDATE = "NoCandidate"
    """Preemption no longer finds a node; only of a nomination."""
    BACKOFF_COMPLETE = "BackoffComplete"
    FLUSH = "Flush"
    """The pod was unschedulable for too long without an event."""
    FORCE_ACTIVATE = "ForceActivate"
    """A plugin asked for the pod to be retried."""


class Outcome(StrEnum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    ERROR = "error"


class VerdictDefined(Event, frozen=True, tag=True):
    """A new entry of the stream's dictionary: ``number`` in a code vector means ``verdict``."""

    number: int
    verdict: Verdict


class ScoringDefined(Event, frozen=True, tag=True):
    """A new entry of the stream's dictionary: ``number`` in a decision means these score columns,
    in this order. Their ``parameters`` are in the decision."""

    number: int
    columns: tuple[ScoreColumn, ...]


class PodQueued(Event, frozen=True, tag=True):
    """A pod moved to a queue.

    - ``cause``: what moved it: a ``MoveCause`` or a cluster event (``NodeAdd``).
    - ``plugin``: the plugin whose hint or refusal moved it.
    - ``rejectors``: the plugins that refused the pod in its last attempt; ``pending``: those of
      them that answered Pending and wake it without backoff.
    - ``until``: the end of its backoff (µs), 0 for none. The backoff grows with ``errors``
      (successive attempts that ended in an error), or without errors with ``failures`` (attempts
      that found no node).
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
    """One attempt, from the head of the queue to the intent to bind, as one record. With outcome
    ``scheduled`` it is the intent: the bind is sent when the record is committed.

    - ``counts``: (verdict number, nodes) of the refused nodes.
    - ``scoring``: the number of the score columns whose vectors are in the detail, 0 for none;
      ``parameters``: their parameters of normalization; ``digest`` covers the vectors.
    - ``ties``: how many nodes have the best total; ``draw`` (a hash, see domain.draw) chose number
      draw % ties of them in row order.
    - ``carry``: what Reserve and Permit left for PreBind.
    - ``deadlines``: the ends (µs) of the Permit waits by plugin.
    - ``start``: where a search that may stop early began, an index over existing nodes; -1 for a
      search over all nodes.
    - ``nominated``: the node is the one that the pod was nominated to. Such a node is chosen if it
      passes, whatever the scores.
    - ``binder``: the extender that binds the pod, "" if a plugin does.
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
    """A plugin lets a pod that waits at Permit continue; ``by`` says on whose behalf."""

    uid: str
    plugin: str
    by: str = ""


class PreparationIntended(Event, frozen=True, tag=True):
    """What PreBind needs before a pod can be bound. ``writes`` are the changes that it asks the
    cluster for, by plugin; they are sent when the record is committed. The bind is intended when
    all are made and the plugins allow it, before their ``deadlines`` (µs, by plugin)."""

    uid: str
    node: str
    attempt: int
    deadlines: dict[str, int] = {}
    writes: dict[str, tuple[Write, ...]] = {}


class BindIntended(Event, frozen=True, tag=True):
    """The intent to bind a pod that waited at Permit or for PreBind."""

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
    """A pod left the head of the queue without an attempt; ``message`` says why (it is being
    deleted). Upstream: schedule_one.go skipPodSchedule."""

    uid: str
    message: str


class PodBound(Event, frozen=True, tag=True):
    """A bind of ours has succeeded; ``message`` is what went wrong in PostBind."""

    uid: str
    node: str
    attempt: int
    message: str = ""


class PreemptionDecided(Event, frozen=True, tag=True):
    """A pod that found no node is nominated to a node that victims have to leave: the intent to
    evict them.

    - ``nodes``: how many nodes evictions might help on; ``looked``: how many of these were tried,
      from row ``first`` to row ``last``, past the last row if ``last`` is smaller; ``draw`` (a
      hash) chose the first; ``candidates``: how many would do.
    - ``violations`` of budgets, ``highest`` priority, ``total`` of priorities, and ``start`` (µs),
      the earliest start among victims of the highest priority (0 if none has one): what the
      criteria compare, for the chosen node. ``criterion`` is the one that decided.
    - The detail has the victims of each candidate and what the criteria compare; ``digest`` covers
      it.
    - ``victims``: the most important first. Those in ``leaving`` were already being deleted; those
      in ``sent_back`` are not bound yet and go back to a queue; all others are evicted when the
      record is committed.
    - ``plugin``: the plugin that decided by quotas, under which more important pods of other
      namespaces may have to leave; "" for DefaultPreemption.
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
        """The victims to evict."""
        spared = {*self.leaving, *self.sent_back}
        return tuple(uid for uid in self.victims if uid not in spared)


class NominationCleared(Event, frozen=True, tag=True):
    """A pod is no longer nominated to a node. ``cause``: ``NoCandidate`` (preemption no longer
    finds a node), ``AttemptFailed``, ``BindFailed``…, or ``Preempted`` (a more important pod,
    ``by``, was nominated to the node)."""

    uid: str
    node: str
    cause: str
    by: str = ""


class NodeOvercommitted(Event, frozen=True, tag=True):
    """A node's pods request more of some resources than it has, because another scheduler placed
    the pod ``by`` (a uid) there or because the node has changed (""). ``resources``: name →
    (requested, allocatable)."""

    node: str
    by: str
    resources: dict[str, tuple[int, int]]


class MemoryChanged(Event, frozen=True, tag=True):
    """A plugin's memory has a new value for a key; null removes the key. ``used_by`` is the uid of
    a pod; while that exists, the entry does not age."""

    plugin: str
    key: str
    value: Any = None
    used_by: str = ""
