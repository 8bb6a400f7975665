"""Compares the vectors of best nodes that a log has stored with those of a replay."""

from collections.abc import Iterator, Sequence

import numpy as np

from eventsched.domain.detail_levels import SUMMARY, DetailLevel
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import STORED_NO_NODE, STORED_PASSES, Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.port import StoredRecord

PartialDetails = Iterator[tuple[int, Detail]]
"""Positions and partial vectors, ascending."""


class PartialVectorCheck:
    """Compares them step by step, in order."""

    def __init__(self, stored: PartialDetails) -> None:
        self._stored = stored
        self._next = next(stored, None)
        self._of_step: dict[int, Detail] = {}

    def level(self, step: Sequence[StoredRecord]) -> DetailLevel:
        """The level at which the decisions of a step have to be repeated: as many nodes as are
        stored of them."""
        self._of_step, last, nodes = {}, step[-1].position, 0
        while self._next is not None and self._next[0] <= last:
            position, detail = self._next
            if position >= step[0].position:
                self._of_step[position] = detail
                nodes = max(nodes, _nodes(step[position - step[0].position], detail))
            self._next = next(self._stored, None)
        return DetailLevel(max(nodes, 1)) if self._of_step else SUMMARY

    def difference(self, replayed: Sequence[LogEntry]) -> tuple[LogEntry, str, str] | None:
        """The first record of the step whose stored vectors differ, with the rows that are stored
        and those that are the best; None if all are equal."""
        for entry in replayed:
            stored, made = self._of_step.get(entry.position), entry.detail
            if stored is None or made is None:
                continue
            if vectors.pack(stored) != vectors.pack(made):
                return entry, _text_of(stored), _text_of(made)
        return None


def _nodes(stored: StoredRecord, detail: Detail) -> int:
    is_kept = (
        detail.codes == STORED_PASSES
        if stored.kind == "PodDecided"
        else detail.codes != STORED_NO_NODE
    )
    return int(np.count_nonzero(is_kept))


def _text_of(detail: Detail) -> str:
    whole = detail.expand()
    assert isinstance(whole.codes, np.ndarray)
    rows = np.flatnonzero(whole.codes != STORED_NO_NODE).tolist()
    columns = [whole.codes, *(c for c in whole.scores if isinstance(c, np.ndarray))]
    return "; ".join(
        f"row {row}: {' '.join(str(int(column[row])) for column in columns)}" for row in rows
    )
