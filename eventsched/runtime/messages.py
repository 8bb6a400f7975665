"""What a leader is told, and what it asks for: the two alphabets of ``runtime/leader.py``.

Whoever drives a leader carries each request out and answers it exactly once: with its answer, or
with ``Unknown`` when none came in time (the request may have been carried out, or still will be).
A resourceVersion is the decimal number that the API server counts its changes with; those of one
resource can be compared (KEP-5504), and a read is always a consistent one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eventsched.domain.objects import Node, Pod
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.port import Stored

# --- requests to the database -------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquire:
    """Begin a new epoch with a token of its own, and read the log. Answer: ``Acquired``."""


@dataclass(frozen=True, slots=True)
class Append:
    """Commit a batch. Answer: ``Committed``, or ``Deposed``. After an unknown outcome the same
    batch comes again, byte for byte; where the first one did arrive, that is ``Committed``."""

    batch: SealedBatch


@dataclass(frozen=True, slots=True)
class Renew:
    """Ask whether the term is still the newest, and say that its holder lives. Answer:
    ``Renewed``, or ``Deposed``."""

    term: Term


# --- requests to the API server -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListCluster:
    """Read all nodes and pods, and watch from there on. Answer: ``Listed``."""


@dataclass(frozen=True, slots=True)
class BindPod:
    """Create a Binding with uid and resourceVersion as preconditions and the annotation
    ``eventsched.io/decision`` (``stream/position@token``). Answer: ``Bound``; ``PodShown`` where it
    was refused (409), with the pod as it is now; ``PodAbsent``."""

    uid: str
    namespace: str
    name: str
    node: str
    resource_version: int
    decision: str


@dataclass(frozen=True, slots=True)
class GetPod:
    """Read a pod. Answer: ``PodShown`` or ``PodAbsent``."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class TouchPod:
    """Make a pod's resourceVersion move (a nonce in a condition): every Binding that was sent with
    an older one fails from then on. Answer: ``PodShown``, as it is after that, or ``PodAbsent``."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Delete a pod (its uid as precondition) with its own grace period, after it got the condition
    ``DisruptionTarget``, reason ``PreemptionByScheduler``, whose message ends with ``decision``.
    Answer: ``PodShown``, as it is then, not being deleted where that was refused; ``PodAbsent``."""

    uid: str
    namespace: str
    name: str
    decision: str


PodRequest = BindPod | GetPod | TouchPod | EvictPod
Request = Acquire | Append | Renew | ListCluster | PodRequest


# --- what comes from the database ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Acquired:
    """A term has begun. ``records`` are the whole log up to ``head``. ``timeline`` names the
    history that the database is on: it differs from the one in the log when committed batches may
    have been lost (a failover to a replica, a restored backup)."""

    term: Term
    head: Head
    records: Sequence[Stored]
    timeline: str


@dataclass(frozen=True, slots=True)
class Committed:
    """The batch under way is durable."""


@dataclass(frozen=True, slots=True)
class Renewed:
    """The term is still the newest."""


@dataclass(frozen=True, slots=True)
class Deposed:
    """The term is over: another one has begun, the database has gone over to another history since
    (also where the log's end looks the same on it), or the stored head is not the leader's. Nothing
    that this leader offers will be accepted. ``reason`` is for people."""

    reason: str


# --- what comes from the API server -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod as it is at a resourceVersion: from a list, a watch, or in an answer."""

    pod: Pod
    resource_version: int


@dataclass(frozen=True, slots=True)
class PodGone:
    """The watch says that a pod was deleted or has run to its end."""

    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node as it is at a resourceVersion: from a list or a watch."""

    node: Node
    resource_version: int


@dataclass(frozen=True, slots=True)
class NodeGone:
    """The watch says that a node was deleted."""

    name: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class WatchBroken:
    """The watch cannot go on where it was (410 Gone): what happened since is not known."""


@dataclass(frozen=True, slots=True)
class Listed:
    """All nodes and all pods: two lists, each with its resourceVersion; both were read after the
    request was made, and each is watched from there on."""

    nodes_version: int
    pods_version: int
    nodes: Sequence[NodeSeen]
    pods: Sequence[PodSeen]


@dataclass(frozen=True, slots=True)
class Bound:
    """A Binding was created."""

    request: BindPod


@dataclass(frozen=True, slots=True)
class PodShown:
    """The pod that a request was about, as it is now; of a ``BindPod`` also that it was refused."""

    request: PodRequest
    seen: PodSeen


@dataclass(frozen=True, slots=True)
class PodAbsent:
    """There is no pod of that uid any more (404, or another uid under the name)."""

    request: PodRequest


# --- from whoever drives the leader -------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer came in time."""

    request: Request


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: ``Leader.wake_at`` is reached."""


WatchEvent = PodSeen | PodGone | NodeSeen | NodeGone | WatchBroken
PodAnswer = Bound | PodShown | PodAbsent
Message = (
    Acquired | Committed | Renewed | Deposed | WatchEvent | Listed | PodAnswer | Unknown | Tick
)
