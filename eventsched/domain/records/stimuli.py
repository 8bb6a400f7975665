"""The stimuli: what happened outside, as facts that stand in a log (see events.py)."""

from hashlib import blake2b
from typing import ClassVar

import msgspec

from eventsched.domain.objects import Frozen, Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records.object_writes import Write


class Record(Frozen, frozen=True, tag_field="kind"):
    """Base of stimuli and events; ``version`` is that of the kind's shape."""

    version: ClassVar[int] = 1


class Stimulus(Record, frozen=True):
    """Something that happened outside the engine."""


class Event(Record, frozen=True):
    """Something that the engine decided."""


class StreamStarted(Stimulus, frozen=True, tag=True):
    """The first record of a stream: what its decisions depend on besides its other records.

    ``inputs`` are digests by name (node and pod files); ``configuration`` is the text of the
    KubeSchedulerConfiguration, "" for the default one; ``flags`` are the numbered behaviours in
    force (behaviours.py); ``plugins`` gives name → source digest; ``timeline`` names the history
    of the database that the stream began on, where that can change.
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
    the decisions that follow: ``stream/position@token``.

    Where something else is in force from now on than before (an upgrade, another configuration),
    ``engine`` and what comes after it say what, as in ``StreamStarted``; else they are empty.
    """

    epoch: int
    token: str
    engine: str = ""
    inputs: dict[str, str] = {}
    configuration: str = ""
    flags: tuple[int, ...] = ()
    plugins: dict[str, str] = {}


def in_force(said: StreamStarted | TermBegan) -> str:
    """A digest of what a record says that is in force from it on."""
    told = [said.engine, said.inputs, said.flags, said.plugins]
    encoded = msgspec.json.encode(told, order="deterministic")
    return blake2b(encoded, digest_size=16).hexdigest()


SERVES = "serves"
"""Among ``inputs``: the name of the profile that other schedulers are answered with."""


def serves(said: StreamStarted | TermBegan) -> str:
    """That profile's name, "" where pods are scheduled as usual."""
    return said.inputs.get(SERVES, "")


WORK_BUDGET = "workBudget"
"""Among ``inputs``: the units of work that one attempt may take at most
(scheduling/cycle/work_budget.py)."""


def work_budget(said: StreamStarted | TermBegan) -> int:
    """That number; 0 where there is none, as in logs of 0.1."""
    return int(said.inputs.get(WORK_BUDGET, "0"))


class HistoryLost(Stimulus, frozen=True, tag=True):
    """The database is on another history than the log was written on (a failover, a restored
    backup), so committed records may be missing. Since then no older bind could land any more, what
    the cluster has was taken in, and all reservations were given up; the log goes on from here."""

    timeline: str


class WatchRelisted(Stimulus, frozen=True, tag=True):
    """The watch of a resource (``Pod``, ``Node``, or a type of domain/objects/registry.py) had a
    gap, from the resourceVersion ``since`` on: everything was listed again at ``upto``, and what
    that says that is news follows."""

    resource: str
    since: int
    upto: int


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
    """Such an object is gone; ``type`` is the name of its type (domain/objects/registry.py)."""

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
    """The cluster has made a change that a pod's bind waits for, or showed it already. The object
    as it is then was observed before."""

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
    """The cluster accepted an eviction: the pod is being deleted, and its room is free when it is
    gone."""

    uid: str


class EvictionFailed(Stimulus, frozen=True, tag=True):
    """The cluster refused an eviction, or its intent was given up; the pod stays."""

    uid: str
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


class MemoryForgotten(Stimulus, frozen=True, tag=True):
    """People want a plugin to forget what it has under a key: ``request`` is the number of what
    they asked, ``by`` the database's user who did."""

    plugin: str
    key: str
    by: str
    request: int


class PluginOverran(Stimulus, frozen=True, tag=True):
    """A call of a plugin was ended because it took longer than ``limit`` (µs), and what it was part
    of is void. In the pod's ``attempt``, which is made again, the method ``point`` of the plugin is
    not asked and counts as one that raised; with no ``uid`` that holds from now on, until another
    configuration or other plugins are in force."""

    plugin: str
    point: str
    limit: int
    uid: str = ""
    attempt: int = 0


class SamplesTaken(Stimulus, frozen=True, tag=True):
    """A measurement that plugins score by, from outside the cluster: ``values`` by node name, taken
    at a time (µs). They hold until the next ones of their ``source`` come, at most to ``until``
    (µs; 0: for ever). ``problem`` is what went wrong; without values those before go on holding."""

    source: str
    values: dict[str, float] = {}
    taken: int = 0
    until: int = 0
    problem: str = ""


class TimePassed(Stimulus, frozen=True, tag=True):
    """A timer that the engine asked for (backoff, permit deadline, flush) came due."""
