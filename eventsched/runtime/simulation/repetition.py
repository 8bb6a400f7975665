"""Detects that a simulation only repeats itself: timers retry the same pods with the same result.

A pod may wait before its bind for something that the simulated cluster never does (a provisioner
that is not simulated, a webhook, an operator). It gives up at its deadline, backs off, and waits
again, as long as virtual time goes on. A round is one such attempt. The run ends if all of these
hold:

- The cluster has nothing left to happen: no arrival, end, outcome or change of an object.
- Every pod that a timer retries (it backs off, or waits at Permit or for PreBind) has ended its
last REPEATS rounds in the same way: the same node, plugin and message, through the same queue.
- Nothing else has happened in between: any other record starts the count again.

Pods that wait for a change are ignored, because without a change only the flush retries them. All
this is counted from the records, so that a run that is resumed from its log ends at the same place.
"""

from collections.abc import Iterator, Mapping

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue, Record
from eventsched.domain.state.scheduler_state import PodState, SchedulerState

REPEATS = 10
"""Rounds in a row with the same result; more than the errors after which a pod is parked."""

_ROUND_RECORDS = frozenset(
    {
        records.TimePassed, PodQueued, PodDecided, records.PermitGranted, records.PodSkipped,
        records.PreparationIntended, records.WriteSucceeded, records.WriteFailed,
        records.BindIntended, records.PodUnreserved,
    }
)  # fmt: skip
"""The kinds of records of a round."""

Rounds = dict[str, list[str | int]]
"""By uid: the result of the last round, how often in a row it came, and the result of the round
under way ("" if it has none yet)."""


def on_record(rounds: Rounds, record: Record) -> None:
    """Takes in the next record."""
    if type(record) not in _ROUND_RECORDS:
        rounds.clear()
    elif isinstance(record, PodDecided):
        if record.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
            _end(rounds, record)
    elif isinstance(record, records.PodUnreserved):
        _end(rounds, record)
    elif isinstance(record, PodQueued):
        _close(rounds, record)


def _end(rounds: Rounds, ended: PodDecided | records.PodUnreserved) -> None:
    pod_round = rounds.setdefault(ended.uid, ["", 0, ""])
    pod_round[2] = f"{ended.node}\n{ended.plugin}\n{ended.message}"


def _close(rounds: Rounds, queued: PodQueued) -> None:
    pod_round = rounds.get(queued.uid)
    if pod_round is None or not pod_round[2]:
        return
    result, pod_round[2] = f"{queued.queue}\n{queued.cause}\n{pod_round[2]}", ""
    pod_round[1] = int(pod_round[1]) + 1 if pod_round[0] == result else 1
    pod_round[0] = result


def repeating(rounds: Mapping[str, list[str | int]], state: SchedulerState) -> list[PodState]:
    """The pods whose rounds only repeat, if no other pod has a timer; else none."""
    if not any(int(count) >= REPEATS for _, count, _ in rounds.values()):
        return []
    timed = list(_timed(state))
    if all(int(rounds.get(pod_state.pod.uid, ("", 0))[1]) >= REPEATS for pod_state in timed):
        return timed
    return []


def _timed(state: SchedulerState) -> Iterator[PodState]:
    """The pods that a timer retries."""
    for uid, pod_state in state.pods.items():
        if pod_state.queue is Queue.BACKOFF or uid in state.reservations:
            yield pod_state
