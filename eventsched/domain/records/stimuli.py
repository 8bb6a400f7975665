"""Stimuli: what happened outside, as records of a log (see events.py)."""

from hashlib import blake2b

import msgspec

from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records.object_writes import Write
from eventsched.domain.records.record import Stimulus


class StreamStarted(Stimulus, frozen=True, tag=True):
    """The first record of a stream: what decisions depend on besides the other records.

    ``inputs`` are digests by name (node and pod files); ``configuration`` is the text of the
    KubeSchedulerConfiguration, "" for the default; ``flags`` are the numbers of the behaviours in
    force (behaviours.py); ``plugins`` is name → source digest; ``timeline`` is that of the database
    that holds the log, "" for a log without one.
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
    """A leader took over the stream. ``token`` (8 hex digits) is part of the ids of the decisions
    that follow: ``stream/position@token``.

    If an upgrade or another configuration takes effect, ``engine`` and the fields after it have the
    same meaning as in ``StreamStarted``; otherwise they are empty. ``timeline``, too, is that of
    ``StreamStarted``; it is empty unless the log has it in the form of version 0.1, which does not
    show a restored dump.
    """

    epoch: int
    token: str
    engine: str = ""
    inputs: dict[str, str] = {}
    configuration: str = ""
    flags: tuple[int, ...] = ()
    plugins: dict[str, str] = {}
    timeline: str = ""


def in_force(source: StreamStarted | TermBegan) -> str:
    """A digest of what a record puts in force."""
    settings = [source.engine, source.inputs, source.flags, source.plugins]
    encoded = msgspec.json.encode(settings, order="deterministic")
    return blake2b(encoded, digest_size=16).hexdigest()


SERVES = "serves"
"""The key in ``inputs`` of the profile that answers other schedulers."""


def serves(source: StreamStarted | TermBegan) -> str:
    """The name of the profile that answers other schedulers; "" if pods are scheduled here."""
    return source.inputs.get(SERVES, "")


SHADOWS = "shadows"
"""The key in ``inputs`` of the schedulers that a shadow follows: schedulerNames with spaces
between them."""


def shadows(source: StreamStarted | TermBegan) -> tuple[str, ...]:
    """The schedulerNames that a shadow follows; empty if the stream is not a shadow's."""
    return tuple(source.inputs.get(SHADOWS, "").split())


OWN = "scheduler"
"""Key in the inputs of a stream's first record: the custom scheduler that decides (a logbook)."""
WHAT_IF = "whatIf"
"""The key in ``inputs`` of where a stream comes from that is the result of a what-if run: the
stream, the range and the rules, for people. Beside other rules, a ``TermBegan`` in the middle has
it alone."""


WORK_BUDGET = "workBudget"
"""The key in ``inputs`` of the most units of work that one attempt may take
(scheduling/cycle/work_budget.py)."""


def work_budget(source: StreamStarted | TermBegan) -> int:
    """The most units of work that one attempt may take; 0 for no limit, as in logs of 0.1."""
    return int(source.inputs.get(WORK_BUDGET, "0"))


class HistoryLost(Stimulus, frozen=True, tag=True):
    """The database is on another timeline than the one the log was written on (a failover, a
    restored backup), so committed records may be missing. Before this record older binds were made
    impossible, the cluster's objects were read again, and all reservations were given up."""

    timeline: str


class WatchRelisted(Stimulus, frozen=True, tag=True):
    """The watch of a resource (``Pod``, ``Node``, or a type of domain/objects/registry.py) had a
    gap from the resourceVersion ``since`` on. All objects were listed again at ``upto``; what has
    changed follows in other records."""

    resource: str
    since: int
    upto: int


class NodeAdded(Stimulus, frozen=True, tag=True):
    """A node joined the cluster. ``row`` is the row of a deleted node that it gets; -1 for a new
    row at the end."""

    node: Node
    row: int = -1


class NodeUpdated(Stimulus, frozen=True, tag=True):
    """A part of a node that scheduling reads has changed."""

    node: Node


class NodeDeleted(Stimulus, frozen=True, tag=True):
    """A node left the cluster."""

    name: str


