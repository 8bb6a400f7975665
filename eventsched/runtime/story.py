"""A pod's story, told from the log alone: where it waited, each attempt, why that node.

Reads records and details, never the engine's state; ``eventsched simulate --why`` prints it.
"""

from dataclasses import dataclass, field

import numpy as np

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued
from eventsched.domain.verdicts import Detail, ScoreColumn, Verdict, normalized
from eventsched.eventlog.port import EventLog

NAMED = 3
"""Nodes named for each refusal; the rest are counted."""


@dataclass(frozen=True)
class NodeScore:
    """A node's scores in a decision: for each column (raw, normalised, weighted), and their sum."""

    node: str
    total: int
    parts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Refusal:
    """What so many nodes were told, and the names of the first of them."""

    verdict: Verdict
    nodes: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Attempt:
    """An attempt: its record, what the refused nodes were told, and the scores of the chosen node
    and of the one that came next."""

    decided: PodDecided
    refusals: tuple[Refusal, ...]
    compared: tuple[NodeScore, ...]


@dataclass
class Story:
    """What the log says of one pod: its moves, attempts and bind in order, each with its time
    (µs)."""

    name: str
    steps: list[tuple[int, PodQueued | Attempt | records.PodBound]] = field(default_factory=list)

    @property
    def last_attempt(self) -> Attempt | None:
        """The last attempt, where there was one."""
        return next((step for _, step in self.steps[::-1] if isinstance(step, Attempt)), None)


def tell(log: EventLog, full_name: str) -> Story | None:
    """The story of ``namespace/name``; None where the log knows no such pod."""
    story: Story | None = None
    uid = ""
    names: list[str] = []
    verdicts: dict[int, Verdict] = {}
    for stored in log.read():
        record = stored.record
        match record:
            case records.NodeAdded():
                names.append(record.node.name)
            case records.VerdictDefined():
                verdicts[record.number] = record.verdict
            case records.PodAdded() if record.pod.full_name == full_name:
                story, uid = Story(full_name), record.pod.uid
            case PodQueued() | records.PodBound() if story is not None and record.uid == uid:
                story.steps.append((stored.at, record))
            case PodDecided() if story is not None and record.uid == uid:
                detail = log.detail(stored.position)
                story.steps.append((stored.at, _attempt(record, verdicts, detail, names)))
    return story


def _attempt(
    decided: PodDecided, verdicts: dict[int, Verdict], detail: Detail | None, names: list[str]
) -> Attempt:
    refusals = tuple(
        Refusal(verdicts[number], nodes, _refused(number, detail, names))
        for number, nodes in decided.counts
        if number in verdicts
    )
    compared: tuple[NodeScore, ...] = ()
    if detail is not None and decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
        wanted = [name for name in (decided.node, decided.runner_up) if name]
        compared = tuple(_scores(name, names, decided.scores, detail) for name in wanted)
    return Attempt(decided, refusals, compared)


def _refused(number: int, detail: Detail | None, names: list[str]) -> tuple[str, ...]:
    if detail is None:
        return ()
    return tuple(names[row] for row in np.flatnonzero(detail.codes == number)[:NAMED])


def _scores(
    name: str, names: list[str], columns: tuple[ScoreColumn, ...], detail: Detail
) -> NodeScore:
    row = np.array([len(names) - 1 - names[::-1].index(name)])
    parts = []
    for index, column in enumerate(columns):
        raw = detail.scores[index][row]
        own = detail.normalized[index] if detail.normalized else None
        value = int((normalized(column, raw) if own is None else own[row])[0])
        parts.append((int(raw[0]), value, value * column.weight))
    return NodeScore(name, sum(weighted for _, _, weighted in parts), tuple(parts))
