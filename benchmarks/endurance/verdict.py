"""The verdict: is each series at the end within 10 % of its value after the first week?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.endurance.samples import Sample

WEEK = 7
TOLERANCE = 0.10
SERIES = {
    "cpu": "CPU per attempt, in reference work",
    "rss_mb": "memory (RSS), MB",
    "snapshot_kb": "snapshot, kB",
    "database_mb": "database, MB",
    "restart": "CPU of a restart, in reference work",
}
"""What is judged: of a time, its ratio to that of the reference work in the same process, so that
other work on the machine does not change it."""
TIMES = {
    "cpu_ms": "CPU per attempt, ms",
    "restart_ms": "CPU of a restart, ms",
    "reference_ms": "CPU of the reference work, ms",
}
"""What is shown beside it."""


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


def comparisons(taken: Sequence[Sample], names: Iterable[str] = SERIES) -> list[Comparison]:
    """Each series compared; none if there are fewer than three weeks."""
    if len(taken) < 3 * WEEK:
        return []
    return [
        Comparison(
            name,
            median(getattr(sample, name) for sample in taken[WEEK : 2 * WEEK]),
            median(getattr(sample, name) for sample in taken[-WEEK:]),
        )
        for name in names
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
        f"{_figures(SERIES[each.name], each)} {'yes' if each.is_level else 'no'} |"
        for each in compared
    ]
    lines += [f"{_figures(TIMES[each.name], each)} |" for each in comparisons(taken, TIMES)]
    return "\n".join(lines)


def _figures(name: str, each: Comparison) -> str:
    return f"| {name} | {each.after_first_week:,.2f} | {each.at_the_end:,.2f} | {each.ratio:.2f} |"
