"""A judgement as it is logged: dictionary numbers for verdicts, vectors whole or as a delta.

The event (counts, columns, digest) depends on the state alone. Whether the detail is whole or a
delta depends on what this process has recorded before, so the digest does not cover that.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.records import ScoringDefined, VerdictDefined
from eventsched.domain.records.verdicts import (
    STORED_EXCLUDED,
    STORED_NO_NODE,
    STORED_NOT_EVALUATED,
    STORED_PASSES,
    Codes,
    DeltaPart,
    Detail,
    ScoreColumn,
    Verdict,
    VerdictCode,
    column_digest,
    detail_digest,
    may_build_on,
)
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.scheduling.cycle.cycle_keys import (
    CODES_A_FILTER,
    KEY_EXCLUDED,
    KEY_NO_NODE,
    KEY_NOT_EVALUATED,
    KEY_PASSES,
    CycleKey,
    Keys,
)
from eventsched.scheduling.cycle.equivalence import EquivalenceClass
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.cycle.pod_specific_verdicts import Scored
from eventsched.scheduling.framework import PluginError

LONGEST_CHAIN = 64
"""The most deltas in a row before the vectors of a class are written whole again."""

FEW_KEYS = 8
"""Up to this number of different keys, each is searched for on its own."""

MOST_VERDICTS = 16_384
"""The most entries for single verdicts. The dictionary stays in the log, in memory and in each
snapshot forever, and the number of different verdicts has no bound."""
LONGEST_VERDICT = 1024
"""The most bytes of the reasons of such an entry."""
ONE_OF_MANY = "a reason without an entry of its own: there are too many, or it is too long"
"""The reason of the entry that a plugin's other verdicts share. A pod's message still has its own
reasons."""

_TOO_MANY = (
    f"gave one reason too many: a stream has room for {STORED_EXCLUDED - 1} different ones; leave "
    "names and measured values out of them"
)

_FIXED: dict[CycleKey, VerdictCode] = {
    KEY_PASSES: STORED_PASSES,
    KEY_NO_NODE: STORED_NO_NODE,
    KEY_EXCLUDED: STORED_EXCLUDED,
    KEY_NOT_EVALUATED: STORED_NOT_EVALUATED,
}


class RecordedJudgement(NamedTuple):
    """The part of a decision that records its judgement. ``definitions`` are logged before it.
    ``codes`` (uint16, valid until the next attempt) are those of all rows. ``detail`` is None
    unless all vectors are stored."""

    definitions: list[VerdictDefined | ScoringDefined]
    scoring: int
    parameters: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[VerdictCode, int], ...]
    digest: str
    codes: Codes
    detail: Detail | None


class ClassRecord:
    """The last decision of a class, from which the next one is written as a delta."""

    __slots__ = ("base", "codes", "deltas_since_whole", "digest", "numbers", "scored", "scoring")

    def __init__(self) -> None:
        self.codes: Codes = np.zeros(0, dtype=np.uint16)
        self.digest = b""
        self.numbers: dict[CycleKey, VerdictCode] = dict(_FIXED)
        self.base: int | None = None
        self.deltas_since_whole = 0
        self.scored = False
        self.scoring = 0


def record(
    state: SchedulerState, judgement: Judgement, position: int, *, is_full: bool = True
) -> RecordedJudgement:
    """Numbers, digest and, if ``is_full``, the detail of a judgement. ``position`` is where the
    next record goes; the decision itself goes there plus the number of definitions."""
    if judgement.equivalence_class is None or not judgement.is_class_result:
        return _record_pod_specific(state, judgement, position, is_full=is_full)
    equivalence_class = judgement.equivalence_class
    class_record: ClassRecord = equivalence_class.recorded or ClassRecord()
    equivalence_class.recorded = class_record
    definitions = _define(state, judgement, class_record.numbers)
    scored = judgement.scores if judgement.feasible else []
    if scored and not class_record.scoring:
        class_record.scoring = _scoring(state, scored, definitions)
    rows = _changed_rows(equivalence_class, class_record)
    if rows is None:
        class_record.codes = _encode(equivalence_class.keys, class_record.numbers)
        class_record.digest = b""
    elif equivalence_class.keys_changed and len(rows):
        _patch(class_record, equivalence_class, rows)
    class_record.digest = class_record.digest or column_digest(class_record.codes)
    detail = None
    if is_full:
        detail = _class_detail(
            equivalence_class, class_record, rows, scored, position + len(definitions)
        )
    class_record.base = position + len(definitions) if is_full else None
    class_record.scored = bool(scored)
    (
        equivalence_class.unrecorded,
        equivalence_class.keys_changed,
        equivalence_class.static_changed,
    ) = [], False, False
    digests = [cache.digest for cache in equivalence_class.caches] if scored else []
    return RecordedJudgement(
        definitions,
        class_record.scoring if scored else 0,
        tuple(score.column.parameters for score in scored),
        _counts(judgement, class_record.numbers),
        detail_digest(class_record.digest, digests),
        class_record.codes,
        detail,
    )


def _class_detail(
    equivalence_class: EquivalenceClass,
    class_record: ClassRecord,
    rows: Rows | None,
    scored: list[Scored],
    position: int,
) -> Detail:
    """The vectors of a class's decision at ``position``: a delta to its last decision with changes
    at ``rows``, or whole."""
    size = len(equivalence_class.keys)
    fits = class_record.scored or not scored  # scores can be a delta only to scores
    if (
        rows is None
        or class_record.base is None
        or not may_build_on(class_record.base, position)
        or class_record.deltas_since_whole >= LONGEST_CHAIN
        or not fits
    ):
        class_record.deltas_since_whole = 0
        return Detail(size, None, class_record.codes.copy(), tuple(s.raw.copy() for s in scored))
    codes, raws = _parts(equivalence_class, class_record, rows)
    class_record.deltas_since_whole += 1
    return Detail(size, class_record.base, codes, raws if scored else ())


def _changed_rows(equivalence_class: EquivalenceClass, class_record: ClassRecord) -> Rows | None:
    """The rows that differ from the class's last decision; None for all rows."""
    changed = equivalence_class.unrecorded
    if changed is None or not len(class_record.codes):
        return None
    if not changed:
        return np.zeros(0, dtype=np.intp)
    rows = changed[0] if len(changed) == 1 else np.unique(np.concatenate(changed))
    return None if len(rows) * 2 > len(equivalence_class.keys) else rows


