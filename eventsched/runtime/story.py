"""A pod's story, told from the log alone: where it waited, each attempt, why that node.

Reads records and details, never the engine's state; ``eventsched simulate --why`` prints it.
"""

from dataclasses import dataclass, field

import numpy as np

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued
from eventsched.domain.verdicts import Detail, ScoreColumn, Verdict, normalized
from eventsched.eventlog.port import EventLog


@dataclass(frozen=True)
class NodeScore:
    """A node's scores in a decision: for each column (raw, normalised, weighted), and their sum."""

    node: str
    total: int
    parts: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class Attempt:
    """One attempt: its record, what the refused nodes were told with their numbers, and the scores
    of the chosen node and of the one that came next."""

    at: int
    decided: PodDecided
    refusals: tuple[tuple[Verdict, int], ...]
    compared: tuple[NodeScore, ...]


@dataclass
class Story:
    """What the log says of one pod, in order; ``moves`` are (time in µs, record)."""

    name: str
    moves: list[tuple[int, PodQueued]] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    bound_at: int | None = None


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
            case PodQueued() if story is not None and record.uid == uid:
                story.moves.append((stored.at, record))
            case PodDecided() if story is not None and record.uid == uid:
                detail = log.detail(stored.position)
                story.attempts.append(_attempt(stored.at, record, verdicts, detail, names))
            case records.PodBound() if story is not None and record.uid == uid:
                story.bound_at = stored.at
    return story


def _attempt(
    at: int,
    decided: PodDecided,
    verdicts: dict[int, Verdict],
    detail: Detail | None,
    names: list[str],
) -> Attempt:
    refusals = tuple(
        (verdicts[number], nodes) for number, nodes in decided.counts if number in verdicts
    )
    compared: tuple[NodeScore, ...] = ()
    if detail is not None and decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
        wanted = [name for name in (decided.node, decided.runner_up) if name]
        compared = tuple(_scores(name, names, decided.scores, detail) for name in wanted)
    return Attempt(at, decided, refusals, compared)


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
