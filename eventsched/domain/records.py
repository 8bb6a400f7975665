"""The catalogue of stimuli and events: everything that can stand in a log.

A stimulus says what happened outside (or that time passed); an event says what was decided. Both
are facts: frozen, versioned, with canonical bytes. ``SchedulerState.apply`` takes either. Times are
microseconds; trace second 0 is 1970-01-01 UTC.

To change the shape of a kind: raise its ``version`` and add an upcaster where records are read;
stored bytes never change.
"""

from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from eventsched.domain.objects import Frozen, Node, Pod, canonical
from eventsched.domain.registry import AnyObject
from eventsched.domain.verdicts import ScoreColumn, Verdict


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


class Record(Frozen, frozen=True, tag_field="kind"):
    """Base of stimuli and events; ``version`` is that of the kind's shape."""

    version: ClassVar[int] = 1


class Stimulus(Record, frozen=True):
    """Something that happened outside the engine."""


class Event(Record, frozen=True):
    """Something that the engine decided."""


# --- stimuli ------------------------------------------------------------------------------


class StreamStarted(Stimulus, frozen=True, tag=True):
    """The first record of a stream: what its decisions depend on besides its other records.

    ``inputs`` are digests by name (node and pod files); ``configuration`` is the text of the
    KubeSchedulerConfiguration, "" for the default one; ``flags`` are the numbered behaviours in
    force; ``plugins`` gives name → source digest; ``timeline`` names the history of the database
    that the stream began on, where that can change.
    """

    format: int
    engine: str
    seed: str
    inputs: dict[str, str] = {}
    configuration: str = ""
    flags: tuple[int, ...] = ()
    plugins: dict[str, str] = {}
    timeline: str = ""


class TermBegan(Stimulus, frozen=True, tag=True):
    """A leader took the stream over. ``token`` (8 hex digits of the term's) stands in the ids of
    the decisions that follow: ``stream/position@token``."""

    epoch: int
    token: str


class HistoryLost(Stimulus, frozen=True, tag=True):
    """The database is on another history than the log was written on (a failover, a restored
    backup), so committed records may be missing. Since then no older bind could land any more, what
    the cluster has was taken in, and all reservations were given up; the log goes on from here."""

    timeline: str


class NodeAdded(Stimulus, frozen=True, tag=True):
    """A node joined the cluster."""

    node: Node


class NodeUpdated(Stimulus, frozen=True, tag=True):
    """A part of a node that scheduling reads has changed."""

    node: Node


class NodeDeleted(Stimulus, frozen=True, tag=True):
    """A node left the cluster."""

    name: str


class PodAdded(Stimulus, frozen=True, tag=True):
    """A pod appeared: to be scheduled by us, or already on a node."""

    pod: Pod


class PodUpdated(Stimulus, frozen=True, tag=True):
    """A part of a pod that scheduling reads has changed."""

    pod: Pod


class PodDeleted(Stimulus, frozen=True, tag=True):
    """A pod is gone or has run to its end: what it held is free."""

    uid: str


class ObjectChanged(Stimulus, frozen=True, tag=True):
    """An object of the cluster other than a pod or a node (a claim, a service…) appeared or has
    changed in a part that scheduling reads."""

    object: AnyObject


class ObjectDeleted(Stimulus, frozen=True, tag=True):
    """Such an object is gone; ``type`` is the name of its type (domain/registry.py)."""

    type: str
    name: str
    namespace: str = ""


class BindSucceeded(Stimulus, frozen=True, tag=True):
    """The cluster accepted a binding."""

    uid: str
    node: str


class BindFailed(Stimulus, frozen=True, tag=True):
    """The cluster refused a binding; the pod is not on the node."""

    uid: str
    node: str
    message: str


class BindRetried(Stimulus, frozen=True, tag=True):
    """An intent goes on with a newer resourceVersion of its pod as precondition: a new leader goes
    on with it, or the pod has changed. The bind is called so only when this is committed."""

    uid: str
    node: str
    attempt: int
    resource_version: int


class BindVoided(Stimulus, frozen=True, tag=True):
    """An intent was given up: no bind for it can land any more, because the pod was changed after
    the last one left, to ``resource_version`` (0 where none had left). ``reason`` is for people."""

    uid: str
    node: str
    attempt: int
    reason: str
    resource_version: int = 0


class TimePassed(Stimulus, frozen=True, tag=True):
    """A timer that the engine asked for (backoff, permit deadline, flush) came due."""


# --- events -------------------------------------------------------------------------------


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
    exist, that a search began with that was allowed to stop early; -1 where all nodes were due. With outcome scheduled the record is the intent:
    the bind leaves when it is committed.
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


class PermitGranted(Event, frozen=True, tag=True):
    """A plugin that had a pod wait lets it go on (``by`` says on whose behalf)."""

    uid: str
    plugin: str
    by: str = ""


class BindIntended(Event, frozen=True, tag=True):
    """A pod that waited at Permit is to be bound now: the intent, as a record of its own."""

    uid: str
    node: str
    attempt: int


class PodUnreserved(Event, frozen=True, tag=True):
    """A reservation was given up; the plugins' Unreserve ran in reverse order."""

    uid: str
    node: str
    plugin: str = ""
    message: str = ""


class PodBound(Event, frozen=True, tag=True):
    """A pod that we placed is on its node; ``message`` is what went wrong in PostBind."""

    uid: str
    node: str
    attempt: int
    message: str = ""


class MemoryChanged(Event, frozen=True, tag=True):
    """A plugin's memory has a new value under a key, or none any more (null)."""

    plugin: str
    key: str
    value: Any = None


AnyRecord = (
    StreamStarted
    | TermBegan
    | HistoryLost
    | NodeAdded
    | NodeUpdated
    | NodeDeleted
    | PodAdded
    | PodUpdated
    | PodDeleted
    | ObjectChanged
    | ObjectDeleted
    | BindSucceeded
    | BindFailed
    | BindRetried
    | BindVoided
    | TimePassed
    | VerdictDefined
    | ScoringDefined
    | PodQueued
    | PodDecided
    | PermitGranted
    | BindIntended
    | PodUnreserved
    | PodBound
    | MemoryChanged
)

FORMAT = 1
"""Version of the log's format as a whole, in StreamStarted."""

_decoder: msgspec.json.Decoder[AnyRecord] = msgspec.json.Decoder(AnyRecord)


def encode(record: Record) -> bytes:
    """A record's canonical bytes: what is stored, hashed and compared."""
    return canonical(record)


def decode(body: bytes) -> AnyRecord:
    """The record in stored bytes. Raises msgspec.ValidationError for an unknown kind or shape."""
    return _decoder.decode(body)


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


Effect = Bind
