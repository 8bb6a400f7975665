"""The parts of a stored log, for verification. verified_database.py reads streams of a database,
verified_file.py reads exported files.

Written from docs/log-format.md. Imports nothing of the scheduler: the code that checks the log must
not share mistakes with the code that wrote it.
"""

from collections.abc import Iterable, Iterator
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
        """The position after its last record, according to the row."""
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
    """A row of table head. ``epoch`` and ``token`` are None in a file, which does not have
    them."""

    next: int
    hash: bytes
    epoch: int | None = None
    token: bytes | None = None


class KeptStart(NamedTuple):
    """The begin of a log whose records before ``position`` were dropped, or are not to be checked
    (``is_chosen``). ``seal`` is the position of the seal that says so, ``record`` that record, and
    ``checkpoint`` the bytes that it names; both are empty if they are not there."""

    position: int
    seal: int
    record: dict[str, Any]
    checkpoint: bytes
    is_chosen: bool = False


class DamagedError(Exception):
    """A file is malformed from some place on, which ``where`` names. ``remedy`` is what the user
    can do; "" if only the caller knows."""

    def __init__(self, where: str, problem: str, remedy: str = "") -> None:
        self.where, self.problem, self.remedy = where, problem, remedy
        super().__init__(f"{where}: {problem}")

    @property
    def advice(self) -> str:
        """The message, with the remedy."""
        return f"{self}; {self.remedy}" if self.remedy else str(self)


class NoLogError(DamagedError):
    """A file is not an exported log, or has a later format."""


NEWEST_FLAG = 10
"""The newest behaviour that this version of docs/log-format.md describes."""


class LaterVersionError(Exception):
    """A log names behaviours of a later version at a ``position``: what follows from its records is
    not known."""

    def __init__(self, position: int, flags: Iterable[int]) -> None:
        self.position = position
        listed = ", ".join(map(str, flags))
        self.problem = f"was written by a newer version: this one does not know its flags {listed}"
        super().__init__(self.problem)


def require_known(position: int, flags: Iterable[int]) -> None:
    """Raises LaterVersionError for flags of a later version, and TypeError for a flag that is
    not a number."""
    newer = sorted(flag for flag in flags if flag > NEWEST_FLAG)
    if newer:
        raise LaterVersionError(position, newer)


class Tables(Protocol):
    """The derived rows and snapshots. Each row is returned only once."""

    def rows(self, table: str, end: int) -> list[tuple[Any, ...]]:
        """The next rows of a table whose rows have positions, for positions before ``end``, in
        order, with the columns in COLUMNS; the first is the position."""

    def dictionary(self, table: str) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """All rows of verdict, scoring, pod_now or record_count by key, with the columns in
        COLUMNS."""

    def pod(self, uid: str) -> tuple[Any, ...] | None:
        """The pod row of a uid."""

    def snapshots(self) -> list[tuple[int, bytes]]:
        """(seq, hash) of all snapshots and checkpoints, in order."""

    def seals(self) -> dict[int, int]:
        """The position of the seal of each partition that has one, by the partition's first
        position; also of partitions that were dropped."""


class Log(Protocol):
    """One stream, whole, in order of position."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def epochs(self) -> list[Epoch]:
        """All epochs, in order."""

    @property
    def head(self) -> HeadRow | None:
        """The head; None if the row is missing."""

    @property
    def tables(self) -> Tables | None:
        """The derived tables; None for a file."""

    @property
    def start(self) -> KeptStart | None:
        """The begin of the log, if its first records were dropped."""

    def hash_at(self, position: int) -> bytes | None:
        """The hash of the batch that ends at a position; None if that is not known."""

    def batches(self) -> Iterator[BatchRow]:
        """All batches in order of ``first``; can be called once. Raises DamagedError."""

    def details(self, end: int) -> list[Packed]:
        """The details not yet returned, for positions before ``end`` (in a file: of the batches
        read so far), in order."""

    def detail(self, seq: int) -> Packed | None:
        """One detail of a batch that was read; None also if it was thinned meanwhile."""

    @property
    def details_at_first(self) -> int:
        """The number of details when reading began; 0 for a file, or if they are not counted."""

    def details_now(self) -> int:
        """The present number of these details; smaller if the log was thinned meanwhile."""


class RowCursor:
    """Reads rows in steps; their first column is the position, ascending."""

    def __init__(self, rows: Iterator[Any]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def before(self, end: int) -> list[Any]:
        """The rows not yet returned, for positions before ``end``."""
        row, due = self._next, []
        while row is not None and row[0] < end:
            due.append(row)
            row = next(self._rows, None)
        self._next = row
        return due


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
        "nominated", "asked", "plugin", "message", "reserved_seq", "reserved_at",
    ),
    "queue_move": (
        "seq", "at", "caused_by", "pod::text", "queue", "cause", "plugin", "until", "failures",
        "errors", "rejectors", "pending",
    ),
    "queue_stay": ("seq", "since", "until", "pod::text", "queue"),
    "reservation": (
        "seq", "at", "decided_seq", "decided_at", "pod::text", "attempt", "node", "ended_by",
    ),
    "pod_end": ("seq", "at", "pod::text"),
    "refusal": ("seq", "number", "nodes"),
    "mention": ("first", "pod::text"),
    "victim": ("seq", "at", "pod::text", "preemptor::text", "node", "spared"),
    "comparison": (
        "seq", "at", "pod::text", "outcome", "node", "chosen", "attempt", "feasible", "plugin",
        "reasons", "score", "chosen_score",
    ),
    "record_count": ("records",),
    "verdict": ("plugin", "code", "reasons"),
    "scoring": ("plugin", "weight", "normalization"),
}  # fmt: skip
"""The columns that are read, by table."""
