"""The answers that have a fixed shape. Times are ISO 8601 in UTC, lengths of time are in seconds;
amounts of resources are millicores, bytes and counts. Positions count the records of a stream."""

from typing import Any

import msgspec


class StreamAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A stream. ``head`` is the position of its next record."""

    name: str
    head: int
    holder: str | None = None


class Streams(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of a log, the oldest first."""

    streams: list[StreamAnswer]


class WaitingState(msgspec.Struct, frozen=True, kw_only=True):
    """The pods in one state. ``oldest`` has been waiting for a node for the longest time, since
    ``oldest_since``; both are null for pods that have one."""

    state: str
    pods: int
    oldest_seconds: float | None
    oldest_since: str | None
    oldest: str | None


class WaitingReason(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting pods whose last attempt failed for the same dominant reason, with the one that has
    waited longest. ``group`` of /pods finds them; null if no refusal is known."""

    plugin: str | None
    reason: str | None
    pods: int
    oldest_seconds: float | None
    example: str
    group: str | None = None


class Waits(msgspec.Struct, frozen=True, kw_only=True):
    """How long the last ``pods`` pods that got a node had waited, from their first queue to the
    decision."""

    pods: int
    p50_seconds: float | None
    p99_seconds: float | None


class LogFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the log. ``lag_seconds`` is how long after its time the newest record was
    written, ``idle_seconds`` how long ago that was; both are null in a simulation, whose time is
    not the clock's."""

    head: int
    written_at: str | None
    lag_seconds: float | None
    idle_seconds: float | None


class StreamLeader(msgspec.Struct, frozen=True, kw_only=True):
    """The process that writes the stream, and since when."""

    holder: str
    epoch: int
    since: str | None


class ResourceTotal(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a resource all nodes offer, and how much of it pods have requested."""

    allocatable: int
    requested: int


class NodesFilled(msgspec.Struct, frozen=True, kw_only=True):
    """How full each node is: ``filled`` has a list for each resource, in the order of ``names``,
    with the requested part of what the node offers (null if it offers none). As of ``position``,
    which may be some records behind the log's head."""

    position: int
    names: list[str]
    filled: dict[str, list[float | None]]
    totals: dict[str, ResourceTotal]


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """What happens now. ``now`` is the clock's time, or in a simulation the last record's.
    ``pending`` of the ``pods`` are in a queue or gated. ``decisions_per_second`` is that of the
    last minute. ``nodes`` is null for those who do not see all namespaces, and until the state was
    read for the first time, which ``reads_nodes`` says is under way."""

    stream: str
    position: int
    now: str
    pods: int
    pending: int
    states: list[WaitingState]
    reasons: list[WaitingReason]
    decisions_per_second: float
    waits: Waits
    log: LogFacts
    leader: StreamLeader | None
    nodes: NodesFilled | None
    reads_nodes: bool = False


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt to place a pod. ``plugin``, ``code`` and ``reason`` are the dominant refusal
    if it failed."""

    position: int
    at: str
    namespace: str | None
    pod: str | None
    uid: str
    attempt: int
    profile: str
    outcome: str
    node: str | None
    score: int | None
    runner_up: str | None
    runner_up_score: int | None
    feasible: int
    evaluated: int
    ties: int
    plugin: str | None
    code: str | None
    reason: str | None


class Decisions(msgspec.Struct, frozen=True, kw_only=True):
    """A page of decisions, the newest first unless ``after`` was asked for. ``next`` is the
    position to go on from with ``before`` (or ``after``), null at the end. A page can have fewer
    decisions than its limit, even none, and a ``next``: a search looks at a bounded number of
    decisions for each answer."""

    stream: str
    head: int
    decisions: list[Decision]
    next: int | None


class RefusedNodes(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes were refused for one reason. ``plugin`` is null if no single one refused
    them."""

    plugin: str | None
    code: str
    reason: str
    nodes: int


class DecisionDetail(msgspec.Struct, frozen=True, kw_only=True):
    """A decision with all that its record has but the verdicts of single nodes. ``vectors`` says
    what the log has of these: ``all``, those of the ``best`` nodes with examples, only a
    ``digest``, or ``none``. ``previous`` and ``following`` are the positions of the same pod's
    attempts before and after it. ``cause`` is the position of the record that began the step."""

    stream: str
    decision: Decision
    cause: int
    message: str | None
    draw: str
    nominated: bool
    refusals: list[RefusedNodes]
    waits_until: dict[str, str]
    vectors: str
    previous: int | None
    following: int | None


class PluginColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that scored, and its weight."""

    plugin: str
    weight: int


class NodeScoreRow(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's score of a node; ``weighted`` is weight x normalized."""

    plugin: str
    raw: int
    normalized: int
    weighted: int


class NodeVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a node. ``status`` is Success, the code of the refusal, Excluded (PreFilter
    left it out) or NotEvaluated (the search ended before it). A feasible node has ``total``,
    ``rank`` (1 is the best, equal for equal totals) and ``scores``, as far as they are kept."""

    node: str
    status: str
    plugin: str | None
    reason: str | None
    total: int | None
    rank: int | None
    scores: list[NodeScoreRow]


class Verdicts(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the nodes of a decision: feasible ones by rank, then the others in the order of the
    log. ``nodes`` is the number of all; ``next`` the ``offset`` to go on with, null at the end."""

    stream: str
    position: int
    vectors: str
    columns: list[PluginColumn]
    nodes: int
    verdicts: list[NodeVerdict]
    next: int | None


class PodRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod. ``position`` is that of the record that added it, ``decided`` that of its last
    attempt. ``state``: a queue (active, backoff, unschedulable, gated), waiting (at Permit or
    PreBind), binding, bound, unqueued (not this scheduler's to place), or gone. ``wait_seconds`` is
    how long it waits, or waited until it got a node the last time. ``plugin``, ``code`` and
    ``reason``: the dominant refusal of the last attempt, if that failed."""

    position: int
    namespace: str
    name: str
    uid: str
    state: str
    since: str | None
    waiting_since: str | None
    wait_seconds: float | None
    attempts: int
    outcome: str | None
    plugin: str | None
    code: str | None
    reason: str | None
    message: str | None
    node: str | None
    nominated: str | None
    owner_kind: str | None
    owner_name: str | None
    priority: int | None
    profile: str | None
    deleting: bool
    decided: int | None
    decided_at: str | None


class UnmatchedFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter, by its parameter, that nothing passes of what is looked at: attempts or pods.
    ``near`` are names that are like ``value`` and that some of these have, the nearest first;
    ``others``, if none is like it, some that they have."""

    filter: str
    value: str
    near: list[str]
    others: list[str]


class Pods(msgspec.Struct, frozen=True, kw_only=True):
    """A page of pods. ``next`` is the ``cursor`` to go on with, null at the end. ``total`` pods are
    on all pages; null unless ``count`` was asked for, and with ``ever``. If there are none at all,
    ``unmatched`` are the filters that are the cause by themselves."""

    stream: str
    head: int
    pods: list[PodRow]
    next: str | None
    total: int | None = None
    unmatched: list[UnmatchedFilter] = []


class QueuedPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that a pod waits for, and what lets it be asked again."""

    plugin: str
    events: list[str]
    objects: list[str]


class RestEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """How much longer a pod waits, from ``waits`` earlier ones: the median, and what one in ten
    stayed below and above; null for more than was seen."""

    waits: int
    median_seconds: float | None
    p10_seconds: float | None
    p90_seconds: float | None


class QueuedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that waits; ``position`` is its number in its queue, from 1."""

    queue: str
    position: int
    namespace: str
    name: str
    uid: str
    priority: int
    attempts: int
    age_seconds: float | None
    waiting_seconds: float | None
    until: str | None
    gates: list[str]
    waits_for: list[QueuedPlugin]
    estimated_rest: RestEstimate | None


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The pods that wait before the record at ``position``, queue by queue. ``counts`` has all of
    them, ``next`` is the ``offset`` to go on with, null at the end."""

    stream: str
    position: int
    now: str
    counts: dict[str, int]
    pods: list[QueuedRow]
    next: int | None


class AnomalyRow(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong for a pod or its workload: ``kind`` is ``starving``, ``unplaceable``,
    ``evicted again``, ``nominated again`` or ``preempted for nothing``, ``text`` says it in words,
    ``facts`` are the columns of the view. ``seq`` is the position of the pod's arrival if it waits,
    else of the last preemption. ``group`` is that of the pods in /pods that are refused alike."""

    kind: str
    namespace: str
    pod: str
    uid: str
    since: str
    seq: int
    text: str
    facts: dict[str, Any]
    group: str | None


class AnomalyKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of anomaly: how many the answer has of it, of how many in ``total``, whether there are
    more, and in words the ``rule`` with its thresholds and the ``next_step``."""

    kind: str
    count: int
    total: int
    more: bool
    rule: str
    next_step: str


class AnomaliesAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The anomalies of a stream: the pods that starve, longest first, then the newest of the
    others, at most ``limit`` of each kind. ``kinds`` are all that are looked for."""

    stream: str
    kinds: list[AnomalyKind]
    anomalies: list[AnomalyRow]
