"""What a replica notices in the log that it follows and writes: pods that wait too long, and
preemptions that do not help. tests/postgres/test_anomalies.py has the same histories for the
views."""

from collections.abc import Mapping

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import Behaviour
from eventsched.domain.records import Outcome, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.stimuli import SHADOWS
from eventsched.domain.records.verdicts import STORED_EXCLUDED, STORED_NOT_EVALUATED
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.symptoms.long_waits import LongWaits, could_fit
from eventsched.runtime.symptoms.preemption_anomalies import LOOKED_AT, PreemptionAnomalies
from tests.builders import SECOND, make_pod
from tests.postgres.anomalous import (
    FULL,
    TOO_SMALL,
    Diary,
    evicted_again,
    nominated_again,
    starving,
)

PROFILE = "default-scheduler"


class Followed:
    """What a replica notices in a diary, in batches of five that also end where a victim is
    evicted: it leaves only after the commit (ADR 6). It leads from position ``own_from`` on, and
    has not seen the record at ``gap``."""

    def __init__(self, diary: Diary, *, own_from: int = 0, gap: int = -1) -> None:
        self.waits, self.anomalies = LongWaits(), PreemptionAnomalies()
        self.state = SchedulerState()
        batch: list[LogEntry] = []
        for entry in diary.entries:
            self.state.apply(entry.record, entry.at)
            if entry.position != gap:
                batch.append(entry)
            is_full = len(batch) == 5 or isinstance(entry.record, records.PreemptionDecided)
            if is_full or entry is diary.entries[-1] or entry.position + 1 == own_from:
                self.waits.follow(batch, self.state)
                is_own = entry.position >= own_from
                self.anomalies.follow(batch, self.state, is_own=is_own)
                batch.clear()

    @property
    def long_waits(self) -> tuple[int, int]:
        """How many pods starve, and how many no node would take."""
        found = self.waits.counts(self.state)
        return found.starving.get(PROFILE, 0), found.unplaceable.get(PROFILE, 0)

    @property
    def since(self) -> float | None:
        """From when on the log was followed (s)."""
        return self.waits.counts(self.state).since

    @property
    def counts(self) -> Mapping[str, int]:
        """Preemptions that did not help, by kind, without zeros."""
        return {kind: count for kind, count in self.anomalies.counts.items() if count}


def test_a_pod_starves_once_it_has_waited_ten_minutes() -> None:
    diary = starving()
    assert Followed(diary).long_waits == (0, 0)
    diary.minute = 10
    diary.is_refused("huge")
    assert Followed(diary).long_waits == (1, 0)
    diary.minute = 19
    diary.is_placed(diary.arrives("later"), "n1")
    assert Followed(diary).long_waits == (3, 0)
    diary.is_placed("huge", "n2")
    diary.goes("gated", "later")
    assert Followed(diary).long_waits == (0, 0)


def test_a_pod_that_no_node_would_take_does_not_starve() -> None:
    """It counts apart, whether others overtook it or not, until a node could take it."""
    diary = Diary("n1", "n2")
    diary.arrives("selects nothing")
    diary.arrives("lacks a claim")
    diary.minute = 10
    diary.is_refused("selects nothing", TOO_SMALL)
    diary.is_refused("lacks a claim", by_all=False)
    assert Followed(diary).long_waits == (0, 2)
    diary.is_placed(diary.arrives("later"), "n1")
    assert Followed(diary).long_waits == (0, 2)
    diary.is_refused("selects nothing", TOO_SMALL, FULL)
    assert Followed(diary).long_waits == (1, 1)


@pytest.mark.parametrize(
    ("outcome", "feasible", "counts", "expected"),
    [
        (Outcome.UNSCHEDULABLE, 0, {FULL: 1, TOO_SMALL: 9}, True),
        (Outcome.UNSCHEDULABLE, 0, {TOO_SMALL: 9, STORED_EXCLUDED: 3}, False),
        (Outcome.UNSCHEDULABLE, 0, {TOO_SMALL: 9, STORED_NOT_EVALUATED: 3}, True),
        (Outcome.UNSCHEDULABLE, 1, {TOO_SMALL: 9}, True),  # Permit refused
        (Outcome.UNSCHEDULABLE, 0, {}, False),  # PreFilter refused
        (Outcome.ERROR, 0, {}, None),
    ],
)
def test_what_an_attempt_says(
    outcome: Outcome, feasible: int, counts: dict[int, int], expected: bool | None
) -> None:
    decided = records.PodDecided(
        uid="p", attempt=1, outcome=outcome, feasible=feasible, counts=tuple(counts.items())
    )
    diary = Followed(Diary("n1"))
    assert could_fit(decided, diary.state.verdicts) is expected


@pytest.mark.parametrize(
    ("rounds", "pause", "expected"), [(2, 1, 0), (3, 31, 0), (3, 29, 1), (5, 1, 3)]
)
def test_a_workload_that_is_evicted_again_and_again(
    rounds: int, pause: float, expected: int
) -> None:
    """The third eviction of a chain counts, and each one after it."""
    found = Followed(evicted_again(rounds, pause)).counts
    assert found == ({"evicted_again": expected} if expected else {})


