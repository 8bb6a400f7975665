"""Differences between a log and its replay that have a known cause in an older version.

Each has a name, which a replay reports with the number of steps that it was needed for. What is
written counts: the replay goes on from there.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.objects import PodSpec, Resources
from eventsched.domain.objects.texts import REPLACEMENT
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import Stored

_ESCAPED = b"\\ufffd"
_EDGE = 2**52
"""Smaller numbers, their sums and their shares were computed in 0.1 as they are now."""


class Tolerance(StrEnum):
    """Why a step may differ."""

    ESCAPED_NUL = "escaped-nul"
    """0.1 wrote U+0000 as the escape of U+FFFD, which is written as the character itself when the
    record is encoded again. The records mean the same."""
    EDGES_OF_INT64 = "edges-of-int64"
    """0.1 rounded quotients down, stopped a pod's sums at 2**63 - 1 and computed shares in floats;
    with numbers of 2**52 and more on a node or in a pod, decisions came out otherwise."""


def tolerance(
    step: Sequence[Stored], came: Sequence[Stored], state: SchedulerState, stimuli: Iterable[str]
) -> Tolerance | None:
    """Why what is written may differ from what came. ``state`` is that after the step was decided
    again; ``stimuli`` are the kinds of records that no engine makes."""
    if [_read(each) for each in step] == [_read(each) for each in came]:
        return Tolerance.ESCAPED_NUL
    given = step[0].kind in stimuli
    if given and (not came or _read(step[0]) != _read(came[0])):
        return None
    old = bool(state.in_force) and Behaviour.SPARES_OTHER_NODES not in state.flags
    return Tolerance.EDGES_OF_INT64 if old and has_edges(state) else None


def unescaped(body: bytes) -> bytes:
    """JSON in which U+FFFD is the character itself."""
    if _ESCAPED not in body:
        return body
    parts = body.split(b"\\\\")  # an escaped backslash begins no other escape
    return b"\\\\".join(part.replace(_ESCAPED, REPLACEMENT.encode()) for part in parts)


def escaped(body: bytes) -> bytes:
    """JSON as 0.1 wrote it if all U+FFFD in it were U+0000."""
    return body.replace(REPLACEMENT.encode(), _ESCAPED)


def has_edges(state: SchedulerState) -> bool:
    """Whether a node or a pod has numbers that 0.1 may have computed otherwise."""
    table = state.nodes
    books = table.books[: table.size]
    if bool(np.any((books >= _EDGE) | (books <= -_EDGE))):
        return True
    if any(abs(n) >= _EDGE for held in table.unoffered.values() for n in held.values()):
        return True
    specs = {id(each.pod.spec): each.pod.spec for each in state.pods.values()}
    if any(_is_large(spec) for spec in specs.values()):
        return True
    nodes = (node for node in table.nodes if node is not None)
    return any(image.size >= _EDGE for node in nodes for image in node.images)


def _is_large(spec: PodSpec) -> bool:
    amounts: list[Resources] = [
        *(each.requests for each in (*spec.init_containers, *spec.containers)),
        spec.overhead,
        spec.requests or {},
    ]
    return any(abs(number) >= _EDGE for each in amounts for number in each.values())


def _read(stored: Stored) -> Stored:
    return stored._replace(body=unescaped(stored.body))
