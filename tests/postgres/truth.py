"""A stream's records, read by Python, and what follows from them: the other opinion in tests."""

from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec
import numpy as np

from eventsched.domain import records
from eventsched.domain.records import AnyRecord, Outcome, PodDecided
from eventsched.domain.records.verdicts import ScoreColumn, Verdict, normalized
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import uid_key

Row = tuple[Any, ...]
PLACED = (Outcome.SCHEDULED, Outcome.WAITING)
FIXED = {
    0: (None, "Success", None),
    65533: (None, "Excluded", "PreFilter left the node out"),
    65534: (None, "NotEvaluated", "the search ended before this node"),
}


def time_of(at: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)


class Truth:
    """A stream's records, decoded, and what follows from them."""

    def __init__(self, address: str, stream: str, *, keeps_connection: bool = False) -> None:
        self.stream = stream
        self.reader = Reader(address, stream, keeps_connection=keeps_connection)
        self.stored: list[StoredRecord] = list(self.reader.read())
        self.records: list[tuple[int, int, int, AnyRecord]] = [
            (each.position, each.at, each.cause, each.record) for each in self.stored
        ]

    def all(self, kind: type[Any]) -> list[tuple[int, int, int, Any]]:
        """(position, time, cause, record) of the records of a kind."""
        return [each for each in self.records if isinstance(each[3], kind)]

    @cached_property
    def pods(self) -> dict[str, tuple[str, str]]:
        """(namespace, name) by uid."""
        return {r.pod.uid: (r.pod.namespace, r.pod.name) for *_, r in self.all(records.PodAdded)}

    def who(self, uid: str) -> Row:
        """(namespace, name, uid) as the views have them."""
        return (*self.pods[uid], UUID(uid_key(uid)))

    @cached_property
    def nodes(self) -> list[str]:
        """Names by row."""
        return [r.node.name for *_, r in self.all(records.NodeAdded)]

    @cached_property
    def verdicts(self) -> dict[int, Verdict]:
        """The dictionary of codes."""
        return {r.number: r.verdict for *_, r in self.all(records.VerdictDefined)}

    @cached_property
    def scorings(self) -> dict[int, tuple[ScoreColumn, ...]]:
        """The dictionary of score columns."""
        return {r.number: r.columns for *_, r in self.all(records.ScoringDefined)}

    def told(self, number: int) -> Row:
        """(plugin, code, reason) of a code."""
        if number in FIXED:
            return FIXED[number]
        verdict = self.verdicts[number]
        return verdict.plugin, verdict.code.value, ", ".join(verdict.reasons)

    def verdicts_at(self, position: int) -> list[Row]:
        """What verdicts() is to say."""
        detail = self.reader.detail(position)
        if detail is None or detail.codes is None:
            return []
        return [
            (self.nodes[row], *self.told(code))
            for row, code in enumerate(detail.codes.tolist())
            if code != 65535
        ]

    def scores_at(self, position: int, decided: PodDecided) -> list[Row]:
        """What scores() is to say, in any order."""
        detail = self.reader.detail(position)
        if detail is None or not detail.scores:
            return []
        columns = []
        total = np.zeros(detail.size, dtype=np.int64)
        for place, column in enumerate(self.scorings[decided.scoring]):
            raw: Any = detail.scores[place]
            own = detail.normalized[place] if detail.normalized else None
            full = msgspec.structs.replace(column, parameters=decided.parameters[place])
            values = normalized(full, raw) if own is None else own
            columns.append((column, raw, values))
            total += values * column.weight
        feasible = np.flatnonzero(detail.codes == 0)
        rank = {int(row): 1 + int((total[feasible] > total[row]).sum()) for row in feasible}
        return [
            (
                self.nodes[row],
                c.plugin,
                int(raw[row]),
                int(v[row]),
                int(v[row]) * c.weight,
                rank[row],
            )
            for row in rank
            for c, raw, v in columns
        ]
