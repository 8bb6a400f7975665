"""One decoded item of a list or a watch."""

from typing import NamedTuple

from eventsched.cluster.messages import Seen


class Decoded(NamedTuple):
    """What a list or a watch says of one object. ``key`` is a pod's uid, a node's name,
    ``namespace/name`` or the name of others. If ``seen`` is None the object is gone (deleted, or
    a pod that has finished) or, with a ``problem``, cannot be read; ``name`` is for people then."""

    key: str
    version: int
    seen: Seen | None = None
    problem: str = ""
    name: str = ""
    raw: bytes = b""
    """The object's own bytes, without managedFields, if they are kept."""
