"""The shapes of these answers: as in answer_shapes.py, times are ISO 8601 in UTC, and positions
count the records of a stream."""

import msgspec

from eventsched.questions.answer_shapes import UnmatchedFilter


class EvictedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A victim of a preemption. ``outcome`` is ``gone``; ``open``, if it was asked to leave and is
    still there; ``leaving``, if it was being deleted already; or ``sent back``, if its bind had not
    begun, so that it was taken off its node without an eviction. All names and ``priority`` are
    null for a pod that the client may not see; ``priority`` is also null if the record of its
    arrival is gone."""

    namespace: str | None
    pod: str | None
    uid: str | None
    priority: int | None
    outcome: str
    gone: int | None
    gone_at: str | None


class VictimWorkload(msgspec.Struct, frozen=True, kw_only=True):
    """The controller of ``victims`` of a preemption; its ``kind`` and ``name`` are null for those
    without one, which nothing replaces. ``came`` pods of it arrived after the preemption,
    ``placed`` of them were placed, and ``gone`` of them, placed or not, are gone; of these only
    the ones are known that were tried, and whose arrival the log still has. ``at_least``: there may
    be more, beyond the first 20,000 pods and attempts since the oldest preemption of the page, or
    beyond 2,000 pods that are gone. ``first`` is the name of the first that came, and
    ``first_node`` its node."""

    namespace: str
    kind: str | None
    name: str | None
    victims: int
    came: int
    placed: int
    gone: int
    at_least: bool
    first: str | None
    first_node: str | None


class EvictionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A preemption: the pods that had to leave ``node`` for a pod. ``namespace``, ``pod``, ``uid``
    and ``priority`` are of the pod that it was for, null as in EvictedPod; ``decided`` is the
    position of its attempt. ``outcome`` is what happened to that pod up to the log's end, or the
    time asked for: it was placed on the ``freed node`` or ``elsewhere``, it is still ``waiting``,
    or it is ``gone``, deleted before it had a node. ``landed_on`` and ``landed`` are the node and
    the position of the attempt that placed it. All of these are null for a pod that the client may
    not see. ``workloads`` are what the victims belong to, as far as the client may see them and the
    log still has the records of their arrival."""

    position: int
    at: str
    node: str
    namespace: str | None
    pod: str | None
    uid: str | None
    priority: int | None
    decided: int | None
    outcome: str | None
    landed_on: str | None
    landed: int | None
    victims: list[EvictedPod]
    workloads: list[VictimWorkload]


class EvictorCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many ``preemptions`` had each ``outcome`` of EvictionRow: those of pods that the client
    may see, among the 2,000 that a page looks at, with any outcome."""

    preemptions: int
    freed_node: int
    elsewhere: int
    waiting: int
    gone: int


class EvictionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A page of preemptions, the newest first. ``next`` is the position to go on from with
    ``before``, null at the end. A page can have fewer than its limit, and a ``next``. If it has
    none, ``unmatched`` are the filters that by themselves are the cause."""

    stream: str
    head: int
    evictors: EvictorCounts
    preemptions: list[EvictionRow]
    unmatched: list[UnmatchedFilter]
    next: int | None


class RefusalReason(msgspec.Struct, frozen=True, kw_only=True):
    """How often a plugin refused nodes for one reason, with any of ``codes``: in how many attempts,
    in how many of these no node was found (``failed``), in how many of those it is the refusal to
    name first (``first``), and how many nodes in all. ``newest`` is the position of the last
    such attempt, ``group`` that of the pods in /pods of whose last attempt it is named first."""

    codes: list[str]
    reason: str
    group: str | None
    attempts: int
    failed: int
    first: int
    nodes: int
    newest: int


class PluginRefusals(msgspec.Struct, frozen=True, kw_only=True):
    """How often a plugin refused nodes, as RefusalReason; ``plugin`` is null for nodes that
    PreFilter left out in attempts whose record does not name the plugin. An attempt with several
    reasons counts once. The reasons that are named first most often come first, then those of most
    nodes."""

    plugin: str | None
    attempts: int
    failed: int
    first: int
    nodes: int
    reasons: list[RefusalReason]


class RefusalsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The refusals of the ``attempts`` at positions from ``begin`` to before ``end``, by plugin,
    in the order of reasons; ``failed`` of the attempts found no node. ``since`` and ``until``
    are the times of the first and the last one. If there are none, ``unmatched`` are the filters
    that are the cause by themselves. ``next`` is null, or what ``until`` has to be for
    the attempts before these."""

    stream: str
    head: int
    begin: int
    end: int
    since: str | None
    until: str | None
    attempts: int
    failed: int
    plugins: list[PluginRefusals]
    unmatched: list[UnmatchedFilter]
    next: int | None


class AttemptAtNode(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to place a pod. The names are null for a pod that the log does not have."""

    position: int
    at: str
    namespace: str | None
    pod: str | None
    uid: str
    attempt: int


class NodeRefusalRow(msgspec.Struct, frozen=True, kw_only=True):
    """In how many attempts a node was refused so, and the newest of them. ``plugin`` is null for
    one that PreFilter left out in attempts whose record does not name the plugin."""

    plugin: str | None
    code: str
    reason: str
    attempts: int
    newest: AttemptAtNode


class NodeVerdictsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest ``attempts`` (at most 100) found for a node. Of ``known`` of them the log has
    the verdict on it: in ``feasible`` ones no plugin refused it, and ``chosen`` ones took it.
    ``placed`` are the last pods that went there, among the newest 20,000 attempts."""

    stream: str
    head: int
    node: str
    attempts: int
    known: int
    feasible: int
    chosen: int
    refusals: list[NodeRefusalRow]
    placed: list[AttemptAtNode]


class RefusingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that was refused in ``attempts`` of the ``evaluated`` ones that have a verdict on it;
    ``newest`` is the position of the last such attempt."""

    node: str
    attempts: int
    evaluated: int
    newest: int


class RefusingNodesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes a plugin refused, for one reason or any (null): of the newest ``attempts`` (at
    most 100) with that refusal. Of ``known`` of them, from ``since`` to ``until``, the log has the
    verdicts on all nodes: in these ``count`` nodes were refused so, ``always`` ones whenever they
    were evaluated. ``nodes`` are those refused most often, at most as many as were asked for."""

    stream: str
    head: int
    plugin: str
    reason: str | None
    attempts: int
    known: int
    since: str | None
    until: str | None
    count: int
    always: int
    nodes: list[RefusingNode]


class FlushedPodRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that was refused (position ``failed``), that no change woke until the flush of the
    unschedulable queue (``flushed``), and that the next attempt placed on ``node`` (``placed``).
    ``waited_seconds`` is the time from the refusal to the flush."""

    namespace: str
    pod: str
    uid: str
    failed: int
    flushed: int
    flushed_at: str
    placed: int
    node: str
    waited_seconds: float


class FlushedPodsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that a flush brought to a node, the newest flush first; ``total`` of them among the
    newest 20,000 attempts (before ``before``). ``next`` is the position to go on from with
    ``before``, null at the end."""

    stream: str
    head: int
    total: int
    pods: list[FlushedPodRow]
    next: int | None
