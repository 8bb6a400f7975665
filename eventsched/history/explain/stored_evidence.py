"""An explanation's evidence in Postgres: found through the derived tables and their indexes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import Row, text

from eventsched.domain.records.verdicts import Code, Detail, Normalization, ScoreColumn, Verdict
from eventsched.eventlog.port import Stored
from eventsched.eventlog.postgres.reader import Reader, StoredBatch
from eventsched.history.explain.evidence import LOOKED_BACK, LoggedPod, uid_key
from eventsched.history.explain.record_text import concerns, pod_of

_CANDIDATES = 1_000
"""Names at most that are looked at for what may have been meant."""

_PODS = "SELECT uid, namespace, name, seq FROM eventsched_log.pod WHERE stream = :s"

_ALIKE = """
AND (left(name, :half) = left(:name, :half) OR right(name, :half) = right(:name, :half))
"""

_SPAN, _WIDEST_SPAN = 1_000, 64_000
"""Records that are searched at a time for those of a pod: at first (most pods are decided soon),
and at most."""
_NAMING = text("""
SELECT first, body::text AS body FROM eventsched_log.batch
WHERE stream = :s
  AND first >= :begin AND first < :end AND strpos(body::text, :words) > 0
ORDER BY first
""")

_AT = """
SELECT p.position, (item ->> 0)::bigint AS at, (item ->> 1)::bigint AS cause,
       item -> 3 ->> 'kind' AS kind, (item ->> 2)::integer AS version, (item -> 3)::text AS body
FROM unnest(CAST(:positions AS bigint[])) AS p (position)
CROSS JOIN LATERAL (
    SELECT body -> (p.position - first)::integer AS item FROM eventsched_log.batch
    WHERE stream = :s AND first <= p.position ORDER BY first DESC LIMIT 1
) found
WHERE item IS NOT NULL
"""

_SAMPLES = f"""
SELECT first, body::text AS body FROM eventsched_log.batch
WHERE stream = :s AND first < :before AND strpos(body::text, '"kind":"SamplesTaken"') > 0
ORDER BY first DESC LIMIT {LOOKED_BACK}
"""

_HOMES = """
SELECT e.uid, d.node
FROM unnest(CAST(:uids AS uuid[]), CAST(:ends AS bigint[])) AS e (uid, position)
CROSS JOIN LATERAL (
    SELECT node FROM eventsched_log.decision
    WHERE stream = :s AND pod = e.uid AND seq < e.position AND outcome IN ('scheduled', 'waiting')
    ORDER BY seq DESC LIMIT 1
) d
"""


class StoredEvidence:
    """What a log in Postgres says, found through its derived tables. Of the log itself only the
    batches that name the pod are fetched."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._reader.stream

    def pods(self, wanted: str) -> list[LoggedPod]:
        """See Evidence."""
        found = self._reader.rows(f"{_PODS} AND uid = CAST(:uid AS uuid)", uid=uid_key(wanted))
        if not found:
            namespace, slash, name = wanted.rpartition("/")
            found = self._reader.rows(
                f"{_PODS} AND name = :name AND (:bare OR namespace = :namespace) ORDER BY seq",
                name=name, namespace=namespace, bare=not slash,
            )  # fmt: skip
        return [
            LoggedPod(str(row["uid"]), row["namespace"], row["name"], row["seq"]) for row in found
        ]

    def similar(self, wanted: str) -> list[str]:
        """See Evidence: those whose names begin or end alike, else any."""
        name = wanted.rpartition("/")[2]
        limit = f"ORDER BY name LIMIT {_CANDIDATES}"
        half = max(1, len(name) // 2)
        found = self._reader.rows(f"{_PODS} {_ALIKE} {limit}", name=name, half=half)
        found = found or self._reader.rows(f"{_PODS} {limit}")
        return sorted({f"{row['namespace']}/{row['name']}" for row in found})

    def records(self, pod: LoggedPod) -> Iterator[Stored]:
        """See Evidence. The log after the last of them is not looked at."""
        uid = pod_of(self.records_at([pod.position])[pod.position].record)
        assert uid is not None
        words = msgspec.json.encode(uid)
        for row in self._naming(pod.position, words.decode()):
            for stored in StoredBatch(row.first, 0, 0, 0, "", b"", row.body).records:
                if stored.position < pod.position or words not in stored.body:
                    continue
                if concerns(stored.record, uid):
                    yield stored
                    if stored.kind == "PodDeleted":
                        return

    def _naming(self, position: int, words: str) -> Iterator[Row[Any]]:
        """The batches that hold some words, from a position on; each span a transaction."""
        begin, end = self._reader.batch_with(position), self._reader.head.next
        span = _SPAN
        with self._reader.connection(one_moment=False) as connection:
            while begin < end:
                values = {"s": self._reader.number, "begin": begin, "words": words}
                values["end"] = min(end, begin + span)
                yield from connection.execute(_NAMING, values)
                begin, span = begin + span, min(2 * span, _WIDEST_SPAN)

    def records_at(self, positions: Iterable[int]) -> dict[int, Stored]:
        """See Evidence."""
        found = self._reader.rows(_AT, positions=sorted(set(positions)))
        return {
            row["position"]: Stored(
                row["position"], row["at"], row["cause"], row["kind"], row["version"],
                row["body"].encode(),
            )
            for row in found
        }  # fmt: skip

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """See Evidence."""
        keys = {uid_key(uid): uid for uid in uids}
        query = f"{_PODS} AND uid = ANY(CAST(:uids AS uuid[]))"
        found = self._reader.rows(query, uids=list(keys)) if keys else []
        return {keys[str(row["uid"])]: f"{row['namespace']}/{row['name']}" for row in found}

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """See Evidence. Pods that came with a node have none here."""
        keys = {uid_key(uid): uid for uid in ends}
        if not keys:
            return {}
        found = self._reader.rows(_HOMES, uids=list(keys), ends=list(ends.values()))
        return {keys[str(row["uid"])]: row["node"] for row in found}

    def detail(self, position: int) -> Detail | None:
        """See Evidence."""
        return self._reader.detail(position)

    def samples(self, before: int) -> list[Stored]:
        """See Evidence."""
        found = [
            stored
            for row in self._reader.rows(_SAMPLES, before=before)
            for stored in StoredBatch(row["first"], 0, 0, 0, "", b"", row["body"]).records
            if stored.kind == "SamplesTaken" and stored.position < before
        ]
        return sorted(found, key=lambda stored: -stored.position)

    def nodes(self) -> list[str]:
        """See Evidence."""
        query = "SELECT name FROM eventsched_log.node WHERE stream = :s ORDER BY ordinal"
        return [row["name"] for row in self._reader.rows(query)]

    def verdicts(self) -> Mapping[int, Verdict]:
        """See Evidence."""
        query = "SELECT number, plugin, code, reasons FROM eventsched_log.verdict WHERE stream = :s"
        return {
            row["number"]: Verdict(
                plugin=row["plugin"], code=Code(row["code"]), reasons=tuple(row["reasons"])
            )
            for row in self._reader.rows(query)
        }

    def columns(self, number: int) -> tuple[ScoreColumn, ...]:
        """See Evidence."""
        found = self._reader.rows(
            "SELECT plugin, weight, normalization FROM eventsched_log.scoring"
            " WHERE stream = :s AND number = :number ORDER BY place",
            number=number,
        )
        return tuple(
            ScoreColumn(
                plugin=row["plugin"],
                weight=row["weight"],
                normalization=Normalization(row["normalization"]),
            )
            for row in found
        )
