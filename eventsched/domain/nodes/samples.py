"""Samples of nodes as plugins read them: the newest values of each source, while they are valid."""

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.records import SamplesTaken

Floats = NDArray[np.float64]

_NEVER = 2**63


class Samples:
    """The newest valid samples by source. ``version`` increases with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._by_source: dict[str, SamplesTaken] = {}
        self._now = 0
        self._ends = _NEVER
        self._columns: dict[str, tuple[tuple[int, int], Floats]] = {}

    def take(self, taken: SamplesTaken) -> None:
        """Replaces the samples of a source. A record without values leaves them as they are."""
        if taken.values:
            self._by_source[taken.source] = taken
            self._changed()

    def advance(self, now: int) -> None:
        """Drops samples that are no longer valid at a time (µs)."""
        self._now = now
        if now >= self._ends:
            self._changed()

    def held(self) -> list[SamplesTaken]:
        """The valid samples, ordered by source."""
        return [self._by_source[source] for source in sorted(self._by_source)]

    def largest(self, source: str) -> float:
        """The largest value of a source; 0 without any."""
        samples = self._by_source.get(source)
        return 0.0 if samples is None else max(samples.values.values())

    def column(self, source: str, rows: dict[str, int], size: int, additions: int) -> Floats:
        """float64[size]: the values of a source by node row, NaN without one; read only. ``rows``
        is node name → row, ``additions`` how many nodes were ever added to it."""
        now = self.version, additions
        version, column = self._columns.get(source, (None, None))
        if column is None or version != now:
            column = np.full(size, np.nan)
            samples = self._by_source.get(source)
            for name, value in samples.values.items() if samples is not None else ():
                if name in rows:
                    column[rows[name]] = value
            self._columns[source] = now, column
        return column

    def _changed(self) -> None:
        self.version += 1
        self._by_source = {
            source: samples
            for source, samples in self._by_source.items()
            if not samples.until or samples.until > self._now
        }
        ends = (samples.until for samples in self._by_source.values() if samples.until)
        self._ends = min(ends, default=_NEVER)
