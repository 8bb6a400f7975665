"""The requests of a live scheduler to an API server, the answers, and the events of watches.

Each request gets exactly one answer. ``Unknown`` means that no answer came in time: the request may
have been carried out, or may still be. A resourceVersion is the decimal number with which the API
server counts its changes; versions of one resource can be compared (KEP-5504). Every read is
consistent. A *resource* is named by the domain type of its objects: ``Pod``, ``Node``, or a type of
domain/objects/registry.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records import Victims
from eventsched.domain.records.object_writes import Write

# --- requests -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListCluster:
    """Read all objects of all resources and watch them from then on. Answer: ``Listed``."""


@dataclass(frozen=True, slots=True)
class BindPod:
    """Create a Binding with uid and resourceVersion as preconditions and the annotation
    ``eventsched.io/decision`` (``stream/position@token``). Answer: ``Bound``; ``PodShown`` with the
    pod as it is now if the Binding was refused (409); ``PodAbsent``. If ``extender`` is not -1, the
    extender at that index is asked to bind the pod, and chooses the Binding itself."""

    uid: str
    namespace: str
    name: str
    node: str
    resource_version: int
    decision: str
    extender: int = -1


@dataclass(frozen=True, slots=True)
class GetPod:
    """Read a pod. Answer: ``PodShown`` or ``PodAbsent``."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class TouchPod:
    """Change a pod's resourceVersion (a nonce in a condition), so that every Binding sent with an
    older version fails. Answer: ``PodShown`` after the change, or ``PodAbsent``."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Delete a pod with its own grace period and its uid as precondition. Before that, set the
    condition ``DisruptionTarget``, reason ``PreemptionByScheduler``. Its message begins with
    ``profile``, the scheduler of the preempting pod, and ends with ``decision``. Answer:
    ``PodShown`` with the pod afterwards (not being deleted if that was refused); ``PodAbsent``."""

    uid: str
    namespace: str
    name: str
    decision: str
    profile: str = "default-scheduler"


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write into a pod's status why it has no node. If ``reason`` is not empty
    (``Unschedulable``, ``SchedulerError``), this sets the condition ``PodScheduled`` to False with
    ``reason`` and ``message``. If ``nominated_node`` is not None, it sets ``nominatedNodeName``
    ("" clears it). uid and resourceVersion are preconditions, so a late report never reaches a
    bound pod. ``at`` is the decision's time (µs). Answer: ``Reported`` with the pod afterwards;
    ``PodShown`` with the pod as it is now if it has changed (409); ``PodAbsent``."""

    uid: str
    namespace: str
    name: str
    resource_version: int
    reason: str
    message: str
    nominated_node: str | None
    at: int


@dataclass(frozen=True, slots=True)
class WriteEvent:
    """Create an Event (events.k8s.io/v1) about a pod. Its name consists of the pod's name and
    ``key``, so repeating the request is harmless: AlreadyExists (409) is success. ``key`` is the
    decision's id (``stream/position@token``) and becomes the annotation ``eventsched.io/decision``;
    ``note`` is at most 1,024 bytes; ``related`` is kind, namespace, name and uid of the other
    object; ``controller`` the profile's name; ``at`` the decision's time (µs). Answer:
    ``Reported``."""

    key: str
    namespace: str
    name: str
    uid: str
    reason: Literal["Scheduled", "FailedScheduling", "Preempted"]
    action: Literal["Binding", "Scheduling", "Preempting"]
    type: Literal["Normal", "Warning"]
    note: str
    related: tuple[str, str, str, str] | None
    at: int
    controller: str


@dataclass(frozen=True, slots=True)
class WriteObject:
    """Make a change (domain/records/object_writes.py) that the bind of a pod's attempt waits for.
    If the object already has it, nothing is written, so the request may be repeated. Values that
    others have written stay. Answer: ``Written``, or ``WriteRefused`` if the object is not as
    expected or does not exist."""

    uid: str
    namespace: str
    name: str
    attempt: int
    write: Write


@dataclass(frozen=True, slots=True)
class CallExtender:
    """Call an extender about nodes, by name, or about the candidates of a preemption. ``extender``
    is its index in the configuration; ``verb`` is one of domain/records/extender_records.py.
    Answer: always an ``ExtenderReply``, also after a failure."""

    uid: str
    namespace: str
    name: str
    attempt: int
    extender: int
    verb: str
    nodes: tuple[str, ...]
    candidates: Mapping[str, Victims]


PodRequest = BindPod | GetPod | TouchPod | EvictPod | PatchStatus
ClusterRequest = ListCluster | PodRequest | WriteEvent | WriteObject | CallExtender


# --- events of watches --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod at a resourceVersion, from a list, a watch or an answer."""

    pod: Pod
    resource_version: int