def _parts(
    equivalence_class: EquivalenceClass, class_record: ClassRecord, rows: Rows
) -> tuple[DeltaPart | None, tuple[DeltaPart | None, ...]]:
    """Codes and scores at the rows that differ; None for columns that cannot have changed there."""
    if not len(rows):
        return None, (None,) * len(equivalence_class.caches)
    at, every = rows.astype(np.int32), equivalence_class.static_changed
    raws = tuple(
        DeltaPart(at, cache.raw[rows]) if every or cache.score.dynamic else None
        for cache in equivalence_class.caches
    )
    return DeltaPart(at, class_record.codes[rows]) if equivalence_class.keys_changed else None, raws


def _patch(class_record: ClassRecord, equivalence_class: EquivalenceClass, rows: Rows) -> None:
    if len(class_record.codes) != len(equivalence_class.keys):
        longer = np.zeros(len(equivalence_class.keys), dtype=np.uint16)
        longer[: len(class_record.codes)] = class_record.codes
        class_record.codes, class_record.digest = longer, b""
    codes = _encode(equivalence_class.keys[rows], class_record.numbers)
    if np.count_nonzero(class_record.codes[rows] != codes):
        class_record.codes[rows] = codes
        class_record.digest = b""


class DeltaBase:
    """The vectors of the class's last pod-specific decision. The next one is written as a delta to
    them if they were stored at position ``base``. ``shape`` is the number of rows and of the score
    columns' entry; ``zero`` the places of columns that are known to hold only zeros."""

    __slots__ = ("base", "columns", "deltas_since_whole", "digests", "shape", "zero")

    def __init__(self) -> None:
        self.shape = (-1, -1)
        self.columns: list[NDArray[Any]] = []
        self.digests: list[bytes] = []
        self.zero: set[int] = set()
        self.base: int | None = None
        self.deltas_since_whole = 0

    def update(
        self, columns: list[NDArray[Any]], shape: tuple[int, int], zero: set[int]
    ) -> list[DeltaPart | None] | None:
        """Stores the vectors of the next decision. Returns the changed rows of each vector (None:
        unchanged), or None if the shape is another one."""
        self.zero, still = zero, self.zero & zero
        if shape != self.shape:
            self.shape = shape
            self.columns = [column.copy() for column in columns]
            self.digests = [column_digest(column) for column in columns]
            return None
        parts: list[DeltaPart | None] = [None] * len(columns)
        for place, (new, old) in enumerate(zip(columns, self.columns, strict=True)):
            if place in still:
                continue
            rows = np.flatnonzero(new != old)
            if len(rows):
                parts[place] = DeltaPart(rows.astype(np.int32), new[rows])
                self.columns[place] = new.copy()
                self.digests[place] = column_digest(new)
        return parts

    def detail(
        self,
        parts: list[DeltaPart | None] | None,
        own_normalized: tuple[NDArray[np.int64] | None, ...],
        position: int,
    ) -> Detail:
        """The detail of these vectors at ``position``: a delta of ``parts``, or whole."""
        base, self.base, size = self.base, position, self.shape[0]
        if (
            parts is None
            or base is None
            or not may_build_on(base, position)
            or self.deltas_since_whole >= LONGEST_CHAIN
            or _outweigh(parts, size)
        ):
            self.deltas_since_whole = 0
            return Detail(size, None, self.columns[0], tuple(self.columns[1:]), own_normalized)
        self.deltas_since_whole += 1
        return Detail(size, base, parts[0], tuple(parts[1:]))


