"""One decoded item of a list or a watch."""

from typing import NamedTuple

from eventsched.cluster.messages import Seen


class Decoded(NamedTuple):
    """One object of a list, a watch or an answer.

    ``key`` is a pod's uid; for other objects ``namespace/name``, or the name if there is no
    namespace. If ``seen`` is None, the object is gone (deleted, or a finished pod) or cannot be
    decoded. In the second case ``problem`` is the reason, and ``name`` is the object's name for
    messages."""

    key: str
    version: int
    seen: Seen | None = None
    problem: str = ""
    name: str = ""
    raw: bytes = b""
    """The object's JSON without managedFields, if it is kept."""
