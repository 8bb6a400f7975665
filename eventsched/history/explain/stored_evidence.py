"""The evidence for an explanation in Postgres, found through the derived tables and indexes."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import Row, text

from eventsched.domain.objects import Pod
from eventsched.domain.records import AnyRecord, PodAdded, PodBound, PodQueued, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Code, Detail, Normalization, ScoreColumn, Verdict
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import decode_records
from eventsched.history.explain.evidence import LOOKED_BACK, LoggedPod, is_about, uid_key
from eventsched.history.explain.record_text import concerns, pod_of

_SIMILAR_NAMES = 5_000
"""The largest number of names that are compared with an unknown one."""

_PODS = "SELECT uid, namespace, name, seq FROM eventsched_log.pod WHERE stream = :s"

# The names that share the most pairs of neighbouring characters with the unknown one.
_SIMILAR = f"""
SELECT namespace, name
FROM (SELECT DISTINCT namespace, name FROM eventsched_log.pod WHERE stream = :s) p
ORDER BY (SELECT count(*) FROM unnest(CAST(:pairs AS text[])) AS pair WHERE strpos(name, pair) > 0)
             DESC, abs(length(name) - :length), name, namespace
LIMIT {_SIMILAR_NAMES}
"""

_NODES = """
SELECT n.name
FROM generate_series(0, (SELECT max(ordinal) FROM eventsched_log.node WHERE stream = :s)) AS row
CROSS JOIN LATERAL (
    SELECT name FROM eventsched_log.node
    WHERE stream = :s AND ordinal = row AND seq < :before ORDER BY seq DESC LIMIT 1
) n
ORDER BY row
"""

_STATE = """
SELECT state, node, since FROM eventsched_log.pod_now
WHERE stream = :s AND uid = CAST(:uid AS uuid)
"""

_PAGE = 64
"""Batches that are fetched at a time."""
_BATCHES_OF_POD = text(f"""
SELECT b.first, b.body::text AS body
FROM eventsched_log.batches_of(:s, CAST(:uid AS uuid)) AS found (first)
JOIN eventsched_log.batch b ON b.stream = :s AND b.first = found.first
WHERE b.first >= :begin ORDER BY b.first LIMIT {_PAGE}
""")

# Each batch is parsed once, however many records of it are asked for.
_AT = """
SELECT b.first + place - 1 AS position, (item ->> 0)::bigint AS at, (item ->> 1)::bigint AS cause,
       item -> 3 ->> 'kind' AS kind, (item ->> 2)::integer AS version, (item -> 3)::text AS body
