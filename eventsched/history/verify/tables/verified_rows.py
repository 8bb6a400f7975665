"""Verifies the derived rows: computes them from the records and compares in both directions."""

import re
from collections.abc import Callable, Iterator
from hashlib import md5
from typing import Any

from eventsched.history.verify.verified_log import COLUMNS, Tables

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Record = dict[str, Any]
Row = tuple[Any, ...]
Report = Callable[[int, str], None]


class RowCheck:
    """Compares the rows that the records should have with those in the tables, batch by batch."""

    def __init__(self, tables: Tables, report: Report) -> None:
        self._tables, self._report = tables, report
        self._expected: dict[str, list[Row]] = {"node": [], "pod": [], "decision": []}
        self._dictionaries = {name: tables.dictionary(name) for name in ("verdict", "scoring")}
        self.known: set[str] = set()
        """The pods that were added in the last batch compared, and had been added before."""

    def begin(self, position: int, verdicts: list[Record], columns: list[list[Record]]) -> None:
        """Begins at a checkpoint: rows of earlier positions are not compared, the dictionaries have
        to be those of the checkpoint."""
        self.pass_over(position)
        for number, verdict in enumerate(verdicts, 1):
            entry = {"kind": "VerdictDefined", "number": number, "verdict": verdict}
            self.expect(position, 0, entry, 0)
        for number, scoring in enumerate(columns, 1):
            entry = {"kind": "ScoringDefined", "number": number, "columns": scoring}
            self.expect(position, 0, entry, 0)

    def expect(self, position: int, at: int, record: Record, nodes: int) -> None:
        """Adds the rows of a record; ``nodes`` is the number of the nodes' rows before it. Raises
        KeyError, TypeError, ValueError and AttributeError for a record of a wrong shape."""
        match record["kind"]:
            case "PodDecided":
                self._expected["decision"].append(decision(position, at, record))
            case "PodAdded":
                pod = record["pod"]
                row = (position, uuid(pod["uid"]), pod.get("namespace", "default"), pod["name"])
                self._expected["pod"].append(row)
            case "NodeAdded":
                ordinal = record.get("row", nodes)
                self._expected["node"].append((position, ordinal, record["node"]["name"]))
            case "VerdictDefined":
                verdict = record["verdict"]
                entry = (verdict["plugin"], verdict["code"], list(verdict["reasons"]))
                self._defined("verdict", position, (record["number"],), entry)
            case "ScoringDefined":
                for place, column in enumerate(record["columns"]):
                    normalization = column.get("normalization", "identity")
                    score_column = (column["plugin"], column["weight"], normalization)
                    self._defined("scoring", position, (record["number"], place), score_column)

    def compare(self, end: int) -> None:
        """Compares the expected rows with the rows before position ``end``."""
        self.known = set()
        for table, expected in self._expected.items():
            stored = self._tables.rows(table, end)
            if stored != expected:
                self._differ(table, expected, stored)
            expected.clear()

    def pass_over(self, end: int) -> None:
        """Skips the rows before position ``end``: their records are missing."""
        for table in self._expected:
            self._tables.rows(table, end)

    def finish(self, end: int) -> None:
        """Reports rows that belong to no record; the log ends at ``end``."""
        for table in self._expected:
            rows = self._tables.rows(table, 2**63)
            if rows:
                self._report(
                    rows[0][0],
                    f"table {table} has {len(rows)} rows for positions at or after the end of the "
                    f"log ({end}), expected none",
                )
        for table, rows_left in self._dictionaries.items():
            for key, row in rows_left.items():
                self._report(end, f"table {table} has a row {_shown(key)} {row}, expected none: no "
                                  "record defines it")  # fmt: skip

    def _defined(self, table: str, position: int, key: tuple[int, ...], row: Row) -> None:
        stored = self._dictionaries[table].pop(key, None)
        if stored is None:
            self._report(position, f"table {table} has no row {_shown(key)}, expected {row}")
        elif stored != row:
            self._report(position, f"table {table}, row {_shown(key)}: "
                                   f"{_difference(table, stored, row)}")  # fmt: skip

    def _differ(self, table: str, expected: list[Row], stored: list[Row]) -> None:
        if table == "pod":
            positions = {row[0] for row in stored}
            known = [row for row in expected if row[0] not in positions and self._is_known(row)]
            self.known = {row[1] for row in known}
            expected = [row for row in expected if row not in known]
        for position, problem in differences(table, expected, stored):
            self._report(position, problem)

    def _is_known(self, row: Row) -> bool:
        """Whether the pod's uid has a row of an earlier record."""
        earlier = self._tables.pod(row[1])
        return earlier is not None and earlier[0] < row[0]


def differences(table: str, expected: list[Row], stored: list[Row]) -> Iterator[tuple[int, str]]:
    """(position, problem) of each difference between the expected and the stored rows."""
    by_position: dict[int, list[Row]] = {}
    for row in stored:
        by_position.setdefault(row[0], []).append(row)
    for row in expected:
        rows = by_position.pop(row[0], [])
        if not rows:
            yield row[0], f"table {table} has no row for the record, expected {row[1:]}"
        for other in rows[:1]:
            if other != row:
                yield row[0], f"table {table}: {_difference(table, other, row, 1)}"
        by_position[row[0]] = rows[1:]
    for position, rows in by_position.items():
        for row in rows:
            yield position, f"table {table} has a row {row[1:]}, expected none: no such record"


def decision(position: int, at: int, record: Record) -> Row:
    """The row of table decision for a PodDecided record."""
    get = record.get
    draw = get("draw", 0)
    return (
        position, at, uuid(record["uid"]), record["attempt"], record["profile"],
        record["outcome"], get("node"), get("score", 0), get("runner_up"),
        get("runner_up_score", 0), get("feasible", 0), get("evaluated", 0), get("ties", 0),
        draw - 2**64 if draw >= 2**63 else draw,
    )  # fmt: skip


def uuid(uid: str) -> str:
    """A uid as the tables have it, as a UUID."""
    if _UUID.fullmatch(uid):
        return uid
    digits = md5(uid.encode(), usedforsecurity=False).hexdigest()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _shown(key: tuple[int, ...]) -> str:
    return "/".join(map(str, key))


def _difference(table: str, stored: Row, expected: Row, skipped: int = 0) -> str:
    names = [name.partition("::")[0] for name in COLUMNS[table]]
    for name, value, right in list(zip(names, stored, expected, strict=True))[skipped:]:
        if value != right:
            return f"{name} is {value!r}, expected {right!r} by the record"
    return "the rows differ"
