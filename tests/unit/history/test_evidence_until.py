"""Which records of a pod are kept, if it has very many."""

from types import SimpleNamespace
from typing import Any

import pytest

from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.port import StoredRecord
from eventsched.history import evidence_until
from eventsched.history.evidence_until import NewestEvidence
from eventsched.history.explain.evidence import LoggedPod


@pytest.mark.parametrize("asked", [None, 0, 1, 5, 30, 69, 98, 99])
@pytest.mark.parametrize("count", [1, 9, 10, 11, 12, 13, 100])
def test_what_is_kept_of_a_pods_records(
    monkeypatch: pytest.MonkeyPatch, count: int, asked: int | None
) -> None:
    monkeypatch.setattr(evidence_until, "MOST_RECORDS", 10)
    monkeypatch.setattr(evidence_until, "_AROUND", 3)
    every = [
        StoredRecord.of(
            LogEntry(place, 0, 0, PodDecided(uid="a", attempt=place, outcome=Outcome.ERROR))
        )
        for place in range(count)
    ]
    pod = LoggedPod("a", "default", "a", 0)
    source: Any = SimpleNamespace(records=lambda pod: iter(every))
    evidence = NewestEvidence(source, asked)
    kept = [each.position for each in evidence.records(pod)]
    begin = max(0, count - 10)
    around = range(-1) if asked is None else range(asked - 3, asked + 4)
    if asked is not None and (asked >= begin or asked < 2):
        around = range(-1)  # it is there in any case
    expected = {*range(min(2, begin)), *range(begin, count), *around} & set(range(count))
    assert kept == sorted(expected)
    left = [place for place in range(count) if place not in expected]
    after = {next(e for e in kept if e > place) for place in left}
    assert [gap.position for gap in evidence.gaps] == sorted(after)
    assert sum(gap.left_out for gap in evidence.gaps) == len(left)