FROM (
    SELECT found.first, array_agg(p.position) AS positions
    FROM unnest(CAST(:positions AS bigint[])) AS p (position)
    CROSS JOIN LATERAL (
        SELECT first FROM eventsched_log.batch
        WHERE stream = :s AND first <= p.position ORDER BY first DESC LIMIT 1
    ) found GROUP BY found.first
) asked
JOIN eventsched_log.batch b ON b.stream = :s AND b.first = asked.first
CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS element (item, place)
WHERE b.first + place - 1 = ANY (asked.positions)
"""

_ATTEMPTS = """
SELECT seq, attempt FROM eventsched_log.decision
WHERE stream = :s AND pod = CAST(:uid AS uuid) AND seq >= coalesce((
    SELECT max(next) FROM eventsched_log.pruned WHERE stream = :s
), 0)
ORDER BY seq
"""

_SHADOW = """
SELECT EXISTS (
    SELECT FROM eventsched_log.record_count
    WHERE stream = :s AND kind = 'PlacementCompared' AND records > 0
) OR EXISTS (  -- the first record, unless it is dropped: then there were comparisons
    SELECT FROM eventsched_log.batch
    WHERE stream = :s AND first = 0 AND body -> 0 -> 3 -> 'inputs' ->> 'shadows' IS NOT NULL
) AS is_shadow
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
    """The evidence of a log in Postgres, found through its derived tables. Of the log itself, only
    the batches with records about the pod are fetched."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._reader.stream

    @property
    def begin(self) -> int:
        """See Evidence."""
        return self._reader.begin

    @property
    def is_shadow(self) -> bool:
        """See Evidence."""
        return bool(self._reader.rows(_SHADOW)[0]["is_shadow"])

    def pods(self, name: str) -> list[LoggedPod]:
        """See Evidence."""
        rows = self._reader.rows(f"{_PODS} AND uid = CAST(:uid AS uuid)", uid=uid_key(name))
        if not rows:
            namespace, slash, bare_name = name.rpartition("/")
            rows = self._reader.rows(
                f"{_PODS} AND name = :name AND (:is_bare OR namespace = :namespace) ORDER BY seq",
                name=bare_name, namespace=namespace, is_bare=not slash,
            )  # fmt: skip
        return [
            LoggedPod(str(row["uid"]), row["namespace"], row["name"], row["seq"]) for row in rows
        ]

    def similar(self, name: str) -> list[str]:
        """See Evidence. Returns at most _SIMILAR_NAMES names."""
        bare_name = name.rpartition("/")[2]
        pairs = sorted({bare_name[at : at + 2] for at in range(len(bare_name) - 1)})
        rows = self._reader.rows(_SIMILAR, pairs=pairs, length=len(bare_name))
        return sorted(f"{row['namespace']}/{row['name']}" for row in rows)

    def records(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """See Evidence."""
        first = self.records_at([pod.position]).get(pod.position)
        if first is None:
            yield from self._records_left(pod)
            return
        uid = pod_of(first.record)
        assert uid is not None
        encoded_uid = msgspec.json.encode(uid)
        for row in self._batches_of(pod):
            for stored in decode_records(row.first, row.body, encoded_uid):
                if stored.position >= pod.position and concerns(stored.record, uid):
                    yield stored
                    if stored.kind == "PodDeleted":
                        return

    def _records_left(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """The records of a pod whose first ones were dropped, after one or two that say how it
        stood then, as far as the log still knows."""
        left: list[StoredRecord] = []
        for row in self._batches_of(pod):
            of_pod = (s for s in decode_records(row.first, row.body) if is_about(s.record, pod.uid))
            left += of_pod
            if left and left[-1].kind == "PodDeleted":
                break
        state = next(iter(self._reader.rows(_STATE, uid=pod.uid)), None)
        at = min(([] if state is None else [state["since"]]) + [s.at for s in left[:1]], default=0)
        # One whose bind the log still has was not bound before it.
        binds = any(isinstance(each.record, PodBound) for each in left)
        is_bound = state is not None and state["state"] == "bound" and not binds
        node = state["node"] if state is not None and is_bound else ""
        known = Pod(uid=pod.uid, name=pod.name, namespace=pod.namespace, node_name=node)
        earlier: list[AnyRecord] = [PodAdded(pod=known)]
        if state is not None and state["state"] in set(map(str, Queue)) and not left:
            earlier.append(PodQueued(uid=pod.uid, queue=Queue(state["state"]), cause=""))
        for record in earlier:
            yield StoredRecord.of(LogEntry(pod.position, at, pod.position, record))
        yield from left

    def _batches_of(self, pod: LoggedPod) -> Iterator[Row[Any]]:
        """The batches with records about a pod from its first one on; each page is read in a
        transaction of its own."""
        begin = self._reader.batch_with(pod.position)
        with self._reader.connection(one_moment=False) as connection:
            while True:
                values = {"s": self._reader.number, "uid": pod.uid, "begin": begin}
                rows = connection.execute(_BATCHES_OF_POD, values).all()
                yield from rows
                if len(rows) < _PAGE:
                    return
                begin = rows[-1].first + 1

    def attempts(self, pod: LoggedPod) -> list[tuple[int, int]]:
        """See Evidence."""
        return [(row["seq"], row["attempt"]) for row in self._reader.rows(_ATTEMPTS, uid=pod.uid)]

    def records_at(self, positions: Iterable[int]) -> dict[int, StoredRecord]:
        """See Evidence."""
        rows = self._reader.rows(_AT, positions=sorted(set(positions)))
        return {
            row["position"]: StoredRecord(
                row["position"], row["at"], row["cause"], row["kind"], row["version"],
                row["body"].encode(),
            )
            for row in rows
        }  # fmt: skip

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """See Evidence."""
        keys = {uid_key(uid): uid for uid in uids}
        query = f"{_PODS} AND uid = ANY(CAST(:uids AS uuid[]))"
        rows = self._reader.rows(query, uids=list(keys)) if keys else []
        return {keys[str(row["uid"])]: f"{row['namespace']}/{row['name']}" for row in rows}

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """See Evidence. Leaves out pods that arrived with a node."""
        keys = {uid_key(uid): uid for uid in ends}
        if not keys:
            return {}
        rows = self._reader.rows(_HOMES, uids=list(keys), ends=list(ends.values()))
        return {keys[str(row["uid"])]: row["node"] for row in rows}

    def detail(self, position: int) -> Detail | None:
        """See Evidence."""
        return self._reader.detail(position)

    def samples(self, before: int) -> list[StoredRecord]:
        """See Evidence."""
        samples = [
            stored
            for row in self._reader.rows(_SAMPLES, before=before)
            for stored in decode_records(row["first"], row["body"])
            if stored.kind == "SamplesTaken" and stored.position < before
        ]
        return sorted(samples, key=lambda stored: -stored.position)

    def nodes(self, before: int) -> list[str]:
        """See Evidence."""
        return [row["name"] for row in self._reader.rows(_NODES, before=before)]

    def has_node(self, name: str) -> bool:
        """See Evidence."""
        query = "SELECT FROM eventsched_log.node WHERE stream = :s AND name = :name LIMIT 1"
        return bool(self._reader.rows(query, name=name))

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
        rows = self._reader.rows(
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
            for row in rows
        )
