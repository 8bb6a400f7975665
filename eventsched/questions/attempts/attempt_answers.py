"""The answers about attempts. Times are as in answer_shapes.py of eventsched/questions, unless a
field says that it is in microseconds."""

import msgspec

from eventsched.questions.answer_shapes import Decision, RefusedNodes


class ScoreValues(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's scores of the feasible nodes, in their order; weighted is weight x normalized.
    ``raw`` has texts for those beyond 2^53, which numbers of JavaScript cannot hold."""

    plugin: str
    weight: int
    raw: list[int | str]
    normalized: list[int]


class VerdictColumns(msgspec.Struct, frozen=True, kw_only=True):
    """All verdicts of a decision, by column. ``names``: the ``feasible`` nodes by rank, with their
    ``totals``, ``ranks`` and ``scores``; then the others, with the number of their verdict in
    ``refusals``. ``filters`` are the filter plugins in the order in which they are asked about a
    node, until one refuses; null if a plugin of that time is not installed here."""

    stream: str
    position: int
    vectors: str
    filters: list[str] | None
    names: list[str]
    feasible: int
    totals: list[int]
    ranks: list[int]
    scores: list[ScoreValues]
    refusals: list[RefusedNodes]
    verdicts: list[int]


class TimelineBar(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of time, from ``begin`` to ``end`` (µs; equal for a moment, null if it lasts).
    ``position`` is that of the record that began it, ``cause`` that of what happened elsewhere and
    led to it. ``state`` is a queue, an outcome, or an extension point."""

    label: str
    state: str
    begin: int
    end: int | None
    position: int
    text: str
    cause: int | None = None


class TimelineLane(msgspec.Struct, frozen=True, kw_only=True):
    """The bars of one kind: queues, attempts, preemption, reservation, waits or bind."""

    name: str
    bars: list[TimelineBar]


class StoryLineAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A line of what ``eventsched explain`` prints; repeated attempts are one line."""

    position: int
    at: str
    text: str


class PodDemands(msgspec.Struct, frozen=True, kw_only=True):
    """What a pod asks for, as the record at ``position`` says. ``requests`` are as in a manifest,
    and what the scheduler counts: of all containers, with overhead. ``others`` names what else
    decides about nodes, such as pod affinity. ``belongs_to`` are its workloads and its pod group,
    as ``KIND/NAME`` with the kinds of /workloads."""

    position: int
    priority: int
    requests: dict[str, str]
    node_selector: dict[str, str]
    tolerations: list[str]
    others: list[str]
    belongs_to: list[str]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's way from its arrival (``begin``, µs) to ``end``: the present for a pod that waits,
    and the last of its records for others. ``headline``: where it stands,
    and the next step, in a sentence each; ``story``: how it came to be there. ``pods`` are the
    others that these name. ``demands`` is null if the records that had them were dropped.
    ``newest`` is the uid of the newest pod of this name, null if that is this one."""

    stream: str
    namespace: str
    name: str
    uid: str
    newest: str | None
    begin: int
    end: int
    headline: list[str]
    demands: PodDemands | None
    lanes: list[TimelineLane]
    story: list[StoryLineAnswer]
    pods: list[str]


class VerdictChange(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes were refused for one reason before and after."""

    plugin: str | None
    code: str
    reason: str
    before: int
    after: int


class ScoreChange(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's weighted score of a node before and after; null if it did not score it."""

    plugin: str
    before: int | None
    after: int | None


class NodeDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose verdict or total differs. A verdict is ``feasible``, a refusal in words, or null
    if the node was not there; ``scores`` are the ones that differ. ``unresolvable``: it refused the
    pod even without other pods, before and after."""

    node: str
    before: str | None
    after: str | None
    total_before: int | None
    total_after: int | None
    unresolvable: bool
    scores: list[ScoreChange]


class BetweenAttempts(msgspec.Struct, frozen=True, kw_only=True):
    """What happened between two attempts. ``of_pod``: a line of the pod's own story, in which
    repeated attempts are one line with the ``position`` of the last of them; others are records
    about a node whose verdict differs, ``on_candidate`` if it is not an unresolvable one."""

    position: int
    at: str
    kind: str
    text: str
    of_pod: bool
    on_candidate: bool


class AttemptDifference(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two attempts of a pod. ``nodes`` is a page of the ``differing`` ones:
    those with another verdict (``turned`` of them) first, then by how far the total moved; ``next``
    is the ``offset`` to go on with. ``compared`` is false if the log lacks the verdicts of one, so
    that only ``counts`` are known. ``conclusion``: what follows from the verdicts, in a sentence or
    two; null if the log lacks some. ``between`` has the last lines of the pod's story and about the
    nodes: ``records`` is how many records lie between, and the last ``read`` of them were searched
    for what happened on the nodes."""

    stream: str
    before: Decision
    after: Decision
    counts: list[VerdictChange]
    compared: bool
    conclusion: str | None
    turned: int
    differing: int
    nodes: list[NodeDifference]
    next: int | None
    records: int
    read: int
    between: list[BetweenAttempts]
