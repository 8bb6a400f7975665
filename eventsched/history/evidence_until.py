"""The evidence for an explanation as it was at a position: what came later is left out. Of a pod
with very many records, it is the newest ones."""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import Detail, ScoreColumn, Verdict
from eventsched.eventlog.port import StoredRecord
from eventsched.history.explain.evidence import Evidence, LoggedPod
from eventsched.history.explain.explanation import Explanation, Gap, NoPodError, explain


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
"""The newest records of a pod that are kept for an answer: some 300 attempts."""
_FIRST = 2
"""How many of its first records are there in any case: that it was added, and came to a queue."""
_AROUND = 20
"""Records before and after an attempt that is asked for."""


class NewestEvidence(EvidenceUntil):
    """The evidence with the newest records of a pod only, if it has very many: so an answer, and
    what is kept in memory for it, has a bound. The first records are there, too, and those around
    ``attempt``. ``gaps`` are where others of the first pod that was asked for are left out."""

    def __init__(self, evidence: Evidence, attempt: int | None = None) -> None:
        super().__init__(evidence, sys.maxsize)
        self._attempt = attempt
        self._pod: LoggedPod | None = None
        self.gaps: tuple[Gap, ...] = ()

    def records(self, pod: LoggedPod) -> Iterator[StoredRecord]:
        """See Evidence."""
        self._pod = self._pod or pod
        kept, newest, gaps = self._kept(pod)
        if pod == self._pod:
            self.gaps = tuple(gaps)
        return iter([*kept, *newest])

    def _kept(self, pod: LoggedPod) -> tuple[list[StoredRecord], deque[StoredRecord], list[Gap]]:
        """The first records and those around the attempt, the newest ones, and the gaps."""
        kept: list[StoredRecord] = []
        gaps: list[Gap] = []
        newest: deque[StoredRecord] = deque()
        before: deque[StoredRecord] = deque(maxlen=_AROUND)
        left_out = after = 0
        is_found = False
        for stored in self._evidence.records(pod):
            newest.append(stored)
            if len(newest) <= MOST_RECORDS:
                continue
            old = newest.popleft()
            if len(kept) < _FIRST:
                kept.append(old)
            elif after:
                kept.append(old)
                after -= 1
            elif not is_found and self._is_asked(old):
                is_found, after = True, _AROUND
                around = [*before, old]
                if left := left_out - len(before):
                    gaps.append(Gap(around[0].position, left))
                kept += around
                left_out = 0
            else:
                before.append(old)
                left_out += 1
        if left_out:
            gaps.append(Gap(newest[0].position, left_out))
        return kept, newest, gaps

    def _is_asked(self, stored: StoredRecord) -> bool:
        if self._attempt is None or stored.kind != PodDecided.__name__:
            return False
        record = stored.record
        return isinstance(record, PodDecided) and record.attempt == self._attempt


def explain_newest(
    evidence: Evidence,
    name: str,
    attempt: int | None = None,
    node: str | None = None,
    recompute: Callable[[int], Detail] | None = None,
) -> Explanation:
    """Explains a pod as ``explain`` does, by the newest of its records if it has very many. Raises
    InputError."""
    newest = NewestEvidence(evidence, attempt)
    explained = explain(newest, name, attempt, node, recompute)
    return replace(explained, gaps=newest.gaps)