class PodAdded(Stimulus, frozen=True, tag=True):
    """A pod appeared: one to schedule, or one that is already on a node."""

    pod: Pod


class PodUpdated(Stimulus, frozen=True, tag=True):
    """A part of a pod that scheduling reads has changed."""

    pod: Pod


class PodDeleted(Stimulus, frozen=True, tag=True):
    """A pod is deleted or has finished: its resources are free."""

    uid: str


class ObjectChanged(Stimulus, frozen=True, tag=True):
    """An object other than a pod or a node (a claim, a service…) appeared, or a part of it that
    scheduling reads has changed."""

    object: AnyObject


class ObjectDeleted(Stimulus, frozen=True, tag=True):
    """An object other than a pod or a node is deleted; ``type`` is the name of its type
    (domain/objects/registry.py)."""

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


class WriteSucceeded(Stimulus, frozen=True, tag=True):
    """The cluster has made a change that a pod's bind waits for, or had it already. The changed
    object was observed in an earlier record."""

    uid: str
    attempt: int
    write: Write


class WriteFailed(Stimulus, frozen=True, tag=True):
    """The cluster refused a change that a pod's bind waits for."""

    uid: str
    attempt: int
    write: Write
    message: str


class EvictionSucceeded(Stimulus, frozen=True, tag=True):
    """The cluster accepted an eviction: the pod is being deleted. Its resources are free when it is
    gone."""

    uid: str


class EvictionFailed(Stimulus, frozen=True, tag=True):
    """The cluster refused an eviction, or the intent was given up; the pod stays."""

    uid: str
    message: str


class BindRetried(Stimulus, frozen=True, tag=True):
    """A bind is sent again with a newer resourceVersion of its pod as precondition, because there
    is a new leader or because the pod has changed. It is sent when this record is committed."""

    uid: str
    node: str
    attempt: int
    resource_version: int


class BindVoided(Stimulus, frozen=True, tag=True):
    """An intent was given up. No bind of it can succeed any more, because the pod was changed to
    ``resource_version`` after the last bind was sent (0 if none was sent). ``reason`` is a
    message."""

    uid: str
    node: str
    attempt: int
    reason: str
    resource_version: int = 0


class MemoryForgotten(Stimulus, frozen=True, tag=True):
    """An operator wants a plugin to forget a key of its memory. ``request`` is the number of the
    request, ``by`` the database user that made it."""

    plugin: str
    key: str
    by: str
    request: int


class PluginOverran(Stimulus, frozen=True, tag=True):
    """A call of a plugin was ended because it took longer than ``limit`` (µs); its step is void.
    The pod's ``attempt`` is repeated without calling the plugin's method ``point``, which counts
    as one that raised. Without ``uid`` that holds until another configuration or other plugins are
    in force."""

    plugin: str
    point: str
    limit: int
    uid: str = ""
    attempt: int = 0


class SamplesTaken(Stimulus, frozen=True, tag=True):
    """Measurements from outside the cluster that plugins score by: ``values`` by node name,
    ``taken`` at a time (µs). They are valid until newer ones of the same ``source``, at most to
    ``until`` (µs; 0 for no limit). ``problem`` is what went wrong; without values the previous ones
    stay valid."""

    source: str
    values: dict[str, float] = {}
    taken: int = 0
    until: int = 0
    problem: str = ""


class PartitionSealed(Stimulus, frozen=True, tag=True):
    """A partition of the log's tables is full, and may be dropped. It begins at position
    ``partition``, and holds the records from ``first`` to before ``next``. ``before`` and ``after``
    are the hashes (hexadecimal) of the batches that end there.

    ``checkpoint`` is the position of a state that is kept with the log, and ``digest`` the SHA-256
    of its bytes. ``opening`` says what was in force there, so that the log can be replayed from
    there on. ``archived`` are the SHA-256 of the files with these records, by name; without them
    nothing was archived.
    """

    partition: int
    first: int
    next: int
    before: str
    after: str
    checkpoint: int
    digest: str
    opening: StreamStarted
    archived: dict[str, str] = {}


class TimePassed(Stimulus, frozen=True, tag=True):
    """A timer of the engine (backoff, Permit deadline, flush) is due."""
