"""The line that says how a run goes."""

from eventsched.domain.records import Queue
from eventsched.output.terminal.progress import ProgressLine
from eventsched.runtime.simulation.run_counters import RunCounters


def test_the_line_has_pods_rate_queues_and_virtual_time() -> None:
    tally = RunCounters(decided=50, now=90_000_000, queues={Queue.ACTIVE: 7, Queue.BACKOFF: 2})
    line = ProgressLine(200).line(tally, elapsed=2.0)
    assert line == (
        "[#####...............] 50/200 pods decided  25 pods/s  "
        "active 7  backoff 2  unschedulable 0  gated 0  t=1m30s"
    )
