"""The evidence for an explanation as it was at a position: what came later is left out. Of a pod
with very many records, it is the newest ones."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import Detail, ScoreColumn, Verdict
from eventsched.eventlog.port import StoredRecord
from eventsched.history.explain.evidence import Evidence, LoggedPod
from eventsched.history.explain.explanation import NoPodError
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility, visible_evidence


def evidence_before(stream: LoggedStream, sees: Visibility, end: int | None) -> Evidence:
    """What explains the pods of a stream, as far as ``sees`` allows; with ``end`` before that
    position."""
    evidence = visible_evidence(stream, sees)
    return evidence if end is None else EvidenceUntil(evidence, end)


class EvidenceUntil:
    """The evidence before the record at position ``end``."""

    def __init__(self, evidence: Evidence, end: int) -> None:
        self._evidence, self._end = evidence, end

    @property
    def stream(self) -> str:
        """See Evidence."""
        return self._evidence.stream

    @property
    def begin(self) -> int:
        """See Evidence."""
        return self._evidence.begin

    @property
    def is_shadow(self) -> bool:
        """See Evidence."""
        return self._evidence.is_shadow

    def pods(self, name: str) -> list[LoggedPod]:
        """See Evidence. Raises NoPodError for a pod that came later."""
        every = self._evidence.pods(name)
        earlier = [pod for pod in every if pod.position < self._end]
        if every and not earlier:
            first = every[0].position
            problem = f"{every[0].full_name} came only at position {first}"
            raise NoPodError("at", problem, f"choose a later time, or position {first + 1}")
        return earlier

    def similar(self, name: str) -> list[str]:
        """See Evidence."""
        return self._evidence.similar(name)

    def records(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """See Evidence."""
        return takewhile(lambda each: each.position < self._end, self._evidence.records(pod))

    def attempts(self, pod: LoggedPod) -> list[tuple[int, int]]:
        """See Evidence."""
        return [each for each in self._evidence.attempts(pod) if each[0] < self._end]

    def records_at(self, positions: Iterable[int]) -> dict[int, StoredRecord]:
        """See Evidence."""
        return self._evidence.records_at(each for each in positions if each < self._end)

    def names(self, uids: Iterable[str]) -> dict[str, str]:
        """See Evidence."""
        return self._evidence.names(uids)

    def homes(self, ends: Mapping[str, int]) -> dict[str, str]:
        """See Evidence."""
        return self._evidence.homes(ends)

    def detail(self, position: int) -> Detail | None:
        """See Evidence."""
        return self._evidence.detail(position)

    def samples(self, before: int) -> list[StoredRecord]:
        """See Evidence."""
        return self._evidence.samples(before)

    def nodes(self, before: int) -> list[str]:
        """See Evidence."""
        return self._evidence.nodes(before)

    def has_node(self, name: str) -> bool:
        """See Evidence."""
        return self._evidence.has_node(name)

    def verdicts(self) -> Mapping[int, Verdict]:
        """See Evidence."""
        return self._evidence.verdicts()

    def columns(self, number: int) -> tuple[ScoreColumn, ...]:
        """See Evidence."""
        return self._evidence.columns(number)


MOST_RECORDS = 1_000
"""The newest records of a pod that are read for an answer: some 300 attempts."""
_FIRST = 2
"""How many of its first records are there in any case: that it was added, and came to a queue."""
_AROUND = 20
"""Records before and after an attempt that is asked for."""


class NewestEvidence(EvidenceUntil):
    """The evidence with the newest records of a pod only, if it has very many: so an answer has a
    bound. Its first records are there, too, and those around ``attempt``. ``left_out`` is how many
    of the first pod that was asked for are not, and ``resumes`` the position of the first of its
    newest ones; 0 if all are there."""

    def __init__(self, evidence: Evidence, attempt: int | None = None) -> None:
        super().__init__(evidence, sys.maxsize)
        self._attempt = attempt
        self._pod: LoggedPod | None = None
        self.left_out = self.resumes = 0

    def records(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """See Evidence."""
        self._pod = self._pod or pod
        stored = list(self._evidence.records(pod))
        begin = len(stored) - MOST_RECORDS
        if begin <= _FIRST:
            return iter(stored)
        asked = next((n for n, each in enumerate(stored[:begin]) if self._is_asked(each)), 0)
        around = range(max(_FIRST, asked - _AROUND), min(begin, asked + _AROUND + 1))
        kept = [*range(_FIRST), *(around if asked else ())]
        if pod == self._pod:
            self.left_out, self.resumes = begin - len(kept), stored[begin].position
        return iter([*(stored[n] for n in kept), *stored[begin:]])

    def _is_asked(self, stored: StoredRecord) -> bool:
        if self._attempt is None or stored.kind != PodDecided.__name__:
            return False
        record = stored.record
        return isinstance(record, PodDecided) and record.attempt == self._attempt
