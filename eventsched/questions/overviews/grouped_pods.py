"""Pods counted by owner, or by the refusal of their last attempt that is named first."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from eventsched.history.dominant_refusal import rank_sql
from eventsched.output.queues.group_keys import OwnerGroup, ReasonGroup, reason_group
from eventsched.questions.answer_shapes import UnmatchedFilter
from eventsched.questions.excluded_nodes import PLUGIN_TO_NAME, REASON_TO_NAME
from eventsched.questions.past.now_at import refusals_of
from eventsched.questions.past.past_pod import PastPod
from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.past.past_rows import selected
from eventsched.questions.pods.pod_rows import JOIN_NAMED, PodRowFilter, conditions_of, source_of
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility
from eventsched.runtime import gc_tuning

MOST_GROUPS = 10_000
"""Groups that are counted, those of most pods."""

_BY_OWNER = """
SELECT n.namespace, coalesce(n.owner_kind, '') AS kind, coalesce(n.owner_name, '') AS name,
       count(*) AS pods, count(n.waiting_since) AS waiting, min(n.waiting_since) AS since
FROM {source} n WHERE n.stream = :s{conditions}
GROUP BY 1, 2, 3 ORDER BY pods DESC, 1, 2, 3 LIMIT :most
"""
_BY_REASON = f"""
WITH chosen AS (
    SELECT n.verdict, n.waiting_since, {PLUGIN_TO_NAME} AS plugin, {REASON_TO_NAME} AS reason, CASE
        WHEN {rank_sql("most.plugin", "most.code")} <> 0 AND n.verdict IS NOT NULL
        THEN n.decided_seq END AS unsure
    FROM {{source}} n
    LEFT JOIN eventsched_log.verdict most ON most.stream = n.stream AND most.number = n.verdict
    WHERE n.stream = :s{{conditions}}
)
SELECT coalesce(named.number, n.verdict) AS verdict, coalesce(n.plugin, '') AS plugin,
       CASE WHEN n.verdict IS NULL THEN coalesce(n.reason, '') ELSE n.reason END AS reason,
       count(*) AS pods, count(n.waiting_since) AS waiting, min(n.waiting_since) AS since
FROM chosen n
{JOIN_NAMED}
GROUP BY 1, 2, 3 ORDER BY pods DESC, 1, 2, 3 LIMIT :most
"""


class PodsOfGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one owner in a namespace, or with one refusal that is named first. ``key`` is the
    ``group`` of /pods that finds them. ``waiting`` of the ``pods`` wait for a node, the oldest for
    ``oldest_seconds``. Fields of the other kind are null, and so are those of pods without an owner
    or a refusal."""

    key: str
    namespace: str | None
    owner_kind: str | None
    owner_name: str | None
    plugin: str | None
    reason: str | None
    pods: int
    waiting: int
    oldest_seconds: float | None


class GroupedPods(msgspec.Struct, frozen=True, kw_only=True):
    """A page of groups, those of most pods first. ``pods`` are in all ``count`` groups, which are
    at most 10,000; ``next`` is the ``offset`` to go on with, null at the end. ``unmatched`` is
    as in Pods."""

    stream: str
    head: int
    by: str
    count: int
    pods: int
    groups: list[PodsOfGroup]
    next: int | None
    unmatched: list[UnmatchedFilter] = []


_Group = OwnerGroup | ReasonGroup


class _Counted:
    """The pods of a group so far."""

    def __init__(self) -> None:
        self.pods, self.waiting = 0, 0
        self.since: int | None = None

    def add(self, pods: int, waiting: int, since: int | None) -> None:
        """Adds pods of which the oldest waits since ``since`` (µs)."""
        self.pods += pods
        self.waiting += waiting
        if since is not None:
            self.since = since if self.since is None else min(since, self.since)


