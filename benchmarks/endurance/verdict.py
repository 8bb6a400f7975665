"""The verdict: is each series at the end within 10 % of its value after the first week?"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.endurance.samples import Sample

WEEK = 7
TOLERANCE = 0.10
SERIES = {
    "cpu_ms": "CPU per attempt, ms",
    "rss_mb": "memory (RSS), MB",
    "snapshot_kb": "snapshot, kB",
    "database_mb": "database, MB",
    "restart_ms": "restart, ms",
}


@dataclass(frozen=True)
class Comparison:
    """A series: the medians of its second week and of its last week."""

    name: str
    after_first_week: float
    at_the_end: float

    @property
    def ratio(self) -> float:
        """The end in terms of the beginning."""
        return self.at_the_end / self.after_first_week

    @property
    def is_level(self) -> bool:
        """Whether the end is within the tolerance."""
        return abs(self.ratio - 1) <= TOLERANCE


def comparisons(taken: Sequence[Sample]) -> list[Comparison]:
    """Each series compared; none if there are fewer than three weeks."""
    if len(taken) < 3 * WEEK:
        return []
    return [
        Comparison(
            name,
            median(getattr(sample, name) for sample in taken[WEEK : 2 * WEEK]),
            median(getattr(sample, name) for sample in taken[-WEEK:]),
        )
        for name in SERIES
    ]


def table(taken: Sequence[Sample]) -> str:
    """The verdict as a table in Markdown."""
    compared = comparisons(taken)
    if not compared:
        return f"{len(taken)} days are too few for a verdict: it needs {3 * WEEK}."
    lines = [
        f"| | days {WEEK + 1} to {2 * WEEK} | days {taken[-WEEK].day} to {taken[-1].day} | ratio "
        "| within 10 % |",
        "| --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {SERIES[each.name]} | {each.after_first_week:,.2f} | {each.at_the_end:,.2f} | "
        f"{each.ratio:.2f} | {'yes' if each.is_level else 'no'} |"
        for each in compared
    ]
    return "\n".join(lines)
