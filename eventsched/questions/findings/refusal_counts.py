"""Which plugins refuse most: the refusals of the newest attempts, or of others, by plugin and
reason."""

from typing import Any

import msgspec

from eventsched.cli.output.time_format import iso
from eventsched.domain.records.verdicts import STORED_NOT_EVALUATED
from eventsched.history.dominant_refusal import rank_sql
from eventsched.questions.findings.finding_answers import (
    PluginRefusals,
    RefusalReason,
    RefusalsAnswer,
)
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

LOOKED_AT = 5_000
"""Attempts whose refusals are counted for one answer."""

_LOOKED_AT = """
SELECT min(w.seq) AS first, max(w.seq) AS last, count(*) AS looked FROM (
    SELECT d.seq FROM eventsched_log.decision d
    WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high ORDER BY d.seq DESC LIMIT :most
) AS w
"""
_ATTEMPTS = """
SELECT count(*) AS attempts, min(d.at) AS since, max(d.at) AS until,
       count(*) FILTER (WHERE d.outcome IN ('unschedulable', 'error')) AS failed
FROM eventsched_log.decision d {join}
WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high{conditions}
"""
# The refusals of these attempts are read once and counted twice: an attempt in which a plugin
# refused for several reasons counts once for the plugin. A row without a number is a plugin's.
_REFUSED = f"""
WITH refused AS MATERIALIZED (
    SELECT r.seq, r.number, coalesce(v.plugin, '') AS plugin, r.nodes,
           d.outcome IN ('unschedulable', 'error') AS failed,
           d.outcome IN ('unschedulable', 'error') AND row_number() OVER (
               PARTITION BY r.seq
               ORDER BY {rank_sql("v.plugin", "v.code")}, r.nodes DESC, r.number) = 1 AS is_first
    FROM eventsched_log.refusal r
    JOIN eventsched_log.decision d ON d.stream = r.stream AND d.seq = r.seq
    LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number {{join}}
    WHERE r.stream = :s AND r.seq >= :low AND r.seq < :high AND r.number <> :skipped
      AND d.stream = :s AND d.seq >= :low AND d.seq < :high{{conditions}}
)
SELECT plugin, number, count(*) AS attempts, count(*) FILTER (WHERE failed) AS failed,
       count(*) FILTER (WHERE is_first) AS first, CAST(sum(nodes) AS bigint) AS nodes,
       max(seq) AS newest
FROM refused GROUP BY plugin, number
UNION ALL
SELECT a.plugin, NULL, count(*), count(*) FILTER (WHERE a.failed),
       count(*) FILTER (WHERE a.is_first), CAST(sum(a.nodes) AS bigint), max(a.seq)
FROM (SELECT plugin, seq, failed, bool_or(is_first) AS is_first, sum(nodes) AS nodes
      FROM refused GROUP BY plugin, seq, failed) a
GROUP BY a.plugin
"""
_JOIN = "JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod"


class RefusalFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Whose attempts: of pods of a namespace, by a schedulerName; at positions from ``low`` to
    before ``high``."""

    namespace: str | None = None
    profile: str | None = None
    low: int = 0
    high: int | None = None


def refusal_counts(stream: LoggedStream, sees: Visibility, wanted: RefusalFilter) -> RefusalsAnswer:
    """The refusals of the newest LOOKED_AT attempts of a range. Raises UnavailableError and
    NotVisibleError."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    head = stream.rows.head
    high = head if wanted.high is None else min(wanted.high, head)
    looked = stream.rows.one(_LOOKED_AT, low=wanted.low, high=high, most=LOOKED_AT)
    assert looked is not None
    if not looked["looked"]:
        return RefusalsAnswer(
            stream=stream.name, head=head, begin=wanted.low, end=max(wanted.low, high), since=None,
            until=None, attempts=0, failed=0, plugins=[], next=None,
        )  # fmt: skip
    conditions, values = _conditions(sees, wanted)
    words = {"conditions": conditions, "join": _JOIN if "p." in conditions else ""}
    values |= {"low": looked["first"], "high": looked["last"] + 1}
    attempts = stream.rows.one(_ATTEMPTS.format(**words), **values)
    assert attempts is not None
    rows = stream.rows.all(_REFUSED.format(**words), skipped=STORED_NOT_EVALUATED, **values)
    is_cut = looked["looked"] == LOOKED_AT
    return RefusalsAnswer(
        stream=stream.name,
        head=head,
        begin=looked["first"],
        end=looked["last"] + 1,
        since=None if attempts["since"] is None else iso(attempts["since"]),
        until=None if attempts["until"] is None else iso(attempts["until"]),
        attempts=attempts["attempts"],
        failed=attempts["failed"],
        plugins=_plugins(stream, rows),
        next=looked["first"] if is_cut else None,
    )


def _conditions(sees: Visibility, wanted: RefusalFilter) -> tuple[str, dict[str, Any]]:
    visible, seen = sees.condition("p.namespace")
    text, values = visible, dict[str, Any](seen)
    for column, name in (("p.namespace", "namespace"), ("d.profile", "profile")):
        value = getattr(wanted, name)
        if value is not None:
            text += f" AND {column} = :{name}"
            values[name] = value
    return text, values


def _plugins(stream: LoggedStream, rows: list[Any]) -> list[PluginRefusals]:
    """Rows by plugin and number, and by plugin alone, as one list."""
    counts = ("attempts", "failed", "first", "nodes")
    meanings = stream.rows.refusals(row["number"] for row in rows if row["number"] is not None)
    reasons: dict[str, list[RefusalReason]] = {}
    for row in rows:
        if row["number"] is not None:
            meaning = meanings[row["number"]]
            reasons.setdefault(row["plugin"], []).append(
                RefusalReason(
                    code=meaning.code, reason=meaning.reason, newest=row["newest"],
                    **{name: row[name] for name in counts},
                )
            )  # fmt: skip
    found = [
        PluginRefusals(
            plugin=row["plugin"] or None,
            reasons=sorted(
                reasons[row["plugin"]], key=lambda each: (-each.first, -each.nodes, each.reason)
            ),
            **{name: row[name] for name in counts},
        )
        for row in rows
        if row["number"] is None
    ]
    return sorted(
        found, key=lambda each: (-each.first, -each.nodes, -each.attempts, each.plugin or "")
    )
