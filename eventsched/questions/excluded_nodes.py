"""The nodes that PreFilter left out, in questions: domain/records/exclusions.py says what is
named for them."""

from collections.abc import Iterable, Mapping
from typing import Any

from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.records.exclusions import EXCLUSION_CODE, Exclusion, exclusion, exclusion_of
from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.questions.rows import Refusal, Rows
from eventsched.questions.streams import LoggedStream

IS_EXCLUDED = f"n.verdict = {STORED_EXCLUDED}"
"""Whether a row n of pod_now has no other verdict, as SQL. With another one, that is named."""
_PLUGIN = "eventsched_log.excluding_plugin(n.plugin, n.message)"
_REASON = "eventsched_log.excluding_reason(n.plugin, n.message)"
PLUGIN_TO_NAME = f"CASE WHEN n.verdict IS NULL THEN n.plugin WHEN {IS_EXCLUDED} THEN {_PLUGIN} END"
REASON_TO_NAME = f"CASE WHEN n.verdict IS NULL THEN n.message WHEN {IS_EXCLUDED} THEN {_REASON} END"
"""The plugin and the reason of the attempt; null if those of a verdict are named."""
FAILED = f"('{Outcome.UNSCHEDULABLE}', '{Outcome.ERROR}')"
"""The outcomes of attempts that found no node, as SQL."""
# A record is found in the body of its batch: each is read once, however many are sought in it.
EXCLUDING = f"""
excluding AS MATERIALIZED (
    SELECT r.seq FROM eventsched_log.refusal r
    CROSS JOIN LATERAL (
        SELECT outcome FROM eventsched_log.decision WHERE stream = :s AND seq = r.seq LIMIT 1
    ) d
    WHERE r.stream = :s AND r.seq >= :low AND r.seq < :high AND r.number = {STORED_EXCLUDED}
      AND d.outcome IN {FAILED}
), excluded AS MATERIALIZED (
    SELECT b.first + e.n - 1 AS seq, e.item -> 3 AS record
    FROM (
        SELECT f.first, array_agg(x.seq) AS seqs FROM excluding x
        CROSS JOIN LATERAL (
            SELECT b.first FROM eventsched_log.batch b
            WHERE b.stream = :s AND b.first <= x.seq ORDER BY b.first DESC LIMIT 1
        ) f GROUP BY f.first
    ) g
    JOIN eventsched_log.batch b ON b.stream = :s AND b.first = g.first
    CROSS JOIN LATERAL json_array_elements(b.body) WITH ORDINALITY AS e (item, n)
    WHERE b.first + e.n - 1 = ANY (g.seqs)
)
"""
"""A common table ``excluded``: the records of the attempts from position ``:low`` to before
``:high`` that found no node and left nodes out, by ``seq``."""
_NAMED = f"""
WITH {EXCLUDING}
SELECT x.seq, x.record ->> 'plugin' AS plugin, x.record ->> 'message' AS message FROM excluded x
"""


def excluded_refusal(plugin: str | None, message: str | None) -> Refusal:
    """What to name of a failed attempt that left all nodes out, with its plugin and message."""
    return _refusal(exclusion(plugin, message))


def refusal_to_name(rows: Rows, number: int, row: Any) -> Refusal:
    """What the verdict ``number`` means that is named first of a row with the columns of pod_now.
    Raises UnavailableError."""
    if number == STORED_EXCLUDED:
        return excluded_refusal(row["plugin"], row["message"])
    return rows.refusals([number])[number]


def refusals_in(rows: Rows, record: PodDecided) -> Mapping[int, Refusal]:
    """What the numbers of an attempt mean. Raises UnavailableError."""
    meanings = rows.refusals(number for number, _ in record.counts)
    return {**meanings, STORED_EXCLUDED: _refusal(exclusion_of(record))}


def refusals_at(stream: LoggedStream, seqs: Iterable[int]) -> dict[int, Refusal]:
    """What to name of failed attempts that left all nodes out, by position: from their records.
    Raises UnavailableError."""
    records = _records(stream, seqs).items()
    return {seq: excluded_refusal(record.plugin, record.message) for seq, record in records}


def exclusions_at(stream: LoggedStream, seqs: Iterable[int]) -> dict[int, Refusal]:
    """What to name for the nodes that attempts left out, beside their other verdicts, by position.
    Raises UnavailableError."""
    return {seq: _refusal(exclusion_of(each)) for seq, each in _records(stream, seqs).items()}


def _records(stream: LoggedStream, seqs: Iterable[int]) -> dict[int, PodDecided]:
    found = {seq: stored.record for seq, stored in stream.evidence().records_at(seqs).items()}
    return {seq: record for seq, record in found.items() if isinstance(record, PodDecided)}


def attempts_that_name(
    stream: LoggedStream, plugin: str | None, reason: str | None, low: int, high: int
) -> list[int]:
    """The positions, from ``low`` to before ``high``, of attempts without a node that left nodes
    out because of this plugin, with a text in the reason (any case), or with both. Raises
    UnavailableError."""
    found = []
    for row in stream.rows.all(_NAMED, low=low, high=high):
        named = exclusion(row["plugin"], row["message"])
        has_reason = reason is None or reason.lower() in named.reason.lower()
        if plugin in (None, named.plugin) and has_reason:
            found.append(row["seq"])
    return found


def _refusal(named: Exclusion) -> Refusal:
    return Refusal(named.plugin, EXCLUSION_CODE, named.reason)
