"""A simulation's report for people."""

from eventsched.cli.tables import duration, table
from eventsched.runtime.report import Report

SHOWN = 8
"""Reasons shown; the rest are counted."""


def summary_text(report: Report) -> str:
    """What was decided, what waits and why, how full the cluster was."""
    lines = [
        f"{report.placed} of {report.pods} pods placed on {report.nodes} nodes, "
        f"{report.pending} pending, {report.attempts} attempts",
        f"{report.pods_per_second:,.0f} pods/s over {report.seconds:.2f} s; virtual time "
        f"{duration(report.virtual)}; {report.records} records in stream {report.stream}, "
        f"{report.bytes_per_pod:,.0f} bytes a pod",
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
                [(n, report.examples[said], said) for said, n in ranked[:SHOWN]],
            ),
        ]
        if len(ranked) > SHOWN:
            lines.append(f"and {len(ranked) - SHOWN} more reasons; -o json has them all")
    if report.parked:
        lines += ["", f"{report.parked} pods are parked: their attempts did nothing but fail"]
    if report.stopped:
        lines += ["", f"given up: {report.stopped}"]
    lines += ["", f"state digest {report.state_digest}; log head {report.log_head}"]
    return "\n".join(lines)
