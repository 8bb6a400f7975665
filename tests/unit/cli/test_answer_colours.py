"""Colours of answers: of states, of what was added and removed, of findings; of nothing else."""

import re

import pytest

from eventsched.cli.output.diagnosis_output import diagnosis_text
from eventsched.cli.output.state_output import difference_lines
from eventsched.cli.output.tables import table
from eventsched.cli.screen.colours import Style, painted, style_of_wait
from eventsched.cli.screen.display import Display
from eventsched.eventlog.inspection.database_checks import Diagnosis
from eventsched.eventlog.inspection.database_findings import DatabaseFinding, Severity
from eventsched.history.past_state.state_differences import FieldChange, ObjectDifference

RED, GREEN, YELLOW, DIM = (f"\x1b[{style.value}m" for style in (
    Style.RED, Style.GREEN, Style.YELLOW, Style.DIM,
))  # fmt: skip
END = "\x1b[0m"


def test_signs_of_differences() -> None:
    found = [
        ObjectDifference("Node", "n1", "added"),
        ObjectDifference("Pod", "a/b", "removed"),
        ObjectDifference("Pod", "a/c", "changed", fields=(FieldChange("labels", 1, 2),)),
    ]
    assert list(difference_lines(found, painted)) == [
        f"{GREEN}+ Node n1{END}", f"{RED}- Pod a/b{END}", f"{YELLOW}~ Pod a/c{END}",
        "    labels: 1 -> 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("severity", "first", "last"), [(Severity.REFUSE, RED, RED), (Severity.WARN, YELLOW, YELLOW)]
)
def test_findings_by_severity(severity: Severity, first: str, last: str) -> None:
    finding = DatabaseFinding(severity, "it is old", "because", "renew it")
    lines = diagnosis_text(Diagnosis([("age", finding)], {}), painted).splitlines()
    assert lines[:3] == [
        f"{first}{severity}: age: it is old{END}", "  why: because", "  remedy: renew it",
    ]  # fmt: skip
    assert lines[-1].startswith(last)


def test_a_sound_database_is_green() -> None:
    assert diagnosis_text(Diagnosis([], {}), painted).startswith(GREEN)


def test_rows_are_painted_after_they_are_laid_out() -> None:
    """Also each line of a row that is wrapped: pagers show lines apart from each other."""
    rows = [("a", "b " * 20), ("long", "")]
    styles = (Style.RED, None)
    text = Display(30, paint=painted).table(("x", "y"), rows, styles)
    plain = table(("x", "y"), rows, width=30)
    assert text.replace(RED, "").replace(DIM, "").replace(END, "") == plain
    lines = text.splitlines()
    assert lines[0].startswith(DIM)
    assert all(line.startswith(RED) and line.endswith(END) for line in lines[1:-1])
    assert len(lines) > 3
    assert lines[-1] == "long"


def test_messages_cannot_control_the_terminal() -> None:
    """Of the pages' API in words, too: a plugin or an extender may have written anything."""
    hostile = "\x1b[2J\x9b31m\x07full"
    display = Display(80, paint=painted)
    shown = display.line(hostile, Style.BOLD) + display.table(("x",), [(hostile,)])
    assert re.sub(r"\x1b\[[0-9]+m", "", shown) == "�[2J�31m�fullX\n�[2J�31m�full"
    assert table((), [("a\tb\nc",)], ("y",)) == "y\na\tb\nc"


@pytest.mark.parametrize(
    ("seconds", "style"),
    [(None, None), (59.9, None), (60.0, Style.YELLOW), (599.0, Style.YELLOW), (600.0, Style.RED)],
)
def test_long_waits(seconds: float | None, style: Style | None) -> None:
    assert style_of_wait(seconds) is style
