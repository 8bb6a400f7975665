"""The attempt that ``--why-not`` asks about. What explains it is not looked for: names, causes of
moves, vectors and preemptions take most of the time of ``explain``.
"""

from itertools import takewhile
from typing import NamedTuple

from eventsched.domain.records import PodDecided, PodUnreserved
from eventsched.history.explain.evidence import Evidence, LoggedPod
from eventsched.history.explain.explanation import attempt_index, find_pod
from eventsched.history.undecided_pods import undecided_error


class AskedAttempt(NamedTuple):
    """An attempt of a pod: its record at ``position``, and the position of what started it
    (``cause``). ``unreserved`` is how its reservation of the node in question was given up, if it
    was."""

    pod: LoggedPod
    position: int
    cause: int
    decided: PodDecided
    unreserved: PodUnreserved | None


def asked_attempt(evidence: Evidence, name: str, attempt: int | None, node: str) -> AskedAttempt:
    """Attempt number ``attempt`` of a pod, by default the last, for a question about a node.
    ``name`` is as for ``explain``. Raises InputError, also if there was no attempt, and
    NoPodError."""
    pod, _ = find_pod(evidence, name)
    made = evidence.attempts(pod)
    index = attempt_index([number for _, number in made], attempt, pod)
    if index is None:
        recorded = (stored.record for stored in evidence.records(pod))
        raise undecided_error("--why-not", pod.full_name, recorded)
    position, _ = made[index]
    stored = evidence.records_at([position])[position]
    decided = stored.record
    assert isinstance(decided, PodDecided)
    unreserved = _unreserved(evidence, pod, position) if decided.node == node else None
    return AskedAttempt(pod, position, stored.cause, decided, unreserved)


def _unreserved(evidence: Evidence, pod: LoggedPod, position: int) -> PodUnreserved | None:
    """The end of the reservation that the attempt at a position made, if it was given up."""
    later = (each.record for each in evidence.records(pod) if each.position > position)
    own = takewhile(lambda record: not isinstance(record, PodDecided), later)
    return next((record for record in own if isinstance(record, PodUnreserved)), None)
