"""Pages of the pods at a position: the filters, orders and fields of pod_rows.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.questions.answer_shapes import Pods
from eventsched.questions.overviews.group_keys import ReasonGroup, read_group, reason_group
from eventsched.questions.overviews.named_owners import read_owner
from eventsched.questions.overviews.pod_orders import LAST, order_of
from eventsched.questions.past.now_at import refusal_of
from eventsched.questions.past.past_pods import PastPods, add_messages, last_attempts
from eventsched.questions.pod_rows import (
    PENDING,
    PENDING_STATES,
    PodRowFilter,
    pod_rows_of,
)
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

_COLUMNS = {
    "namespace": "namespace", "name": "name", "state": "state",
    "node": "node", "profile": "scheduler",
}  # fmt: skip
"""Filter → the column that has to be equal to it."""


def past_pods_page(
    stream: LoggedStream,
    sees: Visibility,
    past: PastPods,
    wanted: PodRowFilter,
    sort: str,
    cursor: str | None,
    limit: int,
) -> Pods:
    """A page of the pods at a position. Raises InputError and UnavailableError."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    if wanted.ever:
        raise InputError("ever", "is about the present", "leave it out, or at")
    passes, order = filter_of(stream, sees, wanted, past), order_of(sort)
    key, is_descending = order.key, order.is_descending
    found = sorted(filter(passes, past.rows), key=key, reverse=is_descending)
    total = len(found)
    if cursor is not None:
        place = order.place(cursor)
        found = [row for row in found if (key(row) < place if is_descending else key(row) > place)]
    shown, more = [dict(row) for row in found[:limit]], None
    if len(found) > limit:
        more = order.cursor(key(found[limit - 1]))
    _complete(stream, shown, past.position)
    rows = pod_rows_of(stream, shown, past.now)
    head = stream.rows.head
    return Pods(stream=stream.name, head=head, pods=rows, next=more, total=total)


def filter_of(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, past: PastPods
) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a row is to be shown. Raises InputError and UnavailableError."""
    asked = {
        column: getattr(wanted, name)
        for name, column in _COLUMNS.items()
        if getattr(wanted, name) is not None
    }
    is_pending = wanted.state == PENDING
    if is_pending:
        del asked["state"]
    plugin, reason = wanted.plugin, wanted.reason
    is_refused = plugin is not None or reason is not None
    numbers = frozenset(stream.rows.numbers(plugin, reason)) if is_refused else frozenset()
    in_group, is_named = _group_filter(stream, wanted.group), _name_filter(wanted.name_contains)
    is_tried = _attempt_filter(stream, wanted, past)
    owner = None if wanted.owner is None else read_owner(wanted.owner)

    def passes(row: Mapping[str, Any]) -> bool:
        if not sees.sees(row["namespace"]):
            return False
        if any(row[column] != value for column, value in asked.items()):
            return False
        if owner is not None and not owner.has(row["owner_kind"], row["owner_name"]):
            return False
        if is_pending and row["state"] not in PENDING_STATES:
            return False
        if not (in_group(row) and is_named(row) and is_tried(row)):
            return False
        if not is_refused or not numbers.isdisjoint(row["numbers"]):
            return True
        if row["verdict"] not in (None, STORED_EXCLUDED) or row["message"] is None:
            return False
        named, why = refusal_of(stream, row)
        has_reason = reason is None or reason.lower() in (why or "").lower()
        return plugin in (None, named) and has_reason

    return passes


def _name_filter(part: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a row's name has this part; with a /, its namespace/name."""
    if part is None:
        return lambda row: True
    part = part.lower()
    if "/" in part:
        return lambda row: part in f"{row['namespace']}/{row['name']}".lower()
    return lambda row: part in row["name"].lower()


def _group_filter(stream: LoggedStream, group: str | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a row is of a group."""
    if group is None:
        return lambda row: True
    wanted = read_group(group)
    if isinstance(wanted, ReasonGroup):
        return lambda row: reason_group(*refusal_of(stream, row)) == wanted
    columns = ("namespace", "owner_kind", "owner_name")
    return lambda row: tuple(row[column] or "" for column in columns) == wanted


def _attempt_filter(
    stream: LoggedStream, wanted: PodRowFilter, past: PastPods
) -> Callable[[Mapping[str, Any]], bool]:
    """Whether the last attempt of a row's pod is in the range. Rows of pods with a node do not have
    it yet."""
    if wanted.low is None and wanted.high is None:
        return lambda row: True
    low = 0 if wanted.low is None else wanted.low
    high = LAST if wanted.high is None else wanted.high
    placed = [row["uid"] for row in past.rows if row["decided_seq"] is None]
    decided = {found["uid"]: found["seq"] for found in last_attempts(stream, placed, past.position)}

    def is_tried(row: Mapping[str, Any]) -> bool:
        seq = row["decided_seq"]
        seq = decided.get(row["uid"]) if seq is None else seq
        return seq is not None and low <= seq < high

    return is_tried


def _complete(stream: LoggedStream, rows: Sequence[dict[str, Any]], end: int) -> None:
    """Adds what only shown rows need: the last attempts of pods with a node, and messages."""
    by_uid = {row["uid"]: row for row in rows if row["decided_seq"] is None}
    for found in last_attempts(stream, list(by_uid), end):
        by_uid[found["uid"]]["decided_seq"] = found["seq"]
    add_messages(stream, [row for row in rows if row["verdict"] is not None])
