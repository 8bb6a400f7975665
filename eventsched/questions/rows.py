"""Rows of the derived tables of one stream: decisions, refusals, pods.

The SQL of the questions reads these, by index and within a bounded number of rows, and of batches
at most the last one.
"""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import Engine, RowMapping, bindparam, text
from sqlalchemy.exc import OperationalError

from eventsched.domain.records.exclusions import EXCLUSION_CODE, UNNAMED
from eventsched.domain.records.verdicts import STORED_EXCLUDED, STORED_NOT_EVALUATED
from eventsched.eventlog.postgres.reader import CHOOSE_STREAM
from eventsched.eventlog.schema import migrations

_VERDICTS = """
SELECT number, plugin, code, reasons FROM eventsched_log.verdict
WHERE stream = :s AND number > :known ORDER BY number
"""
_HEAD = "SELECT next FROM eventsched_log.head WHERE stream = :s"


class Refusal(NamedTuple):
    """What a verdict's number means. ``plugin`` is None if no single plugin refused."""

    plugin: str | None
    code: str
    reason: str


_FIXED: dict[int, Refusal] = {
    STORED_EXCLUDED: Refusal(UNNAMED.plugin, EXCLUSION_CODE, UNNAMED.reason),
    STORED_NOT_EVALUATED: Refusal(None, "NotEvaluated", "the search ended before this node"),
}


class Rows:
    """The derived rows of a stream. Threads may share it."""

    def __init__(self, engine: Engine, address: str, number: int) -> None:
        """``number`` is the stream's id in the database."""
        self._engine, self._address, self._number = engine, address, number
        self._verdicts: dict[int, Refusal] = dict(_FIXED)
        self._known = -1
        self._lock = Lock()

    def all(self, query: str, **values: Any) -> list[RowMapping]:
        """The rows of a query; ``:s`` is the stream's number, a list is for ``IN :name``, a tuple
        an array, for many values. Raises UnavailableError."""
        return self._asked(query, values, of_views=False)

    def of_views(self, query: str, **values: Any) -> list[RowMapping]:
        """The rows of a query on views, which then look at this stream alone. Raises
        UnavailableError."""
        return self._asked(query, values, of_views=True)

    def _asked(self, query: str, values: dict[str, Any], *, of_views: bool) -> list[RowMapping]:
        statement = text(query).bindparams(
            *(bindparam(name, expanding=True) for name, v in values.items() if isinstance(v, list))
        )
        arrays = {name: list(v) for name, v in values.items() if isinstance(v, tuple)}
        try:
            with self._engine.connect() as connection:
                if of_views:  # the setting lasts as long as a transaction
                    connection.execution_options(isolation_level="READ COMMITTED")
                    connection.execute(text(CHOOSE_STREAM), {"s": self._number})
                found = connection.execute(statement, {"s": self._number, **values, **arrays})
                return list(found.mappings().all())  # row by row takes twice as long
        except OperationalError as problem:
            raise migrations.connection_error(self._address, problem) from problem

    def one(self, query: str, **values: Any) -> RowMapping | None:
        """The first row; None if there is none."""
        return next(iter(self.all(query, **values)), None)

    @property
    def head(self) -> int:
        """The position of the next record."""
        row = self.one(_HEAD)
        return 0 if row is None else int(row["next"])

    def refusals(self, numbers: Iterable[int]) -> Mapping[int, Refusal]:
        """What verdicts' numbers mean. The stream's dictionary only grows; what is known is
        kept."""
        with self._lock:
            if any(number not in self._verdicts for number in numbers):
                self._learn()
            return self._verdicts

    def _learn(self) -> None:
        for row in self.all(_VERDICTS, known=self._known):
            self._verdicts[row["number"]] = _refusal(row["plugin"], row["code"], row["reasons"])
            self._known = row["number"]

    def numbers(self, plugin: str | None, reason: str | None) -> list[int]:
        """The verdicts of a plugin, with a text in their reason (any case), or with both."""
        with self._lock:
            self._learn()
            return [
                number
                for number, refusal in self._verdicts.items()
                if plugin in (None, refusal.plugin)
                and (reason is None or reason.lower() in refusal.reason.lower())
            ]


def _refusal(plugin: str, code: str, reasons: Sequence[str]) -> Refusal:
    return Refusal(plugin or None, code, ", ".join(reasons))
