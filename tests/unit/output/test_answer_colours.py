"""Colours of answers: of states, of what was added and removed, of findings; of nothing else."""

import re
from typing import Any

import pytest

from eventsched.domain.records import Queue
from eventsched.domain.state.pod_state import PodState
from eventsched.eventlog.inspection.database_checks import Diagnosis
from eventsched.eventlog.inspection.database_findings import DatabaseFinding, Severity
from eventsched.history.past_state.state_differences import FieldChange, ObjectDifference
from eventsched.history.past_state.waiting_pods import WaitingPod
from eventsched.output.diagnosis_output import diagnosis_text
from eventsched.output.queues.queue_output import queue_text
from eventsched.output.state_output import difference_lines
from eventsched.output.terminal.colours import Style, painted, style_of_wait
from eventsched.output.terminal.display import Display
from eventsched.output.terminal.tables import table
from eventsched.output.trial_output import trial_text
from eventsched.runtime.queries.trial_run import TrialRun, TriedPod
from tests.builders import SECOND, make_pod

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


def test_rows_of_pods_that_wait_are_painted_by_their_age() -> None:
    now, ages = 1_000 * SECOND, {"old": 600, "late": 60, "new": 59}
    pods = [
        WaitingPod(PodState(make_pod(name)), Queue.ACTIVE, 1, None, now - age * SECOND, 0, ())
        for name, age in ages.items()
    ]
    text = queue_text(pods, now, {}, display=Display(paint=painted))
    begins = [line.partition("1 ")[0] for line in text.splitlines()[-3:]]
    assert begins == [RED, YELLOW, ""]


def test_rows_of_tried_pods_are_painted_by_what_comes_of_them() -> None:
    tried = (
        TriedPod(make_pod("no")), TriedPod(make_pod("yes"), node="n1"),
        TriedPod(make_pod("evicts"), node="n1", victims=("default/x",)),
    )  # fmt: skip
    simulation: Any = None
    text = trial_text(TrialRun(simulation, tried), None, None, display=Display(paint=painted))
    rows = [line for line in text.splitlines() if "default/" in line]
    begins = [line.partition("default")[0] for line in rows]
    assert begins == [RED, "", YELLOW]


@pytest.mark.parametrize(
    ("seconds", "style"),
    [(None, None), (59.9, None), (60.0, Style.YELLOW), (599.0, Style.YELLOW), (600.0, Style.RED)],
)
def test_long_waits(seconds: float | None, style: Style | None) -> None:
    assert style_of_wait(seconds) is style
