"""Why a log has no attempt for a pod: each reason has another remedy."""

import pytest

from eventsched.domain import records
from eventsched.domain.records import AnyRecord, PodQueued, Queue
from eventsched.history.undecided_pods import undecided_error
from tests.builders import make_pod

ADDED = records.PodAdded(pod=make_pod(scheduler_name="other"))
PLACED = records.PodUpdated(pod=make_pod(scheduler_name="other", node_name="n3"))
GONE = records.PodDeleted(uid="p1")


def queued(queue: Queue, plugin: str = "", message: str = "") -> PodQueued:
    return PodQueued(uid="p1", queue=queue, cause="PodAdd", plugin=plugin, message=message)


@pytest.mark.parametrize(
    ("recorded", "problem", "remedy"),
    [
        ([ADDED, queued(Queue.ACTIVE)], "no attempt was made for default/p1 yet", "wait"),
        ([ADDED, queued(Queue.GATED, "SchedulingGates", "gate a")],
         "no attempt was made for default/p1: it is gated by SchedulingGates: gate a",
         "remove its scheduling gates"),
        ([ADDED, queued(Queue.GATED, "Mine", "not yet")],
         "no attempt was made for default/p1: it is gated by Mine: not yet", "end that first"),
        ([ADDED, queued(Queue.GATED), queued(Queue.ACTIVE)],
         "no attempt was made for default/p1 yet", "wait"),
        ([ADDED], "default/p1 belongs to another scheduler (other), which has not placed it",
         "see whether other runs, or change its schedulerName"),
        ([ADDED, PLACED], "default/p1 is on n3, and was not decided here",
         "ask without the option"),
        ([ADDED, PLACED, GONE], "default/p1 was on n3, and was not decided here",
         "ask without the option"),
        ([ADDED, queued(Queue.ACTIVE), GONE],
         "no attempt was made for default/p1: it is gone", "name another pod"),
    ],
)  # fmt: skip
def test_why_no_attempt_was_made(recorded: list[AnyRecord], problem: str, remedy: str) -> None:
    error = undecided_error("--why-not", "default/p1", recorded)
    assert (error.where, error.problem, error.remedy) == ("--why-not", problem, remedy)
