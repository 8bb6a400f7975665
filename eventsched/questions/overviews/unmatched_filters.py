"""Which filters of an answer without pods match nothing by themselves, and names like them."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from eventsched.domain.near_names import nearest
from eventsched.history.explain.workloads.workload import deployment_of
from eventsched.questions.answer_shapes import UnmatchedFilter
from eventsched.questions.excluded_nodes import (
    IS_EXCLUDED,
    PLUGIN_TO_NAME,
    REASON_TO_NAME,
)
from eventsched.questions.past.now_at import refusals_of
from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.pods.named_owners import names_of_owner, read_owner
from eventsched.questions.pods.pod_rows import PodRowFilter
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

_OTHERS = 3
"""Names that are offered."""
_COLUMNS = {"namespace": "namespace", "node": "node", "profile": "scheduler"}
"""Filter → the column of pod_now that has its names."""
_MOST_NAMES = 50_000
"""Names of pods that are looked at, at most."""
_SHORTEST_WORD = 4
"""Characters of the words of reasons that are offered."""
_WORD = re.compile(rf"[\w.-]{{{_SHORTEST_WORD},}}")
_WORD_RATIO = 0.6
"""The least likeness of such a word: short ones are soon half alike."""
_NAMES = """
SELECT DISTINCT {columns} FROM eventsched_log.{table} n WHERE n.stream = :s{visible}{limit}
"""
_REFUSED = f"""
SELECT DISTINCT {PLUGIN_TO_NAME} AS plugin, {REASON_TO_NAME} AS reason
FROM eventsched_log.pod_now n
WHERE n.stream = :s AND n.plugin IS NOT NULL AND (n.verdict IS NULL OR {IS_EXCLUDED})
LIMIT {_MOST_NAMES}
"""
"""What pods were refused for without a verdict on a node."""
_HAS_NAME = """
SELECT FROM eventsched_log.{table} n
WHERE n.stream = :s{visible} AND strpos(lower({column}), lower(:part)) > 0 LIMIT 1
"""


def unmatched_filter(name: str, value: str, names: Iterable[str | None]) -> UnmatchedFilter:
    """A filter whose value none of the names is. What it is the begin of was meant rather than what
    only looks like it."""
    known = {name for name in names if name}
    lower = value.lower()
    near = nearest(value, known)
    if lower not in (name.lower() for name in near):
        begun = sorted(name for name in known if name.lower().startswith(lower))
        near = list(dict.fromkeys((*begun, *near)))[:_OTHERS]
    others = [] if near else sorted(known)[:_OTHERS]
    return UnmatchedFilter(filter=name, value=value, near=near, others=others)


def unmatched(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, past: PastPods | None
) -> list[UnmatchedFilter]:
    """The filters that no pod passes that may be seen, of the present or of the past. Those of a
    plugin, a reason and a node are not looked up for pods that are gone, and of a plugin and a
    reason only for clients that see all. Raises UnavailableError."""
    found = _unmatched_name(stream, sees, wanted, past)
    for name, column in _COLUMNS.items():
        value = getattr(wanted, name)
        if value is None or (wanted.ever and name != "namespace"):
            continue
        rows = _rows(stream, sees, past, (column,), ever=wanted.ever)
        names = {row[column] for row in rows}
        if value not in names:
            found.append(unmatched_filter(name, value, names))
    if wanted.owner is not None and not wanted.ever:
        rows = list(_rows(stream, sees, past, ("namespace", "owner_kind", "owner_name")))
        within = [row for row in rows if row["namespace"] == wanted.namespace]
        owners = {(row["owner_kind"], row["owner_name"]) for row in within or rows}
        asked = read_owner(wanted.owner)
        if not any(asked.has(*owner) for owner in owners):
            has_kind = bool(asked.kind)
            names = {n for owner in owners for n in names_of_owner(*owner, with_kind=has_kind)}
            found.append(unmatched_filter("owner", wanted.owner, names))
    if sees.is_whole or past is not None:
        found += _unmatched_refusal(stream, sees, wanted, past)
    return found


def _unmatched_name(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, past: PastPods | None
) -> list[UnmatchedFilter]:
    """The filter of a part of the name, if no pod's name has it. What is offered are the names of
    controllers, which those of their pods begin with, and of pods without one."""
    part = wanted.name_contains
    if part is None:
        return []
    with_namespace = "/" in part
    columns = ("namespace", "name") if wanted.ever else ("namespace", "name", "owner_name")
    if past is None:
        visible, values = sees.condition("n.namespace")
        column = "n.namespace || '/' || n.name" if with_namespace else "n.name"
        table = "pod" if wanted.ever else "pod_now"
        query = _HAS_NAME.format(table=table, column=column, visible=visible)
        if stream.rows.one(query, part=part, **values) is not None:
            return []
    rows = list(_rows(stream, sees, past, columns, ever=wanted.ever, most=_MOST_NAMES))
    full = (f"{row['namespace']}/{row['name']}" if with_namespace else row["name"] for row in rows)
    if past is not None and any(part.lower() in name.lower() for name in full):
        return []
    names = set()
    for row in rows:
        own = {} if wanted.ever else {row["owner_name"], deployment_of(row["owner_name"] or "")}
        for name in {name for name in own if name} or {row["name"]}:
            names.add(f"{row['namespace']}/{name}" if with_namespace else name)
    return [unmatched_filter("name_contains", part, names)]


def _unmatched_refusal(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, past: PastPods | None
) -> list[UnmatchedFilter]:
    """The filters of a plugin and of a reason, if no refusal has it."""
    if wanted.ever or (wanted.plugin is None and wanted.reason is None):
        return []
    found, refusals = [], _refusals(stream, sees, past)
    plugins = {plugin for plugin, _ in refusals if plugin}
    if wanted.plugin is not None and wanted.plugin not in plugins:
        found.append(unmatched_filter("plugin", wanted.plugin, plugins))
    if (reason := wanted.reason) is not None:
        reasons = {reason for _, reason in refusals if reason}
        if not any(reason.lower() in known.lower() for known in reasons):
            found.append(_unmatched_reason(reason, reasons))
    return found


def _unmatched_reason(reason: str, reasons: set[str]) -> UnmatchedFilter:
    """A text that no reason has, with the reasons that are like it, or else their words."""
    near = nearest(reason, reasons)
    words = {word for known in reasons for word in _WORD.findall(known)}
    near = near or nearest(reason, words, _WORD_RATIO)
    others = [] if near else sorted(reasons)[:_OTHERS]
    return UnmatchedFilter(filter="reason", value=reason, near=near, others=others)


def _rows(
    stream: LoggedStream,
    sees: Visibility,
    past: PastPods | None,
    columns: tuple[str, ...],
    *,
    ever: bool = False,
    most: int = 0,
) -> Iterable[Mapping[str, Any]]:
    """The values that pods have in some columns of pod_now; ``most`` of them, or 0 for all."""
    if past is not None:
        return past.visible(sees)
    visible, values = sees.condition("n.namespace")
    table = "pod" if ever else "pod_now"
    asked = _NAMES.format(
        columns=", ".join(f"n.{c}" for c in columns), table=table, visible=visible,
        limit=f" LIMIT {most}" if most else "",
    )  # fmt: skip
    return [dict(row) for row in stream.rows.all(asked, **values)]


def _refusals(
    stream: LoggedStream, sees: Visibility, past: PastPods | None
) -> set[tuple[str | None, str | None]]:
    """The plugins that refused pods, with their reasons: in the present all that ever did."""
    if past is None:
        known = stream.rows.refusals(stream.rows.numbers(None, None))
        named = {(meaning.plugin, meaning.reason) for meaning in known.values()}
        return named | {(row["plugin"], row["reason"]) for row in stream.rows.all(_REFUSED)}
    rows = past.visible(sees)
    past.add_attempts(rows)
    numbers = {number for row in rows for number in row["numbers"]}
    meanings = stream.rows.refusals(numbers)
    named = {(meanings[number].plugin, meanings[number].reason) for number in numbers}
    return named | set(refusals_of(stream, rows))