def _outweigh(parts: list[DeltaPart | None], size: int) -> bool:
    """Whether whole columns take less room. A rough count: one byte a value, and for the rows of a
    part a list of numbers or a bit for each row there is."""
    changed = [len(part.rows) for part in parts if part is not None]
    return sum(rows + min(2 * rows, size // 8) for rows in changed) > size * len(parts)


def _record_pod_specific(
    state: SchedulerState, judgement: Judgement, position: int, *, is_full: bool
) -> RecordedJudgement:
    numbers = dict(_FIXED)
    definitions = _define(state, judgement, numbers)
    codes = _encode(judgement.keys, numbers, judgement.counts)
    scores = judgement.scores if judgement.feasible else []
    scoring = _scoring(state, scores, definitions) if scores else 0
    own_normalized = tuple(score.normalized for score in scores)
    vectors = DeltaBase()
    if judgement.equivalence_class is not None and not any(
        column is not None for column in own_normalized
    ):
        vectors = judgement.equivalence_class.pod_specific_record = (
            judgement.equivalence_class.pod_specific_record or vectors
        )
    zero = {place for place, score in enumerate(scores, 1) if score.column.parameters == (0,)}
    raws = [score.raw for score in scores]
    parts = vectors.update([codes, *raws], (len(codes), scoring), zero)
    detail, position = None, position + len(definitions)
    if is_full:
        detail = vectors.detail(parts, own_normalized, position)
    else:
        vectors.base = None
    digests = vectors.digests[1:]
    digests += [column_digest(column) for column in own_normalized if column is not None]
    digest = detail_digest(vectors.digests[0], digests)
    parameters = tuple(score.column.parameters for score in scores)
    return RecordedJudgement(
        definitions, scoring, parameters, _counts(judgement, numbers), digest, codes, detail
    )


def _scoring(
    state: SchedulerState,
    scored: list[Scored],
    definitions: list[VerdictDefined | ScoringDefined],
) -> int:
    """The stream's number for these columns; a new one is added to the definitions."""
    columns = tuple(
        ScoreColumn(
            plugin=score.column.plugin,
            weight=score.column.weight,
            normalization=score.column.normalization,
        )
        for score in scored
    )
    number = state.scoring_numbers.get(columns)
    if number is None:
        number = len(state.scorings)
        definitions.append(ScoringDefined(number=number, columns=columns))
    return number


def _define(
    state: SchedulerState, judgement: Judgement, numbers: dict[CycleKey, VerdictCode]
) -> list[VerdictDefined | ScoringDefined]:
    """Sets the stream's number for each key; new verdicts are sorted by filter and text, so that
    their numbers do not depend on how a plugin happens to number its codes."""
    known = state.verdict_numbers
    unknown: list[tuple[int, Verdict, CycleKey]] = []
    for key in judgement.counts:
        if key not in numbers:
            verdict = judgement.entry(key)
            number = known.get(verdict)
            if number is None:
                unknown.append((key // CODES_A_FILTER, verdict, key))
            else:
                numbers[key] = number
    definitions: list[VerdictDefined | ScoringDefined] = []
    fresh: dict[Verdict, VerdictCode] = {}
    unknown.sort(key=lambda item: (item[0], item[1].reasons, item[1].code))
    new_numbers: dict[CycleKey, VerdictCode] = {}
    for _, verdict, key in unknown:
        entries = len(state.verdicts) + len(fresh)
        entry = verdict if verdict in fresh else _entry(verdict, entries)
        if entry not in known and entry not in fresh:
            fresh[entry] = VerdictCode(entries)
            if fresh[entry] >= STORED_EXCLUDED:
                raise PluginError(verdict.plugin, "filter", _TOO_MANY)
            definitions.append(VerdictDefined(number=fresh[entry], verdict=entry))
        new_numbers[key] = known[entry] if entry in known else fresh[entry]
    # Only at the end: if the dictionary has no room for one of them, none is numbered.
    numbers.update(new_numbers)
    return definitions


def _entry(verdict: Verdict, entries: int) -> Verdict:
    """The entry for a verdict that a dictionary of ``entries`` entries does not have. It is the
    verdict itself, or, if that is too long or there are too many, the entry that all such verdicts
    of its plugin share."""
    size = sum(len(reason.encode(errors="replace")) for reason in verdict.reasons)
    if entries < MOST_VERDICTS and size <= LONGEST_VERDICT:
        return verdict
    return Verdict(plugin=verdict.plugin, code=verdict.code, reasons=(ONE_OF_MANY,))


def _counts(
    judgement: Judgement, numbers: dict[CycleKey, VerdictCode]
) -> tuple[tuple[VerdictCode, int], ...]:
    """(number, nodes) of the refused nodes, ascending."""
    counts: dict[VerdictCode, int] = {}
    for key, nodes in judgement.counts.items():
        number = numbers[key]
        if number not in (STORED_PASSES, STORED_NO_NODE):
            counts[number] = counts.get(number, 0) + nodes
    return tuple(sorted(counts.items()))


def _encode(
    keys: Keys, numbers: dict[CycleKey, VerdictCode], distinct_keys: Collection[CycleKey] = ()
) -> Codes:
    """uint16[n]: the stream's numbers for keys; ``distinct_keys``: those that occur, if known."""
    if len(keys) == 1:
        return np.array([numbers[keys[0].item()]], dtype=np.uint16)
    codes = np.zeros(len(keys), dtype=np.uint16)
    if 0 < len(distinct_keys) <= FEW_KEYS:
        for key in distinct_keys:
            if key != KEY_PASSES:
                np.putmask(codes, keys == key, numbers[key])
        return codes
    refused = np.flatnonzero(keys != KEY_PASSES)
    distinct, where = np.unique(keys[refused], return_inverse=True)
    codes[refused] = np.array([numbers[key] for key in distinct.tolist()], dtype=np.uint16)[where]
    return codes
