"""Which plugins refuse most: the refusals of the newest attempts, or of others, by plugin and
reason."""

from typing import Any, NamedTuple

import msgspec

from eventsched.domain.records.verdicts import STORED_EXCLUDED, STORED_NOT_EVALUATED
from eventsched.history.dominant_refusal import rank_sql
from eventsched.output.queues.group_keys import key_of_refusal
from eventsched.output.time_format import iso
from eventsched.questions.answer_shapes import UnmatchedFilter
from eventsched.questions.excluded_nodes import EXCLUDING, FAILED
from eventsched.questions.findings.finding_answers import (
    PluginRefusals,
    RefusalReason,
    RefusalsAnswer,
)
from eventsched.questions.overviews.unmatched_filters import unmatched_filter
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
_ATTEMPTS = f"""
SELECT count(*) AS attempts, min(d.at) AS since, max(d.at) AS until,
       count(*) FILTER (WHERE d.outcome IN {FAILED}) AS failed
FROM eventsched_log.decision d {{join}}
WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high{{conditions}}
"""
# The refusals of these attempts are read once and counted twice: an attempt in which a plugin
# refused for several reasons counts once for the plugin, and once for a reason that it gave with
# two codes. A row without numbers is a plugin's. A reason is an array as in table verdict. LIMIT 1
# has decisions read by their key: of the newest rows the planner may expect next to none, and then
# compares each refusal with each decision.
_REFUSED = f"""
WITH {EXCLUDING}, exclusions AS MATERIALIZED (
    SELECT x.seq, eventsched_log.exclusion(x.record) AS named FROM excluded x
), refused AS MATERIALIZED (
    SELECT r.seq, r.number, coalesce(v.plugin, x.named[1], '') AS plugin,
           coalesce(v.reasons, x.named[2:2], ARRAY[]::text[]) AS reasons, r.nodes,
           d.outcome IN {FAILED} AS failed,
           d.outcome IN {FAILED} AND row_number() OVER (
               PARTITION BY r.seq
               ORDER BY {rank_sql("v.plugin", "v.code")}, r.nodes DESC, r.number) = 1 AS is_first
    FROM eventsched_log.refusal r
    CROSS JOIN LATERAL (
        SELECT * FROM eventsched_log.decision WHERE stream = :s AND seq = r.seq LIMIT 1
    ) d
    LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number
    LEFT JOIN exclusions x ON x.seq = r.seq AND r.number = {STORED_EXCLUDED} {{join}}
    WHERE r.stream = :s AND r.seq >= :low AND r.seq < :high AND r.number <> :skipped{{conditions}}
), by_reason AS (
    SELECT plugin, reasons, seq, failed, bool_or(is_first) AS is_first, sum(nodes) AS nodes
    FROM refused GROUP BY plugin, reasons, seq, failed
)
SELECT a.plugin, n.numbers, n.reasons, count(*) AS attempts,
       count(*) FILTER (WHERE a.failed) AS failed, count(*) FILTER (WHERE a.is_first) AS first,
       CAST(sum(a.nodes) AS bigint) AS nodes, max(a.seq) AS newest
FROM by_reason a
JOIN (SELECT plugin, reasons, array_agg(DISTINCT number) AS numbers FROM refused GROUP BY 1, 2) n
  ON n.plugin = a.plugin AND n.reasons = a.reasons
GROUP BY a.plugin, n.numbers, n.reasons
UNION ALL
SELECT a.plugin, NULL, NULL, count(*), count(*) FILTER (WHERE a.failed),
       count(*) FILTER (WHERE a.is_first), CAST(sum(a.nodes) AS bigint), max(a.seq)
FROM (SELECT plugin, seq, failed, bool_or(is_first) AS is_first, sum(nodes) AS nodes
      FROM refused GROUP BY plugin, seq, failed) a
GROUP BY a.plugin
"""
_NAMES = {
    "namespace": """
SELECT DISTINCT p.namespace AS name FROM eventsched_log.decision d {join}
WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high{visible}
""",
    "profile": """
SELECT DISTINCT d.profile AS name FROM eventsched_log.decision d {join}
WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high{visible}
""",
}
"""Filter → the names that it could have, of these attempts."""
_JOIN = "JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod"


class RefusalFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Whose attempts: of pods of a namespace, by a schedulerName; at positions from ``low`` to
    before ``high``."""

    namespace: str | None = None
    profile: str | None = None
    low: int = 0
    high: int | None = None


class LookedAtAttempts(NamedTuple):
    """Positions of the first and the last attempt that is looked at. ``is_cut``: there may be
    attempts before these."""

    first: int
    last: int
    is_cut: bool


class AttemptConditions(NamedTuple):
    """Conditions on rows d of table decision, and the join that they need, as SQL."""

    text: str
    join: str


def refusal_counts(stream: LoggedStream, sees: Visibility, wanted: RefusalFilter) -> RefusalsAnswer:
    """The refusals of the newest LOOKED_AT attempts of a range. Raises UnavailableError and
    NotVisibleError."""
    head = stream.rows.head
    place = looked_at(stream, sees, wanted)
    if place is None:
        high = head if wanted.high is None else min(wanted.high, head)
        return RefusalsAnswer(
            stream=stream.name, head=head, begin=wanted.low, end=max(wanted.low, high), since=None,
            until=None, attempts=0, failed=0, plugins=[], unmatched=[], next=None,
        )  # fmt: skip
    conditions, values = attempt_conditions(sees, wanted)
    words = {"conditions": conditions.text, "join": conditions.join}
    values |= {"low": place.first, "high": place.last + 1}
    attempts = stream.rows.one(_ATTEMPTS.format(**words), **values)
    assert attempts is not None
    rows = stream.rows.all(_REFUSED.format(**words), skipped=STORED_NOT_EVALUATED, **values)
    return RefusalsAnswer(
        stream=stream.name,
        head=head,
        begin=place.first,
        end=place.last + 1,
        since=None if attempts["since"] is None else iso(attempts["since"]),
        until=None if attempts["until"] is None else iso(attempts["until"]),
        attempts=attempts["attempts"],
        failed=attempts["failed"],
        plugins=_plugins(stream, rows),
        unmatched=[] if attempts["attempts"] else _unmatched(stream, sees, wanted, values),
        next=place.first if place.is_cut else None,
    )


def looked_at(
    stream: LoggedStream, sees: Visibility, wanted: RefusalFilter
) -> LookedAtAttempts | None:
    """The newest LOOKED_AT attempts of a range; None without one. Raises UnavailableError, and
    NotVisibleError for the namespace."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    head = stream.rows.head
    high = head if wanted.high is None else min(wanted.high, head)
    row = stream.rows.one(_LOOKED_AT, low=wanted.low, high=high, most=LOOKED_AT)
    assert row is not None
    if not row["looked"]:
        return None
    return LookedAtAttempts(row["first"], row["last"], row["looked"] == LOOKED_AT)


def attempt_conditions(
    sees: Visibility, wanted: RefusalFilter
) -> tuple[AttemptConditions, dict[str, Any]]:
    """Which attempts of a range are meant, with the values of the conditions."""
    visible, seen = sees.condition("p.namespace")
    text, values = visible, dict[str, Any](seen)
    for column, name in (("p.namespace", "namespace"), ("d.profile", "profile")):
        value = getattr(wanted, name)
        if value is not None:
            text += f" AND {column} = :{name}"
            values[name] = value
    return AttemptConditions(text, _JOIN if "p." in text else ""), values


def _unmatched(
    stream: LoggedStream, sees: Visibility, wanted: RefusalFilter, values: dict[str, Any]
) -> list[UnmatchedFilter]:
    """The filters that alone match none of the attempts."""
    visible, _ = sees.condition("p.namespace")
    found = []
    for name, query in _NAMES.items():
        value = getattr(wanted, name)
        if value is None:
            continue
        join = _JOIN if visible or "p." in query else ""
        rows = stream.rows.all(query.format(join=join, visible=visible), **values)
        names = [row["name"] for row in rows]
        if value not in names:
            found.append(unmatched_filter(name, value, names))
    return found


def _plugins(stream: LoggedStream, rows: list[Any]) -> list[PluginRefusals]:
    """Rows by plugin and numbers, and by plugin alone, as one list."""
    counts = ("attempts", "failed", "first", "nodes")
    meanings = stream.rows.refusals(number for row in rows for number in row["numbers"] or ())
    reasons: dict[str, list[RefusalReason]] = {}
    for row in rows:
        if row["numbers"]:
            same = [meanings[number] for number in row["numbers"]]
            reason = ", ".join(row["reasons"]) or same[0].reason
            reasons.setdefault(row["plugin"], []).append(
                RefusalReason(
                    codes=sorted({each.code for each in same}),
                    reason=reason,
                    group=key_of_refusal(row["plugin"], reason),
                    newest=row["newest"], **{name: row[name] for name in counts},
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
        if not row["numbers"]
    ]
    return sorted(
        found, key=lambda each: (-each.first, -each.nodes, -each.attempts, each.plugin or "")
    )
