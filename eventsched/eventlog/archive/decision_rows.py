"""The rows of the file of decisions: what SQL's views ``decisions`` and ``refusals`` show."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from eventsched.domain.records import PodDecided
from eventsched.domain.records.exclusions import EXCLUSION_CODE, exclusion_of
from eventsched.domain.records.verdicts import STORED_EXCLUDED, STORED_NOT_EVALUATED
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader

_PODS = """
SELECT d.seq, d.pod::text AS uid, p.namespace, p.name FROM eventsched_log.decision d
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
WHERE d.stream = :s AND d.seq >= :begin AND d.seq < :end
"""
_VERDICTS = (
    "SELECT number, plugin, code::text, reasons FROM eventsched_log.verdict WHERE stream = :s"
)
_Refusal = tuple[str | None, str | None, str | None]
"""Plugin, code and reason."""
_NOT_EVALUATED: _Refusal = (None, "NotEvaluated", "the search ended before this node")


class DecisionRows:
    """Makes the rows of decisions from their records."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._verdicts: dict[int, _Refusal] = {STORED_NOT_EVALUATED: _NOT_EVALUATED}

    def of(self, stored: Sequence[StoredRecord]) -> Iterator[tuple[Any, ...]]:
        """A row for each decision among consecutive records, with the columns of
        parquet.SCHEMAS. Raises CorruptLogError."""
        decided = [record for record in stored if record.kind == "PodDecided"]
        if not decided:
            return
        begin, end = decided[0].position, decided[-1].position + 1
        pods = {row["seq"]: row for row in self._reader.rows(_PODS, begin=begin, end=end)}
        for each in decided:
            try:
                record = each.record
            except msgspec.MsgspecError as problem:
                raise CorruptLogError(each.position, str(problem)) from problem
            assert isinstance(record, PodDecided)
            pod = pods.get(each.position)
            if pod is None:
                raise CorruptLogError(each.position, "the decision has no row in table decision")
            yield self._row(each, record, (pod["namespace"], pod["name"], pod["uid"]))

    def _row(
        self, stored: StoredRecord, record: PodDecided, pod: tuple[str | None, ...]
    ) -> tuple[Any, ...]:
        return (
            self._reader.stream, stored.position, stored.at, *pod,
            record.attempt, record.profile, str(record.outcome), record.node or None, record.score,
            record.runner_up or None, record.runner_up_score, record.feasible, record.evaluated,
            record.ties, record.draw, record.plugin or None, record.message or None,
            [self._refusal(record, number, nodes) for number, nodes in record.counts],
        )  # fmt: skip

    def _refusal(self, record: PodDecided, number: int, nodes: int) -> dict[str, Any]:
        if number == STORED_EXCLUDED:
            by, why = exclusion_of(record)
            return {"plugin": by, "code": EXCLUSION_CODE, "reason": why, "nodes": nodes}
        if number not in self._verdicts:
            for row in self._reader.rows(_VERDICTS):
                reasons = ", ".join(row["reasons"])
                self._verdicts[row["number"]] = (row["plugin"] or None, row["code"], reasons)
        unknown: _Refusal = (None, None, None)
        plugin, code, reason = self._verdicts.get(number, unknown)
        return {"plugin": plugin, "code": code, "reason": reason, "nodes": nodes}
