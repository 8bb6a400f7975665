"""The text and the JSON of ``eventsched db doctor``."""

from typing import Any

from eventsched.eventlog.inspection.database_checks import CHECKS, Diagnosis
from eventsched.eventlog.inspection.database_findings import Severity
from eventsched.output.terminal.colours import Paint, Style, plain
from eventsched.output.terminal.tables import counted


def diagnosis_text(diagnosis: Diagnosis, paint: Paint = plain) -> str:
    """Each finding in three lines, then what was checked."""
    lines = []
    for check, finding in diagnosis.findings:
        style = Style.RED if finding.severity is Severity.REFUSE else Style.YELLOW
        lines += [
            paint(f"{finding.severity}: {check}: {finding.problem}", style),
            f"  why: {finding.why}",
            f"  remedy: {finding.remedy}",
            "",
        ]
    lines += [f"not checked: {check}: {why}" for check, why in diagnosis.unchecked.items()]
    refused = sum(f.severity is Severity.REFUSE for _, f in diagnosis.findings)
    made = counted(len(CHECKS) - len(diagnosis.unchecked), "check")
    warnings = counted(len(diagnosis.findings) - refused, "warning")
    style = Style.RED if refused else Style.YELLOW if diagnosis.findings else Style.GREEN
    lines.append(paint(f"{made}: {counted(refused, 'reason')} to refuse, {warnings}", style))
    return "\n".join(lines)


def diagnosis_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """The same as a JSON object."""
    return {
        "ok": not diagnosis.is_refused,
        "findings": [
            {"check": check, **finding._asdict()} for check, finding in diagnosis.findings
        ],
        "checked": [check.name for check in CHECKS if check.name not in diagnosis.unchecked],
        "unchecked": diagnosis.unchecked,
    }
