"""Finds the first plugin and node whose verdicts or scores differ between a decision and its
replay."""

from collections.abc import Sequence

import msgspec
import numpy as np

from eventsched.domain.records import Outcome, PodDecided, VerdictDefined
from eventsched.domain.records.verdicts import (
    STORED_EXCLUDED,
    STORED_NO_NODE,
    STORED_NOT_EVALUATED,
    STORED_PASSES,
    Detail,
    Verdict,
)
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog, StoredRecord
from eventsched.scheduling.engine import Engine

Difference = tuple[str, str, str]
"""The name of what differs, the logged value and the replayed value."""
_CODES: dict[int, str] = {
    STORED_PASSES: "passes",
    STORED_EXCLUDED: "left out by PreFilter",
    STORED_NOT_EVALUATED: "not looked at",
    STORED_NO_NODE: "no node",
}


def in_vectors(step: list[StoredRecord], engine: Engine, log: StoredLog) -> Difference | None:
    """The first difference in a step's vectors; None if there is none, or the vectors cannot be
    compared. ``engine`` is in the state before the step. Its caches are cold, so that its decision
    has whole vectors."""
    logged_verdicts = list(engine.state.verdicts)
    events = engine.schedule_next()
    replayed = next((event for event in events if isinstance(event.record, PodDecided)), None)
    try:
        stored = {entry.kind: entry for entry in step}.get("PodDecided")
        decided = stored and stored.record
        detail = log.detail(stored.position) if stored else None
        for entry in step:
            record = entry.record if entry.kind == "VerdictDefined" else None
            if isinstance(record, VerdictDefined):
                logged_verdicts.append(record.verdict)
    except (CorruptLogError, msgspec.MsgspecError, ValueError):
        return None
    if replayed is None or not isinstance(decided, PodDecided):
        return None
    decision = replayed.record
    assert isinstance(decision, PodDecided)
    if (in_error := _in_error(decided, decision)) is not None:
        return in_error
    if detail is None or replayed.detail is None:
        return None
    names = engine.state.nodes.names
    columns = [column.plugin for column in engine.state.scorings[decision.scoring]]
    verdicts = engine.state.verdicts
    in_codes = _in_codes(detail, replayed.detail, logged_verdicts, verdicts, names)
    return in_codes or _in_scores(detail, replayed.detail, columns, names)


def _in_error(logged: PodDecided, replayed: PodDecided) -> Difference | None:
    """The messages of two decisions of which exactly one is an error."""
    outcomes = (logged.outcome, replayed.outcome)
    if Outcome.ERROR not in outcomes or logged.outcome is replayed.outcome:
        return None
    return (
        f"plugin {replayed.plugin or logged.plugin}",
        logged.message or logged.outcome.value,
        replayed.message or replayed.outcome.value,
    )


def _in_codes(
    logged: Detail,
    replayed: Detail,
    logged_verdicts: Sequence[Verdict | None],
    replayed_verdicts: Sequence[Verdict | None],
    names: list[str],
) -> Difference | None:
    if not isinstance(logged.codes, np.ndarray) or not isinstance(replayed.codes, np.ndarray):
        return None
    pairs = zip(logged.codes.tolist(), replayed.codes.tolist(), strict=False)
    for row, (old_code, new_code) in enumerate(pairs):
        old = _verdict_of(old_code, logged_verdicts)
        new = _verdict_of(new_code, replayed_verdicts)
        if old != new:
            plugins = {v.plugin: None for v in (old, new) if isinstance(v, Verdict)}
            prefix = f"plugin {' or '.join(plugins)}, " if plugins else ""
            return f"{prefix}verdict on node {names[row]}", _text_of(old), _text_of(new)
    return None


def _verdict_of(code: int, verdicts: Sequence[Verdict | None]) -> Verdict | int:
    """The verdict of a code; a code with a fixed meaning is returned as it is."""
    verdict = verdicts[code] if code < len(verdicts) else None
    return code if verdict is None else verdict


def _text_of(verdict: Verdict | int) -> str:
    if isinstance(verdict, Verdict):
        return f"{verdict.plugin}: {', '.join(verdict.reasons)}"
    return _CODES.get(verdict, f"code {verdict}")


def _in_scores(
    logged: Detail, replayed: Detail, columns: list[str], names: list[str]
) -> Difference | None:
    for score, logged_scores, replayed_scores in (
        ("raw score", logged.scores, replayed.scores),
        ("normalised score", logged.normalized, replayed.normalized),
    ):
        for plugin, old, new in zip(columns, logged_scores, replayed_scores, strict=False):
            if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray):
                continue
            for row, (before, now) in enumerate(zip(old.tolist(), new.tolist(), strict=False)):
                if before != now:
                    return f"plugin {plugin}, {score} of node {names[row]}", str(before), str(now)
    return None
