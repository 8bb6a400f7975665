"""Measurements of nodes as plugins read them: of each source the newest values, while they hold."""

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.records.stimuli import SamplesTaken

Floats = NDArray[np.float64]

_NEVER = 2**63


class Samples:
    """What ``SamplesTaken`` records have told, by source. ``version`` rises with each change."""

    def __init__(self) -> None:
        self.version = 0
        self._held: dict[str, SamplesTaken] = {}
        self._now = 0
        self._ends = _NEVER
        self._columns: dict[str, tuple[int, int, Floats]] = {}

    def take(self, taken: SamplesTaken) -> None:
        """Newer values take the place of those before; without any, these go on holding."""
        if taken.values:
            self._held[taken.source] = taken
            self._changed()

    def advance(self, now: int) -> None:
        """Drops what does not hold any more at a time (µs)."""
        self._now = now
        if now >= self._ends:
            self._changed()

    def held(self) -> list[SamplesTaken]:
        """What holds now, by the names of the sources."""
        return [self._held[source] for source in sorted(self._held)]

    def largest(self, source: str) -> float:
        """The largest value of a source; 0 where there is none."""
        held = self._held.get(source)
        return 0.0 if held is None else max(held.values.values())

    def column(self, source: str, rows: dict[str, int], size: int) -> Floats:
        """float64[size]: the values of a source by node row, NaN where there is none; not to be
        written to. ``rows`` has the row of each node by its name."""
        version, length, column = self._columns.get(source, (-1, -1, None))
        if column is None or (version, length) != (self.version, size):
            column = np.full(size, np.nan)
            held = self._held.get(source)
            for name, value in held.values.items() if held is not None else ():
                if name in rows:
                    column[rows[name]] = value
            self._columns[source] = self.version, size, column
        return column

    def _changed(self) -> None:
        self.version += 1
        held = self._held.values()
        self._held = {
            each.source: each for each in held if not each.until or each.until > self._now
        }
        self._ends = min((each.until for each in self._held.values() if each.until), default=_NEVER)
