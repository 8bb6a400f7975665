"""How much a leader does at once."""

from typing import NamedTuple

from eventsched.runtime.effects.event_outbox import AT_ONCE, BACKLOG


class Limits(NamedTuple):
    """A batch is closed at so many ``records``, or at a ``size`` in bytes, or when nothing is under
    way. ``touches`` and ``reports`` are how many are under way at most; a snapshot is made after so
    many records (None: never). News from the cluster alone waits for ``linger`` (µs), or until it
    is in one batch with what somebody waits for."""

    records: int = 256
    size: int = 1 << 20
    touches: int = 64
    reports: int = AT_ONCE
    reports_waiting: int = BACKLOG
    snapshot_every: int | None = None
    linger: int = 0
