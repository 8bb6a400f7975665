"""The evidence for an explanation: a pod's records, and the meaning of the numbers in them.

``ScannedEvidence`` reads any log once from its beginning. ``SearchedEvidence`` searches a log that
has no index. stored_evidence.py reads only the parts of a log in Postgres that concern the pod.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from hashlib import md5
from typing import NamedTuple, Protocol
from uuid import UUID

import msgspec

from eventsched.domain import records
from eventsched.domain.behaviours import Behaviour, require_known
from eventsched.domain.records import AnyRecord, Outcome, PodDecided
from eventsched.domain.records.verdicts import Detail, ScoreColumn, Verdict
from eventsched.eventlog.port import StoredLog, StoredRecord
from eventsched.eventlog.postgres.stored_batch import StoredBatch, records_from
from eventsched.history.explain.record_text import concerns, pod_of

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACED = (Outcome.SCHEDULED, Outcome.WAITING)
_READ_FIRST = frozenset({
    "StreamStarted", "TermBegan", "NodeAdded", "VerdictDefined", "ScoringDefined", "PodAdded",
    "PodDecided",
})  # fmt: skip
_DEFINITIONS = ("NodeAdded", "VerdictDefined", "ScoringDefined", "SamplesTaken")
"""Kinds of records that say what numbers in other records mean."""
_TERMS = ("StreamStarted", "TermBegan")
"""Kinds of records that say which behaviours are in force."""
LOOKED_BACK = 20
"""The largest number of SamplesTaken records (in Postgres: of batches with some) that are searched
for the samples in force."""


class LoggedPod(NamedTuple):
    """A pod in a log: its ``uid`` as views show it, and the ``position`` of the record that added
    it."""

    uid: str
    namespace: str
    name: str
    position: int

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def is_about(record: AnyRecord, key: str) -> bool:
    """Whether a record is about the pod with this uid (as views show it), or chose it as a
    victim."""
    uid = pod_of(record)
    victims = record.victims if isinstance(record, records.PreemptionDecided) else ()
    return (uid is not None and uid_key(uid) == key) or key in map(uid_key, victims)


def attempts_in(stored: Iterable[StoredRecord]) -> list[tuple[int, int]]:
    """The positions of decisions and the numbers of their attempts, among a pod's records."""
    decided = ((each.position, each.record) for each in stored if each.kind == "PodDecided")
    return [(at, record.attempt) for at, record in decided if isinstance(record, PodDecided)]