@pytest.mark.parametrize(
    ("times", "pause", "expected"), [(2, 1, 0), (3, 31, 0), (3, 30, 1), (6, 1, 4)]
)
def test_a_pod_that_is_nominated_again_and_again(times: int, pause: float, expected: int) -> None:
    found = Followed(nominated_again(times, pause)).counts
    assert found == ({"nominated_again": expected} if expected else {})


@pytest.mark.parametrize(
    ("end", "expected"), [("lands", 0), ("elsewhere", 1), ("goes", 1), ("all stay", 0)]
)
def test_victims_that_left_for_nothing(end: str, expected: int) -> None:
    diary = Diary("n1", "n2")
    for name in ("left", "going", "stays"):
        diary.is_placed(diary.arrives(name), "n1")
    boss = diary.arrives("boss", priority=9)
    diary.preempts(boss, "n1", "left", "going", "stays", leaving=("going",))
    diary.goes("going", *(("left",) if end != "all stay" else ()))
    if end == "goes":
        diary.goes(boss)
    else:
        diary.is_placed(boss, "n1" if end == "lands" else "n2")
    diary.goes("stays")
    found = Followed(diary).counts
    assert found == ({"preempted_for_nothing": 1} if expected else {})


def test_a_shadow_evicts_no_pod() -> None:
    diary = nominated_again(3, 1)
    started = diary.entries[0]
    opening = msgspec.structs.replace(
        started.record, inputs={SHADOWS: PROFILE}, flags=(Behaviour.SHADOWS,)
    )
    diary.entries[0] = started._replace(record=opening)
    diary.goes("web-0", "boss")
    assert Followed(diary).counts == {}


def test_the_next_leader_knows_what_it_has_followed() -> None:
    """Waits and chains go on over a term. What another leader has caused is not counted again."""
    diary = starving()
    diary.minute = 10
    diary.is_refused("huge")
    diary.note(records.TermBegan(epoch=2, token="00000002"))
    assert Followed(diary).long_waits == (1, 0)
    assert Followed(diary).since == diary.entries[0].at / SECOND
    diary = evicted_again(3, 1)
    before = len(diary.entries)
    diary.note(records.TermBegan(epoch=2, token="00000002"))
    evict_again(diary, 2)
    assert Followed(diary).counts == {"evicted_again": 3}
    assert Followed(diary, own_from=before).counts == {"evicted_again": 2}
    assert Followed(diary, own_from=len(diary.entries)).counts == {}


def test_a_gap_ends_what_is_known() -> None:
    """Waits begin again at the first move after it, and chains break; counts stay."""
    diary = starving()
    diary.minute = 10
    diary.is_refused("huge")
    gap = len(diary.entries)
    diary.note(records.TermBegan(epoch=2, token="00000002"))
    diary.note(records.TermBegan(epoch=3, token="00000003"))
    assert Followed(diary, gap=gap).long_waits == (0, 0)
    assert Followed(diary, gap=gap).since == diary.entries[-1].at / SECOND
    diary.queued("huge", Queue.ACTIVE, "Flush")
    diary.minute = 21
    diary.is_refused("huge")
    diary.is_placed(diary.arrives("later"), "n1")
    assert Followed(diary, gap=gap).long_waits == (1, 0)
    diary = evicted_again(3, 1)
    gap = len(diary.entries)
    diary.note(records.TermBegan(epoch=2, token="00000002"))
    evict_again(diary, 2)
    assert Followed(diary, gap=gap).counts == {"evicted_again": 1}


def evict_again(diary: Diary, times: int) -> None:
    """Pods of ``web`` come and are evicted."""
    for number in range(times):
        diary.is_placed(diary.arrives(f"again-{number}", "web"), "n1")
        diary.preempts(diary.arrives(f"chief-{number}", priority=9), "n1", f"again-{number}")
        diary.goes(f"again-{number}")


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    """But the newest evictions."""
    rounds = LOOKED_AT + 10
    diary = evicted_again(rounds, 0.001)
    waiting = diary.arrives("waits", priority=9)
    for node in ("n1", "n1"):
        web = diary.arrives(f"web on {len(diary.entries)}", "web")
        diary.is_placed(web, node)
        diary.preempts(waiting, node, web)
        diary.goes(web)
    followed = Followed(diary)
    anomalies = followed.anomalies
    assert len(anomalies._evictions) == LOOKED_AT
    assert list(anomalies._rooms) == list(anomalies._nominations) == [waiting]
    assert (anomalies._waits_of, list(followed.waits._waits)) == ({}, [waiting])
    diary.note(records.PodUpdated(pod=make_pod(waiting, node_name="n1", priority=9)))
    followed = Followed(diary)
    anomalies = followed.anomalies
    assert not anomalies._rooms | anomalies._nominations | anomalies._waits_of
    assert followed.waits._waits == {}
    assert followed.state.now < 3_600 * SECOND
