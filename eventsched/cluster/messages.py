"""What a live scheduler asks of an API server, and what it is told: their two alphabets.

Whoever carries requests out answers each exactly once: with its answer, or with ``Unknown`` when
none came in time (the request may have been carried out, or still will be). A resourceVersion is
the decimal number that the API server counts its changes with; those of one resource can be
compared (KEP-5504), and a read is always a consistent one. A *resource* is named by the domain type
of its objects: ``Pod``, ``Node``, or a type of domain/objects/registry.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records.extender_questions import Victims
from eventsched.domain.records.object_writes import Write

# --- requests -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListCluster:
    """Read all objects of all resources, and watch from there on. Answer: ``Listed``."""


@dataclass(frozen=True, slots=True)
class BindPod:
    """Create a Binding with uid and resourceVersion as preconditions and the annotation
    ``eventsched.io/decision`` (``stream/position@token``). Answer: ``Bound``; ``PodShown`` where it
    was refused (409), with the pod as it is now; ``PodAbsent``. Where ``extender`` is not -1 that
    one is asked to bind the pod: it sends what Binding it likes."""

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
    """Make a pod's resourceVersion move (a nonce in a condition): every Binding that was sent with
    an older one fails from then on. Answer: ``PodShown``, as it is after that, or ``PodAbsent``."""

    uid: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class EvictPod:
    """Delete a pod (its uid as precondition) with its own grace period, after it got the condition
    ``DisruptionTarget``, reason ``PreemptionByScheduler``, whose message begins with ``profile``
    (the scheduler of the pod that it makes room for) and ends with ``decision``. Answer:
    ``PodShown``, as it is then, not being deleted where that was refused; ``PodAbsent``."""

    uid: str
    namespace: str
    name: str
    decision: str
    profile: str = "default-scheduler"


@dataclass(frozen=True, slots=True)
class ReportPod:
    """Write into a pod's status why it is not on a node: the condition ``PodScheduled`` False with
    ``reason`` (``Unschedulable``, ``SchedulerError``) and ``message``, where there is a reason; and
    ``nominatedNodeName``, where ``nominated_node`` is not None ("" clears it). uid and
    resourceVersion are preconditions, so a late report never reaches a pod that is bound. ``at`` is
    the decision's time (µs). Answer: ``Reported`` with the pod as it is then; ``PodShown`` where it
    has changed (409), as it is now; ``PodAbsent``."""

    uid: str
    namespace: str
    name: str
    resource_version: int
    reason: str
    message: str
    nominated_node: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Create an Event (events.k8s.io/v1) about a pod. Its name is made of the pod's name and
    ``key``, so that repeating it is harmless: AlreadyExists (409) is success. ``key`` is the
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
    Where the object shows it already there is nothing to do, so it may be repeated; what somebody
    else has written there stays. Answer: ``Written``, or ``WriteRefused`` where the object is not
    what it was taken for, or the API server does not have it."""

    uid: str
    namespace: str
    name: str
    attempt: int
    write: Write


@dataclass(frozen=True, slots=True)
class CallExtender:
    """Ask an extender (its place among those of the configuration) with a verb of
    domain/records/extender_questions.py about nodes by name, or about candidates of a preemption.
    Answer: ``ExtenderReply``, whatever happens."""

    uid: str
    namespace: str
    name: str
    attempt: int
    extender: int
    verb: str
    nodes: tuple[str, ...]
    candidates: Mapping[str, Victims]


PodRequest = BindPod | GetPod | TouchPod | EvictPod | ReportPod
ClusterRequest = ListCluster | PodRequest | Announce | WriteObject | CallExtender


# --- what watches say ---------------------------------------------------------------------


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
class ObjectSeen:
    """An object of another resource as it is at a resourceVersion: from a list or a watch."""

    object: AnyObject
    resource_version: int


@dataclass(frozen=True, slots=True)
class ObjectGone:
    """The watch says that an object was deleted; ``type`` is its resource."""

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
    """A watch could not go on where it was (410 Gone, a gap): it had told everything up to the
    resourceVersion ``since``; ``listing`` is what there is now, and is watched from there on."""

    listing: Listing
    since: int


WatchEvent = Seen | Gone | Relisted


# --- answers ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects: a listing for each resource that is watched. All were read after the request was
    made, one after the other, and each is watched from its version on."""

    listings: Sequence[Listing]


@dataclass(frozen=True, slots=True)
class Bound:
    """A Binding was created."""

    request: BindPod


@dataclass(frozen=True, slots=True)
class PodShown:
    """The pod that a request was about, as it is now; of ``BindPod`` and ``ReportPod`` also that it
    was refused. ``message`` is what the extender said that was to bind it, and will not."""

    request: PodRequest
    seen: PodSeen
    message: str = ""


@dataclass(frozen=True, slots=True)
class PodAbsent:
    """There is no pod of that uid any more (404, or another uid under the name)."""

    request: PodRequest


@dataclass(frozen=True, slots=True)
class Reported:
    """A report is done: it is written (``seen`` is the pod after a ``ReportPod``), or the API
    server will never take it (``refused`` says why, for people; not to be repeated)."""

    request: ReportPod | Announce
    seen: PodSeen | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """A change is made; ``seen`` is the object that shows it, as it is now."""

    request: WriteObject
    seen: ObjectSeen


@dataclass(frozen=True, slots=True)
class WriteRefused:
    """A change is not made and would not be if it were asked for again; ``message`` says why, in
    the API server's words. ``seen`` is the object as it is now, where there is one."""

    request: WriteObject
    message: str
    seen: ObjectSeen | None = None


@dataclass(frozen=True, slots=True)
class ExtenderReply:
    """What an extender has answered, as it said it: nodes that ``passed``, and why others did not
    (name → reason); ``scores`` by name; the ``victims`` on each node. ``problem`` is what went
    wrong instead, for people. ``duration`` in µs."""

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
    """No answer came in time to a request, of this alphabet or of the database's."""

    request: object


PodAnswer = Bound | PodShown | PodAbsent
WriteAnswer = Written | WriteRefused
TermAnswer = PodAnswer | Reported | WriteAnswer | ExtenderReply
"""To requests that are made in a term only, but for touches."""
ClusterAnswer = Listed | TermAnswer | Unknown
