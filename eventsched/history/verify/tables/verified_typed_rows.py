"""Verifies the rows that are written when something about a pod begins or ends: moves, stays in a
queue, reservations, refusals, mentions, victims, comparisons, and the counts of records.

Written from docs/log-format.md, like all of verification.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

from eventsched.history.verify.tables.verified_rows import Record, Report, Row, differences, uuid
from eventsched.history.verify.verified_log import Tables

_QUEUES = ("active", "backoff", "unschedulable", "gated")
_HELD = ("binding", "waiting")
_TYPED = frozenset(("PodQueued", "PodDecided", "PodDeleted", "PodBound"))
_TABLES = (
    "queue_move", "queue_stay", "reservation", "pod_end", "refusal", "mention", "victim",
    "comparison",
)  # fmt: skip

Pod = dict[str, Any]


class _Unchecked:
    """Equal to everything: the decision of a bind that is not the pod's last one."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = object.__hash__


_UNCHECKED = _Unchecked()


class TypedRowCheck:
    """Compares the rows that the records should have with those in the tables, batch by batch."""

    def __init__(self, tables: Tables, report: Report) -> None:
        self._tables, self._report = tables, report
        self._expected: dict[str, list[Row]] = {table: [] for table in _TABLES}
        self._typed: set[str] = set()
        self._others: set[str] = set()
        self._kinds: Counter[str] = Counter()
        self._counted: dict[tuple[Any, ...], Row] | None = tables.dictionary("record_count")
        self._unknown: set[str] = set()
        """The pods from before the checkpoint at which verification began."""
        self._gone: set[str] = set()
        """Those that were deleted in the present batch."""

    def begin(self, position: int, pods: Collection[str]) -> None:
        """Begins at a checkpoint that has these pods. Rows of earlier positions are not
        compared, nor those that end what began earlier, nor the counts of records."""
        self.pass_over(position)
        self._unknown = {uuid(uid) for uid in pods}
        self._counted = None

    def expect(
        self, position: int, at: int, cause: int, record: Record, before: Pod, after: Pod
    ) -> None:
        """Adds the rows of a record. ``before`` and ``after`` are its pod's row of pod_now, or {}
        if it has none. Raises KeyError, TypeError and AttributeError for a record of a wrong shape.
        """
        kind = record["kind"]
        self._kinds[kind] += 1
        uid = record["pod"]["uid"] if kind in ("PodAdded", "PodUpdated") else record.get("uid")
        if not uid:
            return
        pod = uuid(uid)
        if kind in _TYPED:
            self._typed.add(pod)
        elif kind != "PodAdded":
            self._others.add(pod)
        if kind == "PreemptionDecided":
            self._others.update(uuid(victim) for victim in record.get("victims", ()))
            self._expected["victim"] += sorted(_victims(position, at, pod, record))
        if kind == "PodDeleted" and pod in self._unknown:
            self._gone.add(pod)
        if kind == "PodQueued":
            self._expected["queue_move"].append(_move(position, at, cause, pod, record))
        elif kind == "PodDecided":
            counts = sorted(record.get("counts", ()))
            self._expected["refusal"] += [(position, *count) for count in counts]
        elif kind == "PodDeleted":
            self._expected["pod_end"].append((position, at, pod))
        elif kind == "PlacementCompared":
            self._expected["comparison"].append(_comparison(position, at, pod, record))
        if before.get("state") in _QUEUES and after.get("state") != before["state"]:
            stay = (position, before["since"], at, pod, before["state"])
            self._expected["queue_stay"].append(stay)
        self._expect_reservation(position, at, cause, pod, record, before)

    def _expect_reservation(
        self, position: int, at: int, cause: int, pod: str, record: Record, before: Pod
    ) -> None:
        kind, rows = record["kind"], self._expected["reservation"]
        if kind == "PodBound":
            attempt = record.get("attempt")
            if rows and rows[-1][4::3] == (pod, "PodUpdated") and rows[-1][0] >= cause:
                rows.pop()  # the cluster showed the pod on its node before the bind's outcome
            is_last = bool(before) and before["last"][2] == attempt
            decided = before["last"][:2] if is_last else (_UNCHECKED, _UNCHECKED)
            rows.append((position, at, *decided, pod, attempt, record["node"], kind))
            return
        ends = kind in ("PodDeleted", "PodUnreserved") or (
            kind == "PodUpdated" and bool(record["pod"].get("node_name"))
        )
        if ends and before.get("state") in _HELD:
            held = (before["reserved_seq"], before["reserved_at"])
            rows.append((position, at, *held, pod, before["attempts"], before["node"], kind))

    def compare(self, first: int, end: int, known: set[str]) -> None:
        """Compares the expected rows with those of the batch from position ``first`` to before
        ``end``. ``known`` are the pods that were added in it and had been added before."""
        mentioned = (self._others | known) - self._typed
        self._expected["mention"] = [(first, pod) for pod in sorted(mentioned)]
        for table, expected in self._expected.items():
            stored = self._tables.rows(table, end)
            if self._unknown:
                stored = [row for row in stored if not self._ends_the_unknown(table, row)]
            if stored != expected:
                for position, problem in differences(table, expected, stored):
                    self._report(position, problem)
            expected.clear()
        self._typed.clear()
        self._others.clear()
        self._unknown -= self._gone
        self._gone.clear()

    def _ends_the_unknown(self, table: str, row: Row) -> bool:
        """Whether a row ends something of a pod that may have begun before the checkpoint."""
        if table == "queue_stay":
            return row[3] in self._unknown
        return table == "reservation" and row[4] in self._unknown and row[7] != "PodBound"

    def pass_over(self, end: int) -> None:
        """Skips the rows before position ``end``: their records are missing."""
        for table in self._expected:
            self._tables.rows(table, end)

    def finish(self, end: int) -> None:
        """Compares the counts of records, and reports rows that belong to no record; the log ends
        at ``end``."""
        for table in self._expected:
            rows = self._tables.rows(table, 2**63)
            if rows:
                self._report(
                    rows[0][0],
                    f"table {table} has {len(rows)} rows for positions at or after the end of the "
                    f"log ({end}), expected none",
                )
        if self._counted is None:
            return
        counted = {kind: records for (kind,), (records,) in self._counted.items()}
        if counted != self._kinds:
            for kind in sorted({*counted, *self._kinds}):
                if counted.get(kind, 0) != self._kinds[kind]:
                    self._report(
                        end,
                        f"table record_count has {counted.get(kind, 0)} of {kind}, expected "
                        f"{self._kinds[kind]}",
                    )


def _move(position: int, at: int, cause: int, pod: str, record: Record) -> Row:
    get = record.get
    return (
        position, at, cause, pod, record["queue"], get("cause"), get("plugin"), get("until"),
        get("failures"), get("errors"), get("rejectors"), get("pending"),
    )  # fmt: skip


def _victims(position: int, at: int, preemptor: str, record: Record) -> list[Row]:
    spared = dict.fromkeys(record.get("sent_back", ()), "sent back")
    spared.update((uid, "leaving") for uid in record.get("leaving", ()))
    return [
        (position, at, uuid(uid), preemptor, record["node"], spared.get(uid))
        for uid in record.get("victims", ())
    ]


def _comparison(position: int, at: int, pod: str, record: Record) -> Row:
    get = record.get
    return (
        position, at, pod, record["outcome"], get("node"), get("chosen"), get("attempt", 0),
        get("feasible", False), get("plugin"), get("reasons"), get("score", 0),
        get("chosen_score", 0),
    )  # fmt: skip
