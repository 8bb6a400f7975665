"""A pod at a position, as a row that has the columns of table pod_now.

Most columns are in the folded state, and are made when they are read: an answer reads few columns
of thousands of rows. The others take queries; see ``PastPods``.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from eventsched.domain.objects import Pod
from eventsched.domain.state.pod_state import PodState
from eventsched.history.explain.evidence import uid_key
from eventsched.history.past_state.state_document import BOUND

_STATED: Mapping[str, Callable[["PastPod"], Any]] = {
    "uid": lambda row: row.uid,
    "seq": attrgetter("seq"),
    "attempts": attrgetter("attempts"),
    "priority": attrgetter("pod.priority"),
    "deleting": attrgetter("pod.deleting"),
    "state": attrgetter("state"),
    "namespace": attrgetter("pod.namespace"),
    "name": attrgetter("pod.name"),
    "scheduler": attrgetter("pod.scheduler_name"),
    "owner_kind": lambda row: row.pod.owner.kind if row.pod.owner else None,
    "owner_name": lambda row: row.pod.owner.name if row.pod.owner else None,
    "node": lambda row: row.node or None,
    "nominated": lambda row: row.nominated or None,
}
"""The columns that the state says."""
PLACED: Mapping[str, Any] = {
    "waiting_since": None, "decided_seq": None, "verdict": None, "plugin": None, "message": None,
    "numbers": frozenset(), "outcome": None, "feasible": 0,
}  # fmt: skip
"""What a row of a pod on its node has before anything is read."""
_COLUMNS = (*_STATED, "since", *PLACED)


class PastPod(Mapping[str, Any]):
    """A row. ``found`` has the columns that the state does not say, as far as they were read. A
    column that was not is missing: KeyError."""

    __slots__ = ("_uid", "attempts", "found", "node", "nominated", "pod", "seq", "state")

    def __init__(self, pod_state: PodState, state: str, nominated: str) -> None:
        self.pod: Pod = pod_state.pod
        self.seq: int = pod_state.number
        self.attempts: int = pod_state.attempts
        self.node: str = pod_state.booked_node
        self.state: str = state
        self.nominated: str = nominated
        self._uid = ""
        self.found: Mapping[str, Any] = PLACED
        if state != BOUND:
            self.found = {} if pod_state.queue is None else {"since": pod_state.entered}

    @property
    def uid(self) -> str:
        """The uid as tables have it."""
        if not self._uid:
            self._uid = uid_key(self.pod.uid)
        return self._uid

    def __getitem__(self, column: str) -> Any:
        stated = _STATED.get(column)
        return self.found[column] if stated is None else stated(self)

    def __iter__(self) -> Iterator[str]:
        return iter(_COLUMNS)

    def __len__(self) -> int:
        return len(_COLUMNS)

    def add(self, **columns: Any) -> None:
        """Adds columns that were read, all at once: another thread may read the row."""
        self.found = {**self.found, **columns}
