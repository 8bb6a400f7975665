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
    (``cause``). ``unreserved`` is the end of the reservation that it made, if that was given up."""

    pod: LoggedPod
    position: int
    cause: int
    decided: PodDecided
    unreserved: PodUnreserved | None


def asked_attempt(evidence: Evidence, name: str, attempt: int | None) -> AskedAttempt:
    """Attempt number ``attempt`` of a pod, by default the last. ``name`` is as for ``explain``.
    Raises InputError, also if there was no attempt, and NoPodError."""
    pod, _ = find_pod(evidence, name)
    decoded = [(stored, stored.record) for stored in evidence.records(pod)]
    made = [
        (place, stored, record)
        for place, (stored, record) in enumerate(decoded)
        if isinstance(record, PodDecided)
    ]
    index = attempt_index([record.attempt for *_, record in made], attempt, pod)
    if index is None:
        raise undecided_error("--why-not", pod.full_name, (record for _, record in decoded))
    place, stored, decided = made[index]
    later = (record for _, record in decoded[place + 1 :])
    own = takewhile(lambda record: not isinstance(record, PodDecided), later)
    unreserved = next((record for record in own if isinstance(record, PodUnreserved)), None)
    return AskedAttempt(pod, stored.position, stored.cause, decided, unreserved)
