"""What an explanation is told from: a pod's records and what their numbers stand for.

Any log, read once from its beginning, can give it (``ScannedEvidence``). Of a log in Postgres only
what concerns the pod is read: stored_evidence.py.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import md5
from typing import NamedTuple, Protocol
from uuid import UUID

from eventsched.domain import records
from eventsched.domain.records import AnyRecord, Outcome, PodDecided
from eventsched.domain.records.verdicts import Detail, ScoreColumn, Verdict
from eventsched.eventlog.port import Stored, StoredLog
from eventsched.history.explain.record_text import pod_of

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACED = (Outcome.SCHEDULED, Outcome.WAITING)
_READ_FIRST = frozenset({"NodeAdded", "VerdictDefined", "ScoringDefined", "PodAdded", "PodDecided"})
LOOKED_BACK = 20
"""Records of samples (in Postgres: batches with some) at most that are looked at for what held."""


class LoggedPod(NamedTuple):
    """A pod in a log: ``uid`` as views show it, ``position`` of the record that added it."""

    uid: str
    namespace: str
    name: str
    position: int

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Evidence(Protocol):
    """What is known of a stream. Numbers are those of its dictionaries and rows."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    def pods(self, wanted: str) -> list[LoggedPod]:
        """The pods that ``namespace/name``, a name or a uid means, as they arrived."""

    def similar(self, wanted: str) -> list[str]:
        """Full names, some of which may be near to one that is not there."""

    def records(self, pod: LoggedPod) -> Iterator[Stored]:
        """The records of a pod, in order, to the one that says that it is gone; among them the
        preemptions that it is a victim of."""

    def records_at(self, positions: Iterable[int]) -> dict[int, Stored]:
        """Records by their positions."""

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """``namespace/name`` by uid, of those that are known."""

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """The nodes that pods were on, by uid, where that is known; ``ends`` are the positions
        before which to look."""

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, whole; None where there are none."""

    def samples(self, before: int) -> list[Stored]:
        """The last samples that were taken before a position, the newest first."""

    def nodes(self) -> list[str]:
        """The names of all rows."""

    def verdicts(self) -> Mapping[int, Verdict]:
        """The words of all codes."""

    def columns(self, number: int) -> tuple[ScoreColumn, ...]:
        """Score columns, without parameters; none for 0."""


def uid_key(uid: str) -> str:
    """A uid as tables and views have it: as it is, or the MD5 of its text as a UUID."""
    if _UUID.fullmatch(uid):
        return uid
    return str(UUID(md5(uid.encode(), usedforsecurity=False).hexdigest()))


class ScannedEvidence:
    """What a log says, read once from its beginning to its present end."""

    def __init__(self, log: StoredLog, stream: str) -> None:
        self._log = log
        self._stream = stream
        self._pods: dict[str, LoggedPod] = {}
        self._nodes: list[str] = []
        self._verdicts: dict[int, Verdict] = {}
        self._columns: dict[int, tuple[ScoreColumn, ...]] = {0: ()}
        self._homes: dict[str, list[tuple[int, str]]] = {}
        self._samples: list[Stored] = []
        for stored in log.read():
            if stored.kind == "SamplesTaken":
                self._samples.append(stored)
            elif stored.kind in _READ_FIRST:
                self._take(stored.position, stored.record)

    def _take(self, position: int, record: AnyRecord) -> None:
        match record:
            case records.NodeAdded():
                self._nodes.append(record.node.name)
            case records.VerdictDefined():
                self._verdicts[record.number] = record.verdict
            case records.ScoringDefined():
                self._columns[record.number] = record.columns
            case records.PodAdded(pod=pod):
                found = LoggedPod(uid_key(pod.uid), pod.namespace, pod.name, position)
                self._pods.setdefault(found.uid, found)
                if pod.node_name:
                    self._homes.setdefault(found.uid, []).append((position, pod.node_name))
            case PodDecided() if record.outcome in _PLACED:
                self._homes.setdefault(uid_key(record.uid), []).append((position, record.node))

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    def pods(self, wanted: str) -> list[LoggedPod]:
        """See Evidence."""
        by_uid = self._pods.get(uid_key(wanted))
        if by_uid is not None:
            return [by_uid]
        return [pod for pod in self._pods.values() if wanted in (pod.full_name, pod.name)]

    def similar(self, wanted: str) -> list[str]:
        """See Evidence: all there are."""
        return sorted({pod.full_name for pod in self._pods.values()})

    def records(self, pod: LoggedPod) -> Iterator[Stored]:
        """See Evidence."""
        for stored in self._log.read(pod.position):
            record = stored.record
            uid = pod_of(record)
            mine = uid is not None and uid_key(uid) == pod.uid
            if isinstance(record, records.PreemptionDecided):
                mine = mine or pod.uid in map(uid_key, record.victims)
            if mine:
                yield stored
                if stored.kind == "PodDeleted":
                    return

    def records_at(self, positions: Iterable[int]) -> dict[int, Stored]:
        """See Evidence."""
        return {position: next(iter(self._log.read(position))) for position in set(positions)}

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """See Evidence."""
        found = {uid: self._pods.get(uid_key(uid)) for uid in uids}
        return {uid: pod.full_name for uid, pod in found.items() if pod is not None}

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """See Evidence."""
        found = {}
        for uid, end in ends.items():
            before = [node for at, node in self._homes.get(uid_key(uid), ()) if at < end]
            if before:
                found[uid] = before[-1]
        return found

    def detail(self, position: int) -> Detail | None:
        """See Evidence."""
        return self._log.detail(position)

    def samples(self, before: int) -> list[Stored]:
        """See Evidence."""
        found = [stored for stored in self._samples if stored.position < before]
        return found[: -LOOKED_BACK - 1 : -1]

    def nodes(self) -> list[str]:
        """See Evidence."""
        return self._nodes

    def verdicts(self) -> Mapping[int, Verdict]:
        """See Evidence."""
        return self._verdicts

    def columns(self, number: int) -> tuple[ScoreColumn, ...]:
        """See Evidence."""
        return self._columns[number]
