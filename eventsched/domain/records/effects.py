"""Effects: what a record demands of the world. Each is sent once its record is committed."""

from eventsched.domain.objects import Frozen
from eventsched.domain.records.object_writes import Write


class Bind(Frozen, frozen=True):
    """Bind a pod to a node. ``decision`` is the position in the stream of the intent or its
    retry."""

    uid: str
    namespace: str
    name: str
    node: str
    attempt: int
    decision: int


class Evict(Frozen, frozen=True):
    """Delete a pod to make room for another pod (``preemptor``, a uid). ``decision`` is the
    position in the stream of the intent."""

    uid: str
    namespace: str
    name: str
    node: str
    preemptor: str
    decision: int


class Prepare(Frozen, frozen=True):
    """Make a change that the bind of a pod's attempt waits for. ``decision`` is the
    position in the stream of the record that demands it."""

    uid: str
    attempt: int
    decision: int
    write: Write


class Consult(Frozen, frozen=True):
    """Ask an extender the open question. ``decision`` is the position in the stream of
    the record that demands it."""

    uid: str
    attempt: int
    decision: int


Effect = Bind | Evict | Prepare | Consult
