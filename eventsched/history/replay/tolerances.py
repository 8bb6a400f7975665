"""Differences between a log and its replay that have a known cause in an older version.

Each has a name, which a replay reports with the number of steps that differed. The log is right:
the replay continues from the state that the log gives.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import numpy as np

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.objects import PodSpec, Resources
from eventsched.domain.objects.texts import REPLACEMENT
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import StoredRecord

_ESCAPED = b"\\ufffd"
_EDGE = 2**52
"""0.1 computed with smaller numbers, their sums and their shares as this version does."""


class Tolerance(StrEnum):
    """Why a step may differ."""

    ESCAPED_NUL = "escaped-nul"
    """0.1 wrote U+0000 as the escape of U+FFFD; this version writes the character itself when it
    encodes the record again. The records mean the same."""
    EDGES_OF_INT64 = "edges-of-int64"
    """0.1 rounded quotients down, limited a pod's sums to 2**63 - 1 and computed shares in floats,
    so numbers of 2**52 and more on a node or in a pod led to other decisions."""


def tolerance(
    step: Sequence[StoredRecord], replayed: Sequence[StoredRecord], state: SchedulerState,
    stimuli: Iterable[str],
) -> Tolerance | None:  # fmt: skip
    """The known cause of a difference between a logged step and its replay; None if there is none.
    ``state`` is the state after the replayed step; ``stimuli`` are the kinds of records that no
    engine makes."""
    if [_unescaped_record(r) for r in step] == [_unescaped_record(r) for r in replayed]:
        return Tolerance.ESCAPED_NUL
    if step[0].kind in stimuli and (
        not replayed or _unescaped_record(step[0]) != _unescaped_record(replayed[0])
    ):
        return None
    is_old = bool(state.in_force) and Behaviour.SPARES_OTHER_NODES not in state.flags
    return Tolerance.EDGES_OF_INT64 if is_old and has_edges(state) else None


def unescaped(body: bytes) -> bytes:
    """The JSON with U+FFFD as the character itself."""
    if _ESCAPED not in body:
        return body
    parts = body.split(b"\\\\")  # an escaped backslash begins no other escape
    return b"\\\\".join(part.replace(_ESCAPED, REPLACEMENT.encode()) for part in parts)


def escaped(body: bytes) -> bytes:
    """The JSON as 0.1 would have written it if every U+FFFD in it had been U+0000."""
    return body.replace(REPLACEMENT.encode(), _ESCAPED)


def has_edges(state: SchedulerState) -> bool:
    """Whether a node or a pod has numbers with which 0.1 may have computed differently."""
    table = state.nodes
    books = table.books[: table.size]
    if bool(np.any((books >= _EDGE) | (books <= -_EDGE))):
        return True
    if any(abs(n) >= _EDGE for amounts in table.unoffered.values() for n in amounts.values()):
        return True
    specs = {id(pod_state.pod.spec): pod_state.pod.spec for pod_state in state.pods.values()}
    if any(_is_large(spec) for spec in specs.values()):
        return True
    nodes = (node for node in table.nodes if node is not None)
    return any(image.size >= _EDGE for node in nodes for image in node.images)


def _is_large(spec: PodSpec) -> bool:
    amounts: list[Resources] = [
        *(container.requests for container in (*spec.init_containers, *spec.containers)),
        spec.overhead,
        spec.requests or {},
    ]
    return any(abs(number) >= _EDGE for resources in amounts for number in resources.values())


def _unescaped_record(stored: StoredRecord) -> StoredRecord:
    return stored._replace(body=unescaped(stored.body))
