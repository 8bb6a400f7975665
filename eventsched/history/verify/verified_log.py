"""A log as it is stored, for verification: what it is made of. Streams of a database are read by
verified_database.py, files by verified_file.py.

Written from docs/log-format.md. Nothing of the scheduler is imported here: what checks the log must
not share mistakes with what wrote it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol


class BatchRow(NamedTuple):
    """A row of table batch; ``written_at`` is in µs since 1970, texts are in UTF-8."""

    first: int
    count: int  # type: ignore[assignment]  # hides tuple.count
    epoch: int
    written_at: int
    mark: bytes
    hash: bytes
    body: bytes

    @property
    def end(self) -> int:
        """The position after its last record, by what the row says."""
        return self.first + self.count


class Packed(NamedTuple):
    """A row of table detail."""

    seq: int
    base: int | None
    body: bytes


class Epoch(NamedTuple):
    """A row of table epoch."""

    epoch: int
    token: bytes
    first: int


class HeadRow(NamedTuple):
    """A row of table head; epoch and token are None in a file, which does not have them."""

    next: int
    hash: bytes
    epoch: int | None = None
    token: bytes | None = None


class DamagedError(Exception):
    """A file is not of the file form from some place on. ``where`` names it."""

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(f"{where}: {problem}")


class NoLogError(DamagedError):
    """A file is no exported log at all, or one of a later form."""


class Tables(Protocol):
    """The derived rows and snapshots. Rows that were handed out are not handed out again."""

    def rows(self, table: str, end: int) -> list[tuple[Any, ...]]:
        """Rows of node, pod or decision for positions before ``end``, in order; the position is the
        first column, the others are as in COLUMNS."""

    def dictionary(self, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """All rows of verdict, scoring or pod_now by their key; the columns are as in COLUMNS."""

    def pod(self, uid: str) -> tuple[Any, ...] | None:
        """The pod row of a uid."""

    def snapshots(self) -> list[tuple[int, bytes]]:
        """(seq, hash) of all snapshots, in order."""


class Log(Protocol):
    """One stream, whole, in order of position."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def epochs(self) -> list[Epoch]:
        """In order."""

    @property
    def head(self) -> HeadRow | None:
        """None where there is no such row."""

    @property
    def tables(self) -> Tables | None:
        """None in a file."""

    def batches(self) -> Iterator[BatchRow]:
        """In order of ``first``; to be called once. Raises DamagedError."""

    def details(self, end: int) -> list[Packed]:
        """Details that were not handed out yet, of positions before ``end`` (in a file: of the
        batches read so far), in order."""

    def detail(self, seq: int) -> Packed | None:
        """One detail, of a batch that was read; None also if it was thinned meanwhile."""

    @property
    def details_at_first(self) -> int:
        """How many details there were when reading began; 0 in a file, or if nobody counts."""

    def details_now(self) -> int:
        """How many of these there are now: as many, unless the log is thinned meanwhile."""


class RowCursor:
    """An iterator over rows with the position first, ascending; gives what is due."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def before(self, end: int) -> list[Any]:
        """The rows not given yet, of positions before ``end``."""
        row, found = self._next, []
        while row is not None and row[0] < end:
            found.append(row)
            row = next(self._rows, None)
        self._next = row
        return found


COLUMNS = {
    "node": ("seq", "ordinal", "name"),
    "pod": ("seq", "uid::text", "namespace", "name"),
    "decision": (
        "seq", "at", "pod::text", "attempt", "profile", "outcome::text", "node", "score",
        "runner_up", "runner_up_score", "feasible", "evaluated", "ties", "draw",
    ),
    "pod_now": (
        "seq", "since", "waiting_since", "decided_seq", "attempts", "priority", "verdict",
        "deleting", "state", "namespace", "name", "scheduler", "owner_kind", "owner_name", "node",
        "nominated", "asked", "plugin", "message",
    ),
    "verdict": ("plugin", "code", "reasons"),
    "scoring": ("plugin", "weight", "normalization"),
}  # fmt: skip
"""What is read of the derived tables."""
