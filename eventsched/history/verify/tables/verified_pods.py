"""Verifies table pod_now: computes the state of each pod from the records and compares its row.

Written from docs/log-format.md, like all of verification.
"""

from collections.abc import Callable, Collection
from typing import Any

from eventsched.history.verify.tables.verified_rows import Record, Report, uuid
from eventsched.history.verify.verified_log import COLUMNS, Tables

_NAMES = [name.partition("::")[0] for name in COLUMNS["pod_now"]]
_HELD = ("bound", "binding", "waiting")
_RESERVED = ("binding", "waiting")
_NO_NODE = 65533
"""Codes from this one on are not refusals by plugins."""


class PodNowCheck:
    """The existing pods after each record. Its memory grows with their number, not with the log."""

    def __init__(self, tables: Tables, report: Report) -> None:
        self._tables, self._report = tables, report
        self._pods: dict[str, dict[str, Any]] = {}
        self._unknown: set[str] = set()
        """The pods from before the checkpoint at which verification began."""

    def begin(self, pods: Collection[str]) -> None:
        """Begins at a checkpoint that has these pods, whose rows are not compared."""
        self._unknown = set(pods)

    def row(self, uid: str) -> dict[str, Any]:
        """A copy of the pod's row; {} if it has none. ``last`` is its newest decision: position,
        time, attempt."""
        return dict(self._pods.get(uid, {}))

    def take(self, position: int, at: int, record: Record) -> None:
        """Applies a record of one of KINDS. Raises KeyError, TypeError and AttributeError for a
        record of a wrong shape."""
        kind = record["kind"]
        if kind == "PodAdded":
            pod = record["pod"]
            self._pods[pod["uid"]] = _added(position, at, pod)
            return
        if kind == "PodDeleted":
            self._pods.pop(record["uid"], None)
            self._unknown.discard(record["uid"])
            return
        row = self._pods.get(record["pod"]["uid"] if kind == "PodUpdated" else record["uid"])
        if row is None:
            return
        before = row["state"]
        _CHANGES[kind](row, position, at, record)
        if row["state"] not in _RESERVED:
            row.update(reserved_seq=None, reserved_at=None)
        if row["state"] != before:
            row["since"] = at
        if row["state"] == "bound":
            row["waiting_since"] = None

    def finish(self, end: int) -> None:
        """Compares the pods with the rows; the log ends at ``end``."""
        rows = self._tables.dictionary("pod_now")
        for uid in self._unknown:
            if rows.pop((uuid(uid),), None) is None:
                self._report(end, f"table pod_now, pod {uid}: has no row")
        for uid, pod in self._pods.items():
            row = rows.pop((uuid(uid),), None)
            problem = "has no row" if row is None else _difference(pod, row)
            if problem:
                self._report(end, f"table pod_now, pod {uid} (of {pod['seq']}): {problem}")
        for (uid,), row in rows.items():
            self._report(
                end, f"table pod_now, pod {uid} (of {row[0]}): has a row, expected none: it is gone"
            )


def _difference(pod: dict[str, Any], row: tuple[Any, ...]) -> str:
    for name, value in zip(_NAMES, row, strict=True):
        if pod[name] != value:
            return f"{name} is {value!r}, expected {pod[name]!r} by the records"
    return ""


def _added(position: int, at: int, pod: Record) -> dict[str, Any]:
    node, nominated = pod.get("node_name"), pod.get("nominated_node")
    return {
        "seq": position, "since": at, "waiting_since": None, "decided_seq": None, "attempts": 0,
        "verdict": None, "state": "bound" if node else "unqueued",
        "namespace": pod.get("namespace", "default"), "name": pod["name"], "node": node,
        "nominated": None if node else nominated, "plugin": None, "message": None,
        "reserved_seq": None, "reserved_at": None, "last": (None, None, None), **_facts(pod),
    }  # fmt: skip


def _facts(pod: Record) -> dict[str, Any]:
    """The columns that any PodUpdated record sets."""
    owner = pod.get("owner") or {}
    return {
        "priority": pod.get("priority", 0), "deleting": pod.get("deleting", False),
        "scheduler": pod.get("scheduler_name", "default-scheduler"),
        "owner_kind": owner.get("kind"), "owner_name": owner.get("name"),
        "asked": pod.get("nominated_node"),
    }  # fmt: skip


def _updated(row: Record, _position: int, _at: int, record: Record) -> None:
    pod = record["pod"]
    if pod.get("node_name"):
        row["state"], row["node"] = "bound", pod["node_name"]
    nominated = pod.get("nominated_node")
    if row["state"] in _HELD:
        row["nominated"] = None
    elif nominated != row["asked"]:
        row["nominated"] = nominated
    row.update(_facts(pod))


def _queued(row: Record, _position: int, at: int, record: Record) -> None:
    row["state"] = record["queue"]
    if row["waiting_since"] is None:
        row["waiting_since"] = at


def _decided(row: Record, position: int, at: int, record: Record) -> None:
    row.update(last=(position, at, record["attempt"]))
    row.update(attempts=record["attempt"], decided_seq=position)
    row.update(verdict=None, plugin=None, message=None)
    if record["outcome"] in ("scheduled", "waiting"):
        state = "binding" if record["outcome"] == "scheduled" else "waiting"
        row.update(state=state, node=record["node"], nominated=None)
        row.update(reserved_seq=position, reserved_at=at)
        return
    counts = sorted(record.get("counts", ()), key=lambda c: (c[0] >= _NO_NODE, -c[1], c[0]))
    row.update(
        state="unqueued",
        plugin=record.get("plugin"),
        message=record.get("message"),
        verdict=counts[0][0] if counts else None,
    )


def _unreserved(row: Record, _position: int, _at: int, _record: Record) -> None:
    if row["state"] != "bound":
        row.update(state="unqueued", node=None)


def _replied(row: Record, _position: int, _at: int, record: Record) -> None:
    if record.get("attempt", 0) > 0:
        row.update(state="binding", node=record["node"], attempts=record["attempt"], nominated=None)
        row.update(reserved_seq=None, reserved_at=None)


_CHANGES: dict[str, Callable[[Record, int, int, Record], None]] = {
    "PodUpdated": _updated,
    "PodQueued": _queued,
    "PodDecided": _decided,
    "PodBound": lambda row, _p, _a, record: row.update(state="bound", node=record["node"]),
    "PodUnreserved": _unreserved,
    "PodSkipped": lambda row, _p, _a, _r: row.update(state="unqueued"),
    "BindIntended": lambda row, _p, _a, _r: row.update(state="binding"),
    "ExtenderReplied": _replied,
    "PreemptionDecided": lambda row, _p, _a, record: row.update(nominated=record["node"]),
    "NominationCleared": lambda row, _p, _a, _r: row.update(nominated=None),
    "EvictionSucceeded": lambda row, _p, _a, _r: row.update(deleting=True),
}
KINDS = frozenset(_CHANGES) | {"PodAdded", "PodDeleted"}
"""The kinds of records that change table pod_now."""
