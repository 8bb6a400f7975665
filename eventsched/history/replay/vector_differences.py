"""Which plugin's column differs first between a decision and its repetition, and on which node."""

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
from eventsched.eventlog.port import Stored, StoredLog
from eventsched.scheduling.engine import Engine

Difference = tuple[str, str, str]
"""What differs, what was expected, what came."""
_CODES: dict[int, str] = {
    STORED_PASSES: "passes",
    STORED_EXCLUDED: "left out by PreFilter",
    STORED_NOT_EVALUATED: "not looked at",
    STORED_NO_NODE: "no node",
}


def in_vectors(step: list[Stored], engine: Engine, log: StoredLog) -> Difference | None:
    """Which plugin's column differs first, and on which node. The engine stands before the step;
    its caches are cold, so that what it decides comes with whole vectors."""
    old_words = list(engine.state.verdicts)
    logged = next((e for e in engine.schedule_next() if isinstance(e.record, PodDecided)), None)
    try:
        stored = {each.kind: each for each in step}.get("PodDecided")
        decided = stored and stored.record
        written = log.detail(stored.position) if stored else None
        for each in step:
            record = each.record if each.kind == "VerdictDefined" else None
            if isinstance(record, VerdictDefined):
                old_words.append(record.verdict)
    except (CorruptLogError, msgspec.MsgspecError, ValueError):
        return None
    if logged is None or not isinstance(decided, PodDecided):
        return None
    made = logged.record
    assert isinstance(made, PodDecided)
    if Outcome.ERROR in (made.outcome, decided.outcome) and made.outcome is not decided.outcome:
        said = [each.message or each.outcome.value for each in (decided, made)]
        return f"plugin {made.plugin or decided.plugin}", said[0], said[1]
    if written is None or logged.detail is None:
        return None
    names = engine.state.nodes.names
    columns = [column.plugin for column in engine.state.scorings[made.scoring]]
    in_codes = _in_codes(written, logged.detail, old_words, engine.state.verdicts, names)
    return in_codes or _in_scores(written, logged.detail, columns, names)


def _in_codes(
    written: Detail,
    made: Detail,
    old_words: Sequence[Verdict | None],
    new_words: Sequence[Verdict | None],
    names: list[str],
) -> Difference | None:
    if not isinstance(written.codes, np.ndarray) or not isinstance(made.codes, np.ndarray):
        return None
    for row, codes in enumerate(zip(written.codes.tolist(), made.codes.tolist(), strict=False)):
        old, new = _meant(codes[0], old_words), _meant(codes[1], new_words)
        if old != new:
            plugins = {each.plugin: None for each in (old, new) if isinstance(each, Verdict)}
            named = f"plugin {' or '.join(plugins)}, " if plugins else ""
            return f"{named}verdict on node {names[row]}", _said(old), _said(new)
    return None


def _meant(code: int, words: Sequence[Verdict | None]) -> Verdict | int:
    """What a code stands for; one with a meaning of its own stands for itself."""
    found = words[code] if code < len(words) else None
    return code if found is None else found


def _said(verdict: Verdict | int) -> str:
    if isinstance(verdict, Verdict):
        return f"{verdict.plugin}: {', '.join(verdict.reasons)}"
    return _CODES.get(verdict, f"code {verdict}")


def _in_scores(
    written: Detail, made: Detail, columns: list[str], names: list[str]
) -> Difference | None:
    for what, olds, news in (
        ("raw score", written.scores, made.scores),
        ("normalised score", written.normalized, made.normalized),
    ):
        for plugin, old, new in zip(columns, olds, news, strict=False):
            if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray):
                continue
            for row, (before, now) in enumerate(zip(old.tolist(), new.tolist(), strict=False)):
                if before != now:
                    return f"plugin {plugin}, {what} of node {names[row]}", str(before), str(now)
    return None
