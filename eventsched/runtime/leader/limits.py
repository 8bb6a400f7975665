"""How much a leader does at once."""

from typing import NamedTuple

from eventsched.runtime.effects.event_outbox import MAX_CONCURRENT_REPORTS, MAX_WAITING_REPORTS


class Limits(NamedTuple):
    """A batch is closed at ``records`` records, at ``size`` bytes, or when no other batch is under
    way. At most ``touches`` and ``reports`` requests of these kinds are under way, and
    at most ``reports_waiting`` reports wait. A snapshot is
    made every ``snapshot_every`` records (None: never). A batch with only changes of the
    cluster may wait for ``linger`` (µs); any other record ends the wait."""

    records: int = 256
    size: int = 1 << 20
    touches: int = 64
    reports: int = MAX_CONCURRENT_REPORTS
    reports_waiting: int = MAX_WAITING_REPORTS
    snapshot_every: int | None = None
    linger: int = 0
