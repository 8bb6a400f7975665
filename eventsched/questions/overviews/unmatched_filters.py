"""Which filters of an answer without pods match nothing by themselves, and names like them."""

from collections.abc import Iterable, Mapping
from typing import Any

from eventsched.domain.near_names import nearest
from eventsched.questions.answer_shapes import UnmatchedFilter
from eventsched.questions.overviews.named_owners import names_of_owner, read_owner
from eventsched.questions.past.now_at import refusal_of
from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.pod_rows import PodRowFilter
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

_OTHERS = 3
"""Names that are offered if none is like the one of a filter."""
_COLUMNS = {"namespace": "namespace", "node": "node", "profile": "scheduler"}
"""Filter → the column of pod_now that has its names."""
_NAMES = """
SELECT DISTINCT {columns} FROM eventsched_log.{table} n WHERE n.stream = :s{visible}
"""


def unmatched_filter(name: str, value: str, names: Iterable[str | None]) -> UnmatchedFilter:
    """A filter whose value none of the names is."""
    known = {name for name in names if name}
    near = nearest(value, known)
    others = [] if near else sorted(known)[:_OTHERS]
    return UnmatchedFilter(filter=name, value=value, near=near, others=others)


def unmatched(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, past: PastPods | None
) -> list[UnmatchedFilter]:
    """The filters that no pod passes that may be seen, of the present or of the past. Those of a
    plugin and a node are not looked up for pods that are gone, and of a plugin only for clients
    that see all. Raises UnavailableError."""
    found = []
    for name, column in _COLUMNS.items():
        value = getattr(wanted, name)
        if value is None or (wanted.ever and name != "namespace"):
            continue
        rows = _rows(stream, sees, past, (column,), ever=wanted.ever)
        names = {row[column] for row in rows}
        if value not in names:
            found.append(unmatched_filter(name, value, names))
    if wanted.owner is not None and not wanted.ever:
        rows = _rows(stream, sees, past, ("owner_kind", "owner_name"))
        owners = {(row["owner_kind"], row["owner_name"]) for row in rows}
        asked = read_owner(wanted.owner)
        if not any(asked.has(*owner) for owner in owners):
            has_kind = bool(asked.kind)
            names = {n for owner in owners for n in names_of_owner(*owner, with_kind=has_kind)}
            found.append(unmatched_filter("owner", wanted.owner, names))
    if wanted.plugin is not None and (sees.is_whole or past is not None):
        names = _plugins(stream, sees, past)
        if wanted.plugin not in names:
            found.append(unmatched_filter("plugin", wanted.plugin, names))
    return found


def _rows(
    stream: LoggedStream,
    sees: Visibility,
    past: PastPods | None,
    columns: tuple[str, ...],
    *,
    ever: bool = False,
) -> Iterable[Mapping[str, Any]]:
    """The values that pods have in some columns of pod_now."""
    if past is not None:
        return (row for row in past.rows if sees.sees(row["namespace"]))
    visible, values = sees.condition("n.namespace")
    table = "pod" if ever else "pod_now"
    asked = _NAMES.format(
        columns=", ".join(f"n.{c}" for c in columns), table=table, visible=visible
    )
    return [dict(row) for row in stream.rows.all(asked, **values)]


def _plugins(stream: LoggedStream, sees: Visibility, past: PastPods | None) -> set[str]:
    """The plugins that refused pods: in the present all that ever did."""
    if past is None:
        rows = _rows(stream, sees, None, ("plugin",))
        meanings = stream.rows.refusals(stream.rows.numbers(None, None))
        named = {meaning.plugin for meaning in meanings.values()}
        return {name for name in (*named, *(row["plugin"] for row in rows)) if name}
    rows = list(_rows(stream, sees, past, ()))
    numbers = {number for row in rows for number in row["numbers"]}
    meanings = stream.rows.refusals(numbers)
    named = {meanings[number].plugin for number in numbers}
    return {name for name in (*named, *(refusal_of(stream, row)[0] for row in rows)) if name}
