"""A simulation's report for people."""

from eventsched.output.terminal.tables import counted, duration, table
from eventsched.runtime.simulation.outcome import SimulationOutcome

MOST_REASONS = 8
"""Reasons that are shown; the others are only counted."""


def summary_text(report: SimulationOutcome) -> str:
    """What was decided, what waits and why, how full the cluster was."""
    lines = [
        f"{report.placed} of {counted(report.pods, 'pod')} placed on "
        f"{counted(report.nodes, 'node')}, {report.pending} pending, "
        f"{counted(report.attempts, 'attempt')}",
        f"{report.pods_per_second:,.0f} pods/s over {report.seconds:.2f} s; virtual time "
        f"{duration(report.virtual)}; {counted(report.records, 'record')} in stream "
        f"{report.stream}, {report.bytes_per_pod:,.0f} bytes a pod",
        *_changes(report),
        "",
        table(
            ("resource", "mean", "peak"),
            [
                (name, f"{used.mean:.1%}", f"{used.peak:.1%}")
                for name, used in report.utilization.items()
            ],
        ),
    ]
    if report.reasons:
        ranked = sorted(report.reasons.items(), key=lambda item: -item[1])
        lines += [
            "",
            table(
                ("pending", "such as", "why"),
                [(n, report.examples[reason], reason) for reason, n in ranked[:MOST_REASONS]],
            ),
        ]
        if len(ranked) > MOST_REASONS:
            more = counted(len(ranked) - MOST_REASONS, "more reason")
            lines.append(f"and {more}; -o json has all")
    if report.parked:
        parked = counted(report.parked, "pod")
        lines += ["", f"{parked} parked: all their attempts ended in errors"]
    if report.stopped:
        lines += ["", f"ended early: {report.stopped}"]
    lines += ["", f"state digest {report.state_digest}; log head {report.log_head}"]
    return "\n".join(lines)


def _changes(report: SimulationOutcome) -> list[str]:
    """A line about the nodes that were removed or changed while it ran, if any were."""
    removed, changed = report.nodes_removed, report.nodes_changed
    if not removed and not changed:
        return []
    return [f"{counted(removed, 'node')} removed, {counted(changed, 'change')} of nodes"]