class Evidence(Protocol):
    """What a stream's log says. Numbers are those of its dictionaries and node rows."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    @property
    def begin(self) -> int:
        """The position of the first record that was not dropped. Before the records of a pod that
        was added earlier, ``records`` gives made-up ones that say how it stood."""

    @property
    def is_shadow(self) -> bool:
        """Whether the log is a shadow's, by whose decisions nothing is bound."""

    def pods(self, name: str) -> list[LoggedPod]:
        """The pods that ``name`` means (``namespace/name``, a name or a uid), in order of
        arrival."""

    def similar(self, name: str) -> list[str]:
        """Full names of pods, sorted, that include those most similar to an unknown name."""

    def records(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """The records of a pod in order, up to the one that deletes it, including the preemptions
        that chose it as a victim."""

    def attempts(self, pod: LoggedPod) -> list[tuple[int, int]]:
        """The positions of the decisions about a pod, in order, with the numbers of the
        attempts."""

    def records_at(self, positions: Iterable[int]) -> dict[int, StoredRecord]:
        """Records by their positions."""

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """``namespace/name`` by uid, for those that are known."""

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """The nodes that pods were on, by uid, for those that are known. ``ends`` maps uids to the
        positions before which to look."""

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, with deltas expanded; None if there are none."""

    def samples(self, before: int) -> list[StoredRecord]:
        """The last SamplesTaken records before a position, the newest first."""

    def nodes(self, before: int) -> list[str]:
        """The names of all rows before a position: of a deleted node until another has its row."""

    def has_node(self, name: str) -> bool:
        """Whether a node of that name was ever there."""

    def verdicts(self) -> Mapping[int, Verdict]:
        """The verdicts by code."""

    def columns(self, number: int) -> tuple[ScoreColumn, ...]:
        """The score columns of a scoring, without parameters; none for 0."""


def uid_key(uid: str) -> str:
    """A uid as tables and views have it: unchanged if it is a UUID, else the MD5 of its text as a
    UUID."""
    if _UUID.fullmatch(uid):
        return uid
    return str(UUID(md5(uid.encode(), usedforsecurity=False).hexdigest()))


class ScannedEvidence:
    """The evidence of any log, read once from its beginning to its present end. Raises
    NewerLogError for a log of a newer version."""

    def __init__(self, log: StoredLog, stream: str) -> None:
        self._log = log
        self._stream = stream
        self._pods: dict[str, LoggedPod] = {}
        self._nodes: list[tuple[int, int, str]] = []
        """Position, row and name of every node that was added."""
        self._rows = 0
        self._verdicts: dict[int, Verdict] = {}
        self._columns: dict[int, tuple[ScoreColumn, ...]] = {0: ()}
        self._homes: dict[str, list[tuple[int, str]]] = {}
        self._samples: list[StoredRecord] = []
        self.is_shadow = False
        """See Evidence."""
        for stored in log.read():
            if stored.kind == "SamplesTaken":
                self._samples.append(stored)
            elif stored.kind in _READ_FIRST:
                self._take(stored.position, stored.record)

    def _take(self, position: int, record: AnyRecord) -> None:
        match record:
            case records.StreamStarted() | records.TermBegan():
                require_known(record.flags, f"position {position} of the log")
                self.is_shadow |= Behaviour.SHADOWS in record.flags
            case records.NodeAdded():
                row = self._rows if record.row < 0 else record.row
                self._rows = max(self._rows, row + 1)
                self._nodes.append((position, row, record.node.name))
            case records.VerdictDefined():
                self._verdicts[record.number] = record.verdict
            case records.ScoringDefined():
                self._columns[record.number] = record.columns
            case records.PodAdded(pod=pod):
                logged = LoggedPod(uid_key(pod.uid), pod.namespace, pod.name, position)
                self._pods.setdefault(logged.uid, logged)
                if pod.node_name:
                    self._homes.setdefault(logged.uid, []).append((position, pod.node_name))
            case PodDecided() if record.outcome in _PLACED:
                self._homes.setdefault(uid_key(record.uid), []).append((position, record.node))

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    @property
    def begin(self) -> int:
        """See Evidence."""
        return 0

    def pods(self, name: str) -> list[LoggedPod]:
        """See Evidence."""
        by_uid = self._pods.get(uid_key(name))
        if by_uid is not None:
            return [by_uid]
        return [pod for pod in self._pods.values() if name in (pod.full_name, pod.name)]

    def similar(self, name: str) -> list[str]:
        """See Evidence. Returns all names."""
        return sorted({pod.full_name for pod in self._pods.values()})

    def records(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """See Evidence."""
        for stored in self._log.read(pod.position):
            if is_about(stored.record, pod.uid):
                yield stored
                if stored.kind == "PodDeleted":
                    return

    def attempts(self, pod: LoggedPod) -> list[tuple[int, int]]:
        """See Evidence."""
        return attempts_in(self.records(pod))

    def records_at(self, positions: Iterable[int]) -> dict[int, StoredRecord]:
        """See Evidence."""
        return {position: next(iter(self._log.read(position))) for position in set(positions)}

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """See Evidence."""
        pods = {uid: self._pods.get(uid_key(uid)) for uid in uids}
        return {uid: pod.full_name for uid, pod in pods.items() if pod is not None}

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """See Evidence."""
        homes = {}
        for uid, end in ends.items():
            before = [node for at, node in self._homes.get(uid_key(uid), ()) if at < end]
            if before:
                homes[uid] = before[-1]
        return homes

    def detail(self, position: int) -> Detail | None:
        """See Evidence."""
        return self._log.detail(position)

    def samples(self, before: int) -> list[StoredRecord]:
        """See Evidence."""
        earlier = [stored for stored in self._samples if stored.position < before]
        return earlier[: -LOOKED_BACK - 1 : -1]

    def nodes(self, before: int) -> list[str]:
        """See Evidence."""
        names: list[str] = []
        for position, row, name in self._nodes:
            if position >= before:
                break
            names[row : row + 1] = [name]
        return names

    def has_node(self, name: str) -> bool:
        """See Evidence."""
        return any(name == added for _, _, added in self._nodes)

    def verdicts(self) -> Mapping[int, Verdict]:
        """See Evidence."""
        return self._verdicts

    def columns(self, number: int) -> tuple[ScoreColumn, ...]:
        """See Evidence."""
        return self._columns[number]


class SearchableLog(StoredLog, Protocol):
    """A log whose batches can be searched faster than read."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    def batches_with(self, words: Sequence[str], first: int = 0) -> Iterator[StoredBatch]:
        """The batches from position ``first`` on whose text has one of the words, in order."""

    def decided_pods(self, uids: Set[str]) -> dict[str, str]:
        """``namespace/name`` of some pods, by uid as tables have it."""


class SearchedEvidence:
    """The evidence of a log that is searched for the records that matter. Only an unknown name has
    all of the log read. Raises NewerLogError for a log of a newer version."""

    def __init__(self, log: SearchableLog) -> None:
        self._log = log
        terms = [f'"kind":"{kind}"' for kind in _TERMS]
        opened = ScannedEvidence(_Excerpt(log, terms), log.stream)  # raises: may be unreadable
        self.is_shadow = opened.is_shadow
        """See Evidence."""

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._log.stream

    @property
    def begin(self) -> int:
        """See Evidence."""
        return 0

    def pods(self, name: str) -> list[LoggedPod]:
        """See Evidence."""
        words = {name, name.rpartition("/")[2]}
        return self._with(words).pods(name) or self._scanned.pods(name)

    def similar(self, name: str) -> list[str]:
        """See Evidence. Returns all names."""
        return self._scanned.similar(name)

    def records(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """See Evidence."""
        uid = pod_of(self.records_at([pod.position])[pod.position].record)
        assert uid is not None
        word = _quoted(uid)
        encoded = word.encode()
        for stored in records_from(self._log.batches_with([word], pod.position), pod.position):
            if encoded in stored.body and concerns(stored.record, uid):
                yield stored
                if stored.kind == "PodDeleted":
                    return

    def attempts(self, pod: LoggedPod) -> list[tuple[int, int]]:
        """See Evidence."""
        return attempts_in(self.records(pod))

    def records_at(self, positions: Iterable[int]) -> dict[int, StoredRecord]:
        """See Evidence."""
        return {position: next(iter(self._log.read(position))) for position in set(positions)}

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """See Evidence."""
        keys = {uid_key(uid): uid for uid in uids}
        names = {keys[key]: name for key, name in self._log.decided_pods(keys.keys()).items()}
        rest = [uid for uid in keys.values() if uid not in names]
        return names | self._with(rest).names(rest) if rest else names

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """See Evidence."""
        return self._with(ends).homes(ends) if ends else {}

    def detail(self, position: int) -> Detail | None:
        """See Evidence."""
        return self._log.detail(position)

    def samples(self, before: int) -> list[StoredRecord]:
        """See Evidence."""
        return self._definitions.samples(before)

    def nodes(self, before: int) -> list[str]:
        """See Evidence."""
        return self._definitions.nodes(before)

    def has_node(self, name: str) -> bool:
        """See Evidence."""
        return self._definitions.has_node(name)

    def verdicts(self) -> Mapping[int, Verdict]:
        """See Evidence."""
        return self._definitions.verdicts()

    def columns(self, number: int) -> tuple[ScoreColumn, ...]:
        """See Evidence."""
        return self._definitions.columns(number)

    @cached_property
    def _scanned(self) -> ScannedEvidence:
        return ScannedEvidence(self._log, self.stream)

    @cached_property
    def _definitions(self) -> ScannedEvidence:
        words = [f'"kind":"{kind}"' for kind in _DEFINITIONS]
        return ScannedEvidence(_Excerpt(self._log, words), self.stream)

    def _with(self, texts: Iterable[str]) -> ScannedEvidence:
        """The evidence of the batches that have one of these texts as a value."""
        return ScannedEvidence(_Excerpt(self._log, [*map(_quoted, texts)]), self.stream)


class _Excerpt:
    """The records of the batches with one of some words."""

    def __init__(self, log: SearchableLog, words: Sequence[str]) -> None:
        self._log, self._words = log, words

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """See StoredLog."""
        return records_from(self._log.batches_with(self._words, first), first)

    def detail(self, position: int) -> Detail | None:
        """See StoredLog."""
        return self._log.detail(position)


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
