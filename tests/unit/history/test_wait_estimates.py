"""How much longer pods wait: estimates from past waits, and how often they were right."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.port import StoredRecord
from eventsched.history.explain.evidence import uid_key
from eventsched.history.past_state.past_waits import PastWait, PastWaits, scanned_waits
from eventsched.history.past_state.wait_estimates import (
    FEWEST,
    EstimateErrors,
    WaitEstimate,
    backtest,
    estimate,
    estimates,
)
from eventsched.output.queues.queue_output import estimate_text
from tests.builders import SECOND, make_pod
from tests.properties.test_determinism import simulate

FIT = ("NodeResourcesFit",)
CONTENDED = "nodes=10,pods=300,shape=tight,seed=2,rate=3,runtime=100,waves=100"
"""In waves more pods arrive than there is room for; they wait for minutes."""


def over(*seconds: int) -> list[PastWait]:
    return [PastWait(length * SECOND, is_over=True) for length in seconds]


def log(*happened: tuple[int, Record]) -> list[StoredRecord]:
    """A log with these records, at seconds from 1 on."""
    return [
        StoredRecord.of(LogEntry(position, (1 + at) * SECOND, position, record))
        for position, (at, record) in enumerate(happened)
    ]


def queued(uid: str, cause: str = "PodAdd", *rejectors: str) -> PodQueued:
    queue = Queue.UNSCHEDULABLE if rejectors else Queue.ACTIVE
    return PodQueued(uid=uid, queue=queue, cause=cause, rejectors=rejectors)


def placed(uid: str) -> PodDecided:
    return PodDecided(uid=uid, attempt=1, outcome=Outcome.SCHEDULED, node="n", row=0)


def test_the_median_and_the_interval_of_waits_that_are_over() -> None:
    found = estimate(over(*range(1, 101)), 0)
    assert found == WaitEstimate(100, 10 * SECOND, 50 * SECOND, 90 * SECOND)


def test_only_waits_that_lasted_as_long_count() -> None:
    """A pod that has waited 60 s is one of the 41 that waited 60 to 100 s."""
    found = estimate(over(*range(1, 101)), 60 * SECOND)
    assert found == WaitEstimate(41, 4 * SECOND, 20 * SECOND, 36 * SECOND)
    assert estimate(over(*range(1, 101)), 90 * SECOND) == WaitEstimate(11)


def test_waits_that_are_not_over_make_it_longer() -> None:
    """Half of the pods still wait after 100 s, so the end of the longer ones is not known."""
    waits = over(*range(1, 51)) + [PastWait(100 * SECOND, is_over=False)] * 50
    assert estimate(waits, 0) == WaitEstimate(100, 10 * SECOND, 50 * SECOND, None)
    seen_early = over(*range(2, 52)) + [PastWait(SECOND, is_over=False)] * 50
    assert estimate(seen_early, 0) == WaitEstimate(100, 6 * SECOND, 26 * SECOND, 46 * SECOND)
    seen_until_then = over(*[1] * 30) + [PastWait(SECOND, is_over=False)] * 70
    assert estimate(seen_until_then, 0) == WaitEstimate(100, SECOND, None, None)
    none_ended = [PastWait(SECOND, is_over=False)] * FEWEST
    assert estimate(none_ended, 0) == WaitEstimate(FEWEST)


@pytest.mark.parametrize(
    ("guess", "text"),
    [
        (WaitEstimate(57, 20 * SECOND, 70 * SECOND, 240 * SECOND),
         "1m10s (20s to 4m00s, of 57 waits)"),
        (WaitEstimate(57, 20 * SECOND, 70 * SECOND), "1m10s (20s or more, of 57 waits)"),
        (WaitEstimate(57, 20 * SECOND), "20s or more (of 57 waits)"),
        (WaitEstimate(57), "no estimate: too few waits ended"),
        (WaitEstimate(19), "no estimate: fewer than 20 like waits"),
        (None, ""),
    ],
)  # fmt: skip
def test_an_estimate_in_words(guess: WaitEstimate | None, text: str) -> None:
    assert estimate_text(guess) == text


def test_the_waits_in_the_records_of_a_log() -> None:
    """Of a pod that is placed, one that gives its node up, one that is deleted, one that waits, and
    one that came before the first record."""
    found = scanned_waits(
        log(
            (0, queued("old", "NodeAdd")),
            (0, queued("a")), (0, queued("b")), (0, queued("c")), (5, queued("d")),
            (1, queued("a", "AttemptFailed", *FIT)), (1, queued("b", "AttemptFailed", *FIT)),
            (4, placed("a")), (4, placed("b")), (5, records.PodUnreserved(uid="b", node="n")),
            (6, records.PodBound(uid="a", node="n", attempt=1)),
            (7, records.PodUpdated(pod=make_pod("a", node_name="n"))),
            (8, records.PodDeleted(uid="a")), (9, records.PodDeleted(uid="c")),
            (50, records.PodBound(uid="b", node="n", attempt=1)),
        ),
        position=14, now=21 * SECOND,
    )  # fmt: skip
    a, b = PastWait(4 * SECOND, is_over=True), PastWait(20 * SECOND, is_over=False)
    c, d = PastWait(9 * SECOND, is_over=False), PastWait(15 * SECOND, is_over=False)
    assert found.lengths == {(): [a, b, c, d], FIT: [a, b]}
    assert found.began[uid_key("d")] == 6 * SECOND


def test_estimates_of_pods_whose_begin_is_known() -> None:
    past = PastWaits({FIT: over(*range(1, 101))}, {uid_key("a"): 40 * SECOND})
    asked = {
        "a": (FIT, 0), "b": (FIT, 100 * SECOND), "c": (FIT, None), "d": (("Other",), 1),
        "e": (FIT, 0),
    }  # fmt: skip
    found = estimates(asked, past, 100 * SECOND)
    assert found == {
        "a": WaitEstimate(41, 4 * SECOND, 20 * SECOND, 36 * SECOND),
        "b": WaitEstimate(100, 10 * SECOND, 50 * SECOND, 90 * SECOND),
        "d": WaitEstimate(0),
        "e": WaitEstimate(1),  # it came at the beginning of a simulation
    }


def test_what_became_of_an_estimate_is_counted() -> None:
    guess, errors = WaitEstimate(20, 10, 20, 30), EstimateErrors()
    for rest in (5, 10, 30, 31):
        errors.take(guess, PastWait(rest, is_over=True))
    errors.take(guess, PastWait(31, is_over=False))
    errors.take(guess, PastWait(20, is_over=False))
    errors.take(WaitEstimate(3), PastWait(20, is_over=True))
    errors.take(WaitEstimate(20, 10), PastWait(20, is_over=True))  # half of the waits did not end
    counts = {name: value for name, value in vars(errors).items() if name != "errors"}
    assert counts == {"inside": 2, "below": 1, "above": 2, "unknown": 1, "missing": 2}
    assert errors.errors == [15, 10, 10, 11]
    assert errors.share_inside == 0.4


def test_the_real_wait_is_mostly_within_the_interval() -> None:
    """docs/how-to/ask-the-past.md has the figures of this history and of larger ones."""
    entries: Any = list(simulate(CONTENDED)[1].read())
    found = backtest(entries, 100)
    assert found.inside + found.below + found.above > 100
    assert found.missing > 0
    assert 0.7 < found.share_inside < 0.95
