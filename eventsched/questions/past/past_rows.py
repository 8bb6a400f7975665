"""Pages of the pods at a position: the filters, orders and fields of pod_rows.py."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.output.queues.group_keys import (
    OwnerGroup,
    ReasonGroup,
    read_group,
    reason_group,
)
from eventsched.questions.answer_shapes import Pods
from eventsched.questions.past.last_attempts import last_attempts
from eventsched.questions.past.now_at import refusal_of, refusals_of
from eventsched.questions.past.past_pod import PastPod
from eventsched.questions.past.past_pods import PastPods, add_messages
from eventsched.questions.past.positions import record_time
from eventsched.questions.pods.named_owners import read_owner
from eventsched.questions.pods.pod_orders import LAST, PodKey, PodOrder, order_of
from eventsched.questions.pods.pod_rows import (
    PENDING,
    PENDING_STATES,
    PodRowFilter,
    pod_rows_of,
)
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility
from eventsched.runtime import gc_tuning

_COLUMNS = {
    "namespace": "namespace", "name": "name", "state": "state",
    "node": "node", "profile": "scheduler",
}  # fmt: skip
"""Filter → the column that has to be equal to it."""
_Key = Callable[[PastPod], PodKey]


@gc_tuning.paused()
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
    order = order_of(sort)
    rows = selected(stream, sees, wanted, past)
    if order.name == "since":
        past.add_since(rows)
    place = None if cursor is None else order.place(cursor)
    key: _Key = order.key
    is_descending = order.is_descending
    if order.name == "waiting":
        key, place = _by_wait(stream, past, rows, order, place)
    by = attrgetter("seq") if order.name == "position" else key  # the same, and less work
    found = sorted(rows, key=by, reverse=is_descending)
    total = len(found)
    if place is not None:
        found = [row for row in found if (key(row) < place if is_descending else key(row) > place)]
    shown, more = found[:limit], None
    if len(found) > limit:
        if order.name == "waiting":
            past.add_waits(shown[-1:])
        more = order.cursor(order.key(shown[-1]))
    head = stream.rows.head
    pods = pod_rows_of(stream, _completed(stream, past, shown), past.now)
    return Pods(stream=stream.name, head=head, pods=pods, next=more, total=total)


def _by_wait(
    stream: LoggedStream,
    past: PastPods,
    rows: Sequence[PastPod],
    order: PodOrder,
    place: PodKey | None,
) -> tuple[_Key, PodKey | None]:
    """What rows are sorted by in an order by their waits, and the place after which a page begins.
    If all wait since they arrived, their positions are in that order, and no wait is read."""
    waits = past.waits(rows)
    if waits is not None and place is not None and place.value != order.missing:
        waits = waits if record_time(stream, place.position) == place.value else None
        place = PodKey(0, place.position) if waits is not None else place
    if waits is None:
        past.add_waits(rows)
        return order.key, place
    waiting = {row.seq for row, waits_now in zip(rows, waits, strict=True) if waits_now}
    return lambda row: PodKey(0 if row.seq in waiting else order.missing, row.seq), place


def selected(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, past: PastPods
) -> Sequence[PastPod]:
    """The rows that pass the filters, in order. First those that the state answers: what the others
    need is read of the rows that are left. Raises InputError and UnavailableError."""
    rows = past.visible(sees)
    for passes in _stated_filters(wanted):
        rows = [row for row in rows if passes(row)]
    if wanted.low is not None or wanted.high is not None:
        rows = _tried(stream, wanted, past, rows)
    group = None if wanted.group is None else read_group(wanted.group)
    if isinstance(group, ReasonGroup):
        past.add_attempts(rows)
        named = zip(rows, refusals_of(stream, rows), strict=True)
        rows = [row for row, refusal in named if reason_group(*refusal) == group]
    if wanted.plugin is not None or wanted.reason is not None:
        past.add_attempts(rows)
        is_refused = _refusal_filter(stream, wanted)
        rows = [row for row in rows if is_refused(row)]
    return rows


def _stated_filters(wanted: PodRowFilter) -> Iterator[Callable[[PastPod], bool]]:
    """The filters that the state answers. Raises InputError."""
    for name, column in _COLUMNS.items():
        value = getattr(wanted, name)
        if name == "state" and value == PENDING:
            yield lambda row: row.state in PENDING_STATES
        elif value is not None:
            yield partial(_has, column, value)
    if wanted.owner is not None:
        owner = read_owner(wanted.owner)
        yield lambda row: owner.has(row["owner_kind"], row["owner_name"])
    if wanted.name_contains is not None:
        yield _name_filter(wanted.name_contains)
    group = None if wanted.group is None else read_group(wanted.group)
    if isinstance(group, OwnerGroup):
        columns = ("namespace", "owner_kind", "owner_name")
        yield lambda row: tuple(row[column] or "" for column in columns) == group


def _has(column: str, value: str, row: PastPod) -> bool:
    return bool(row[column] == value)


def _name_filter(part: str) -> Callable[[PastPod], bool]:
    """Whether a row's name has this part; with a /, its namespace/name."""
    part = part.lower()
    if "/" in part:
        return lambda row: part in f"{row.pod.namespace}/{row.pod.name}".lower()
    return lambda row: part in row.pod.name.lower()


def _refusal_filter(stream: LoggedStream, wanted: PodRowFilter) -> Callable[[PastPod], bool]:
    """Whether a row's last attempt had a refusal of the plugin, with the reason, or with both."""
    plugin, reason = wanted.plugin, wanted.reason
    numbers = frozenset(stream.rows.numbers(plugin, reason))

    def is_refused(row: PastPod) -> bool:
        if not numbers.isdisjoint(row["numbers"]):
            return True
        if row["verdict"] not in (None, STORED_EXCLUDED) or row["message"] is None:
            return False
        named, why = refusal_of(stream, row)
        has_reason = reason is None or reason.lower() in (why or "").lower()
        return plugin in (None, named) and has_reason

    return is_refused


def _tried(
    stream: LoggedStream, wanted: PodRowFilter, past: PastPods, rows: Sequence[PastPod]
) -> list[PastPod]:
    """The rows of pods whose last attempt is in the range."""
    low = 0 if wanted.low is None else wanted.low
    high = LAST if wanted.high is None else wanted.high
    decided = _decided(stream, past, rows)
    return [row for row in rows if low <= decided.get(row["uid"], -1) < high]


def _decided(stream: LoggedStream, past: PastPods, rows: Sequence[PastPod]) -> Mapping[str, int]:
    """Uid → position of the last attempt, of the pods that had one."""
    found = last_attempts(stream, rows, past.position)
    return {uid: attempt.seq for uid, attempt in found.items()}


def _completed(
    stream: LoggedStream, past: PastPods, rows: Sequence[PastPod]
) -> list[dict[str, Any]]:
    """Rows with all columns. What only shown ones need are the last attempts of pods with a node,
    and messages."""
    past.add_since(rows)
    past.add_waits(rows)
    past.add_attempts(rows)
    whole = [dict(row) for row in rows]
    decided = _decided(stream, past, [row for row in rows if row["decided_seq"] is None])
    for row in whole:
        row["decided_seq"] = decided.get(row["uid"], row["decided_seq"])
    add_messages(stream, [row for row in whole if row["verdict"] is not None])
    return whole
