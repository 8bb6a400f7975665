"""Why a log has no attempt for a pod, and what to do."""

from collections.abc import Iterable

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import AnyRecord, PodQueued, Queue

_GATES = "SchedulingGates"


def undecided_error(option: str, full_name: str, recorded: Iterable[AnyRecord]) -> InputError:
    """The error for ``option``, which asks about an attempt for a pod with these records, of which
    none is an attempt."""
    pod, moved, is_gone = None, None, False
    for record in recorded:
        match record:
            case records.PodAdded() | records.PodUpdated():
                pod = record.pod
            case PodQueued():
                moved = record
            case records.PodDeleted():
                is_gone = True
    none_yet = f"no attempt was made for {full_name}"
    if pod is not None and pod.node_name:
        problem = f"{full_name} {'was' if is_gone else 'is'} on {pod.node_name}"
        return InputError(option, f"{problem}, and was not decided here", "ask without the option")
    if is_gone:
        return InputError(option, f"{none_yet}: it is gone", "name another pod")
    if moved is None and pod is not None:
        scheduler = pod.scheduler_name
        problem = f"{full_name} belongs to another scheduler ({scheduler}), which has not placed it"
        return InputError(
            option, problem, f"see whether {scheduler} runs, or change its schedulerName"
        )
    if moved is not None and moved.queue is Queue.GATED:
        by = f" by {moved.plugin}: {moved.message}" if moved.plugin else ""
        ends = "remove its scheduling gates" if moved.plugin in ("", _GATES) else "end that first"
        return InputError(option, f"{none_yet}: it is gated{by}", ends)
    return InputError(option, f"{none_yet} yet", "wait")