@dataclass(frozen=True, slots=True)
class PodGone:
    """A pod was deleted or has finished."""

    uid: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A node at a resourceVersion, from a list or a watch."""

    node: Node
    resource_version: int


@dataclass(frozen=True, slots=True)
class NodeGone:
    """A node was deleted."""

    name: str
    resource_version: int


@dataclass(frozen=True, slots=True)
class ObjectSeen:
    """An object of another resource at a resourceVersion, from a list or a watch."""

    object: AnyObject
    resource_version: int


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """An object was deleted; ``type`` is its resource."""

    type: str
    namespace: str
    name: str
    resource_version: int


Seen = PodSeen | NodeSeen | ObjectSeen
Gone = PodGone | NodeGone | ObjectGone


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of one resource at a resourceVersion."""

    resource: str
    version: int
    seen: Sequence[Seen]


@dataclass(frozen=True, slots=True)
class Relisted:
    """A watch could not resume (410 Gone, a gap), so the resource was listed again. Events were
    complete up to the resourceVersion ``since``; the watch goes on from ``listing``."""

    listing: Listing
    since: int


WatchEvent = Seen | Gone | Relisted


# --- answers ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects: a listing for each watched resource. Each was read after the request was made,
    and its resource is watched from the listing's version on."""

    listings: Sequence[Listing]


@dataclass(frozen=True, slots=True)
class Bound:
    """A Binding was created."""

    request: BindPod


@dataclass(frozen=True, slots=True)
class PodShown:
    """The pod of a request as it is now. For ``BindPod`` and ``PatchStatus`` it also means that the
    request was refused. ``message`` is the text of an extender that refused to bind the pod."""

    request: PodRequest
    seen: PodSeen
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodAbsent:
    """The pod no longer exists (404, or another uid under the name)."""

    request: PodRequest


@dataclass(frozen=True, slots=True)
class Reported:
    """A report is done: either it is written (``seen`` is the pod after a ``PatchStatus``), or the
    API server will never accept it (``refused`` is the reason, for people; do not repeat it)."""

    request: PatchStatus | WriteEvent
    seen: PodSeen | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A change is made; ``seen`` is the object with the change."""

    request: WriteObject
    seen: ObjectSeen


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A change was refused, and would be refused again. ``message`` is the API server's reason;
    ``seen`` is the object as it is now, if it exists."""

    request: WriteObject
    message: str
    seen: ObjectSeen | None = None


@dataclass(frozen=True, slots=True)
class ExtenderReply:
    """An extender's answer, unchanged: nodes that ``passed``, reasons of those that did not (name →
    reason), ``scores`` by name, and the ``victims`` on each node. If the call failed, ``problem``
    is the reason, for people. ``duration`` in µs."""

    request: CallExtender
    passed: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    scores: tuple[tuple[str, int], ...] = ()
    victims: Mapping[str, Victims] = field(default_factory=dict)
    problem: str = ""
    duration: int = 0


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer came in time to a request to the cluster or to the database."""

    request: object


PodAnswer = Bound | PodShown | PodAbsent
WriteAnswer = Written | WriteRefused
TermAnswer = PodAnswer | Reported | WriteAnswer | ExtenderReply
"""Answers to the requests that are made only within a term, except touches."""
ClusterAnswer = Listed | TermAnswer | Unknown
