"""What the client that asks may see: every namespace, or some."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import AnyRecord, PodDecided
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.evidence_until import EvidenceUntil
from eventsched.history.explain.evidence import Evidence, LoggedPod
from eventsched.history.explain.record_text import pod_of
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.questions.streams import LoggedStream

HIDDEN = "a pod of another namespace"
"""The name of a pod that may not be seen."""
_OF_NODES = (records.NodeAdded, records.NodeUpdated, records.NodeDeleted)


class NotVisibleError(InputError):
    """The answer would show what the one who asks may not see."""


@dataclass(frozen=True)
class Visibility:
    """``namespaces`` are those that may be seen; None: all of them."""

    namespaces: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every namespace may be seen."""
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """Whether a namespace may be seen."""
        return self.namespaces is None or namespace in self.namespaces

    def require_whole(self, what: str) -> None:
        """Raises NotVisibleError if some namespaces may not be seen."""
        if self.namespaces is not None:
            remedy = "ask about pods of your own namespaces, or for the right to see all"
            raise NotVisibleError(what, "is about every namespace", remedy)

    def require(self, namespace: str, what: str) -> None:
        """Raises NotVisibleError if the namespace may not be seen, whether it exists or not."""
        if not self.sees(namespace):
            remedy = "ask for the right to list its pods"
            raise NotVisibleError(what, f"namespace {namespace} is not yours to see", remedy)

    def condition(self, column: str) -> tuple[str, Mapping[str, list[str]]]:
        """The condition of SQL on a column with a namespace, "" for none, and its values."""
        if self.namespaces is None:
            return "", {}
        return f" AND {column} IN :visible", {"visible": sorted(self.namespaces) or [""]}


EVERYTHING = Visibility()


def visible_evidence(stream: LoggedStream, sees: Visibility) -> Evidence:
    """What explains the pods of a stream to the one who asks."""
    return stream.evidence() if sees.is_whole else VisibleEvidence(stream.log, sees)


def evidence_before(stream: LoggedStream, sees: Visibility, end: int | None) -> Evidence:
    """What explains the pods of a stream, as far as ``sees`` allows; with ``end`` before that
    position."""
    evidence = visible_evidence(stream, sees)
    return evidence if end is None else EvidenceUntil(evidence, end)


class VisibleEvidence(StoredEvidence):
    """Evidence without the pods and objects of other namespaces. Of records elsewhere it has those
    about nodes, and about pods and objects of the namespaces that may be seen."""

    def __init__(self, reader: Reader, sees: Visibility) -> None:
        super().__init__(reader)
        self._sees = sees

    def pods(self, name: str) -> list[LoggedPod]:
        """See Evidence."""
        return [pod for pod in super().pods(name) if self._sees.sees(pod.namespace)]

    def similar(self, name: str) -> list[str]:
        """See Evidence."""
        return [known for known in super().similar(name) if self._is_visible(known)]

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """See Evidence. A pod that may not be seen, or is unknown, is HIDDEN."""
        asked = list(uids)
        known = super().names(asked)
        return {
            uid: known[uid] if uid in known and self._is_visible(known[uid]) else HIDDEN
            for uid in asked
        }

    def records_at(self, positions: Iterable[int]) -> dict[int, StoredRecord]:
        """See Evidence. Leaves out what may not be seen."""
        stored = super().records_at(positions)
        decoded = {position: entry.record for position, entry in stored.items()}
        names = self.names(uid for each in decoded.values() if (uid := pod_of(each)) is not None)
        return {
            position: stored[position]
            for position, record in decoded.items()
            if self._may_be_shown(record, names)
        }

    def detail(self, position: int) -> Detail | None:
        """See Evidence. Leaves out those of preemptions, whose candidates name victims."""
        entry = super().records_at([position]).get(position)
        if entry is None or not isinstance(entry.record, PodDecided):
            return None
        return super().detail(position)

    def _is_visible(self, full_name: str) -> bool:
        return self._sees.sees(full_name.partition("/")[0])

    def _may_be_shown(self, record: AnyRecord, names: dict[str, str]) -> bool:
        match record:
            case records.PodAdded(pod=pod) | records.PodUpdated(pod=pod):
                return self._sees.sees(pod.namespace)
            case records.ObjectChanged(object=changed):
                return self._sees.sees(changed.namespace)
            case records.ObjectDeleted(namespace=namespace):
                return self._sees.sees(namespace)
            case records.VerdictDefined() | records.ScoringDefined():
                return True  # origins_of looks for what comes after them
        uid = pod_of(record)
        if uid is not None:
            return names[uid] != HIDDEN
        return isinstance(record, _OF_NODES)
