"""What a start says about its own duration."""

import subprocess
import sys
import time

from structlog.testing import capture_logs

from eventsched.process.start_times import StartClock, StartTimes, process_began


def test_durations_of_the_steps() -> None:
    times = StartTimes(
        imported=1.5, connected=1.75, listed=3.0, caught_up=2.5, elected=3.25, leading=4.0
    )
    assert times.durations() == {
        "total": 4.0,
        "imports": 1.5,
        "connecting": 0.25,
        "lists": 1.25,
        "log": 0.75,
        "lease": 0.25,
        "takeover": 0.75,
    }


def test_a_replica_that_follows_for_long_waits_for_the_lease() -> None:
    times = StartTimes(
        imported=1.0, connected=1.0, listed=2.0, caught_up=3.0, elected=60.0, leading=61.0
    )
    assert times.durations()["lease"] == 57.0


def test_the_process_began_before_its_first_line() -> None:
    code = (
        "import time; began = time.monotonic()\n"
        "from eventsched.process.start_times import process_began\n"
        "print(process_began() - began)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, timeout=60
    )
    assert -30.0 < float(printed.stdout) <= 0.02  # the kernel counts in hundredths


def test_the_beginning_does_not_move() -> None:
    first = process_began()
    assert abs(process_began() - first) < 0.05
    assert first < time.monotonic()


def test_the_first_attempt_is_reported_once() -> None:
    clock = StartClock()
    for step in ("imported", "connected", "listed"):
        clock.note(step)
    with capture_logs() as lines:
        clock.report(caught_up_at=time.monotonic(), takeover=0.0)
        clock.report(caught_up_at=time.monotonic(), takeover=0.0)  # the next term
    [line] = lines
    assert line["event"] == "started"
    steps = ("imports", "connecting", "lists", "log", "lease", "takeover")
    assert all(0 <= line[step] <= line["total"] for step in steps)
