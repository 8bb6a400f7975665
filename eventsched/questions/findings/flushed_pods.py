"""Pods that only the flush of the unschedulable queue brought to a node: perhaps a plugin's
queueing hint missed the change that made room. `eventsched queue --missed-wake-ups` finds that
change."""

from eventsched.output.time_format import iso
from eventsched.questions.findings.finding_answers import FlushedPodRow, FlushedPodsAnswer
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

LOOKED_AT = 20_000
"""Attempts at whose positions one page looks for flushes."""

_EDGE = """
SELECT min(w.seq) AS edge, count(*) AS looked FROM (
    SELECT d.seq FROM eventsched_log.decision d
    WHERE d.stream = :s AND d.seq < :high ORDER BY d.seq DESC LIMIT :most
) AS w
"""
_FLUSHED = """
SELECT m.seq AS flushed, m.at AS flushed_at, failed.seq AS failed, failed.at AS failed_at,
       placed.seq AS placed, placed.node, CAST(m.pod AS text) AS uid, p.namespace, p.name,
       count(*) OVER () AS total
FROM eventsched_log.queue_move m
JOIN eventsched_log.pod p ON p.stream = m.stream AND p.uid = m.pod
CROSS JOIN LATERAL (
    SELECT d.seq, d.at FROM eventsched_log.decision d
    WHERE d.stream = m.stream AND d.pod = m.pod AND d.seq < m.seq ORDER BY d.seq DESC LIMIT 1
) failed
CROSS JOIN LATERAL (
    SELECT d.seq, d.node, d.outcome FROM eventsched_log.decision d
    WHERE d.stream = m.stream AND d.pod = m.pod AND d.seq > m.seq ORDER BY d.seq LIMIT 1
) placed
WHERE m.stream = :s AND m.seq >= :low AND m.seq < :high AND m.cause = 'Flush'
  AND placed.seq < :end
  AND placed.outcome IN ('scheduled', 'waiting'){visible}
ORDER BY m.seq DESC LIMIT :limit
"""


def flushed_pods_page(
    stream: LoggedStream, sees: Visibility, before: int | None, limit: int, end: int | None = None
) -> FlushedPodsAnswer:
    """A page of such pods, the newest flush first, as far as the records before position ``end``
    say it. Raises UnavailableError."""
    head = stream.rows.head
    end = head if end is None else min(end, head)
    high = end if before is None else min(before, end)
    edge = stream.rows.one(_EDGE, high=high, most=LOOKED_AT)
    assert edge is not None
    if not edge["looked"]:
        return FlushedPodsAnswer(stream=stream.name, head=head, total=0, pods=[], next=None)
    visible, values = sees.condition("p.namespace")
    is_cut = edge["looked"] == LOOKED_AT
    rows = stream.rows.all(
        _FLUSHED.format(visible=visible), low=edge["edge"] if is_cut else 0, high=high,
        end=end, limit=limit + 1, **values,
    )  # fmt: skip
    more = edge["edge"] if is_cut else None
    if len(rows) > limit:
        rows = rows[:limit]
        more = rows[-1]["flushed"]
    found = [
        FlushedPodRow(
            namespace=row["namespace"], pod=row["name"], uid=row["uid"], failed=row["failed"],
            flushed=row["flushed"], flushed_at=iso(row["flushed_at"]), placed=row["placed"],
            node=row["node"] or "", waited_seconds=(row["flushed_at"] - row["failed_at"]) / 1e6,
        )
        for row in rows
    ]  # fmt: skip
    total = rows[0]["total"] if rows else 0
    return FlushedPodsAnswer(stream=stream.name, head=head, total=total, pods=found, next=more)