def pod_groups(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, by: str, offset: int, limit: int
) -> GroupedPods:
    """A page of the groups of pods that exist. Raises InputError and UnavailableError."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    conditions, values = conditions_of(stream, sees, wanted, "n")
    source = source_of(stream, wanted, values)
    query = (_BY_OWNER if by == "owner" else _BY_REASON).format(
        source=source, conditions=conditions
    )
    rows = stream.rows.all(query, most=MOST_GROUPS, **values)
    counted: dict[_Group, _Counted] = {}
    for row in rows:
        group = _owner(row) if by == "owner" else _reason(stream, row)
        counted.setdefault(group, _Counted()).add(row["pods"], row["waiting"], row["since"])
    return _page(stream, by, counted, offset, limit, stream.present)


@gc_tuning.paused()
def past_pod_groups(
    stream: LoggedStream,
    sees: Visibility,
    past: PastPods,
    wanted: PodRowFilter,
    by: str,
    offset: int,
    limit: int,
) -> GroupedPods:
    """The same of the pods at a position. Raises InputError and UnavailableError."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    rows = selected(stream, sees, wanted, past)
    if by == "reason":
        past.add_attempts(rows)
    waits = past.waits(rows)
    if waits is None:
        past.add_waits(rows)
        waits = [row["waiting_since"] is not None for row in rows]
    counted: dict[_Group, _Counted] = {}
    waiting: dict[_Group, list[PastPod]] = {}
    for row, group, is_waiting in zip(rows, _past_groups(stream, rows, by), waits, strict=True):
        counted.setdefault(group, _Counted()).add(1, int(is_waiting), None)
        if is_waiting:
            waiting.setdefault(group, []).append(row)
    shown = [group for group, _ in _ordered(counted)[offset : offset + limit]]
    oldest = past.oldest([waiting.get(group, []) for group in shown])
    for group, row_of_oldest in zip(shown, oldest, strict=True):
        if row_of_oldest is not None:
            counted[group].since = row_of_oldest["waiting_since"]
    return _page(stream, by, counted, offset, limit, past.now)


def _past_groups(stream: LoggedStream, rows: Sequence[PastPod], by: str) -> Iterator[_Group]:
    """The group of each row, which has its last attempt if that is needed."""
    if by == "owner":
        for row in rows:
            owner = row.pod.owner
            kind, name = (owner.kind or "", owner.name or "") if owner else ("", "")
            yield OwnerGroup(row.pod.namespace, kind, name)
    else:
        group = cache(reason_group)
        for plugin, reason in refusals_of(stream, rows):
            yield group(plugin, reason)


def _owner(row: Mapping[Any, Any]) -> OwnerGroup:
    return OwnerGroup(row["namespace"], row["kind"], row["name"])


def _reason(stream: LoggedStream, row: Mapping[Any, Any]) -> ReasonGroup:
    number = row["verdict"]
    if number is None or row["reason"] is not None:
        return reason_group(row["plugin"], row["reason"])
    refusal = stream.rows.refusals([number])[number]
    return reason_group(refusal.plugin, refusal.reason)


def _page(
    stream: LoggedStream,
    by: str,
    counted: Mapping[_Group, _Counted],
    offset: int,
    limit: int,
    now: int,
) -> GroupedPods:
    """The groups from number ``offset`` on; the oldest pods wait until ``now`` (µs)."""
    found = _ordered(counted)
    end = offset + limit
    return GroupedPods(
        stream=stream.name,
        head=stream.rows.head,
        by=by,
        count=len(found),
        pods=sum(each.pods for _, each in found),
        groups=[_shown(group, each, now) for group, each in found[offset:end]],
        next=end if end < len(found) else None,
    )


def _ordered(counted: Mapping[_Group, _Counted]) -> list[tuple[_Group, _Counted]]:
    """The groups, those of most pods first."""
    return sorted(counted.items(), key=lambda item: (-item[1].pods, item[0]))[:MOST_GROUPS]


def _shown(group: _Group, counted: _Counted, now: int) -> PodsOfGroup:
    owner = group if isinstance(group, OwnerGroup) else OwnerGroup("", "", "")
    refusal = group if isinstance(group, ReasonGroup) else ReasonGroup("", "")
    return PodsOfGroup(
        key=group.key,
        namespace=owner.namespace or None,
        owner_kind=owner.kind or None,
        owner_name=owner.name or None,
        plugin=refusal.plugin or None,
        reason=refusal.reason or None,
        pods=counted.pods,
        waiting=counted.waiting,
        oldest_seconds=None if counted.since is None else (now - counted.since) / 1e6,
    )
