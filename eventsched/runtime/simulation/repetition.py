"""Whether a simulation only repeats itself: timers bring the same pods back to the same end.

A pod that waits before its bind for something that nobody in the simulated cluster will do (a
provisioner that is not played, a webhook, an operator) gives up at its deadline, backs off, and
waits again, as long as virtual time goes on. The run ends when

- the cluster has nothing to happen: no arrival, end, outcome or change of an object is to come;
- every pod that a timer brings back (it backs off, or waits at Permit or for PreBind) has ended its
  last REPEATS rounds in the same way: the same node, plugin and words, by way of the same queue;
- nothing else has happened in between: any record that is not part of such a round starts the
  count again.

Pods that wait for a change are not looked at: without one only the flush could try them again. All
of it is counted from the records, so that a run which goes on from its log ends at the same place.
"""

from collections.abc import Iterator, Mapping

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue, Record
from eventsched.domain.state.scheduler_state import PodState, SchedulerState

REPEATS = 10
"""Rounds in a row with the same end; more than the errors after which a pod is parked."""

_PARTS = frozenset(
    {
        records.TimePassed, PodQueued, PodDecided, records.PermitGranted, records.PodSkipped,
        records.PreparationIntended, records.WriteSucceeded, records.WriteFailed,
        records.BindIntended, records.PodUnreserved,
    }
)  # fmt: skip
"""What a round consists of."""

Rounds = dict[str, list[str | int]]
"""By uid: how the last round ended, how often in a row, and the end of the round under way."""


def follow(rounds: Rounds, record: Record) -> None:
    """Takes in the next record."""
    if type(record) not in _PARTS:
        rounds.clear()
    elif isinstance(record, PodDecided):
        if record.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
            _end(rounds, record)
    elif isinstance(record, records.PodUnreserved):
        _end(rounds, record)
    elif isinstance(record, PodQueued):
        _close(rounds, record)


def _end(rounds: Rounds, ended: PodDecided | records.PodUnreserved) -> None:
    found = rounds.setdefault(ended.uid, ["", 0, ""])
    found[2] = f"{ended.node}\n{ended.plugin}\n{ended.message}"


def _close(rounds: Rounds, queued: PodQueued) -> None:
    found = rounds.get(queued.uid)
    if found is None or not found[2]:
        return
    end, found[2] = f"{queued.queue}\n{queued.cause}\n{found[2]}", ""
    found[1] = int(found[1]) + 1 if found[0] == end else 1
    found[0] = end


def repeating(rounds: Mapping[str, list[str | int]], state: SchedulerState) -> list[PodState]:
    """The pods whose rounds only repeat, where no other pod has a timer; else none."""
    if not any(int(count) >= REPEATS for _, count, _ in rounds.values()):
        return []
    found = list(_timed(state))
    if all(int(rounds.get(each.pod.uid, ("", 0))[1]) >= REPEATS for each in found):
        return found
    return []


def _timed(state: SchedulerState) -> Iterator[PodState]:
    """The pods that time alone brings on."""
    for uid, pod in state.pods.items():
        if pod.queue is Queue.BACKOFF or uid in state.reservations:
            yield pod
