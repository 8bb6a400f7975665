"""What ``kubectl eventsched`` asks the API: for words as its output shows them, or for JSON."""

import io
import sys
from typing import Any

import pytest

from eventsched.kubectl_plugin.plugin_commands import ApiQuestion, parser

EXPLAIN = "/pods/shop/web/explain"


class TerminalOutput(io.StringIO):
    def isatty(self) -> bool:
        return True


def asked(*words: str) -> tuple[str, dict[str, Any]]:
    """The path, and the parameters that are sent."""
    options = parser().parse_args(words)
    question: ApiQuestion = options.question(options, "shop")
    return question.path, {
        name: value for name, value in question.params.items() if value is not None
    }


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_pipe_has_plain_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert asked("explain", "web") == (EXPLAIN, {})
    assert asked("explain", "web", "--full", "--attempt", "2") == (
        EXPLAIN, {"full": "true", "attempt": "2"},
    )  # fmt: skip
    assert asked("queue", "-o", "wide") == ("/queue", {"wide": "true"})
    assert asked("why-not", "web", "n") == ("/pods/shop/web/why-not", {"node": "n"})


def test_a_terminal_says_what_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", TerminalOutput())
    monkeypatch.setenv("COLUMNS", "132")
    shown = {"width": "132", "colours": "true"}
    assert asked("explain", "web") == (EXPLAIN, {**shown, "bars": "true"})
    assert asked("explain", "deploy/web") == (
        "/workloads/shop/deploy/web/explain", {**shown, "bars": "true"},
    )  # fmt: skip
    assert asked("why-not", "web", "n")[1] == {**shown, "node": "n"}
    assert asked("queue", "--full") == ("/queue", {**shown, "full": "true"})
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "5000")
    assert asked("explain", "web") == (EXPLAIN, {"width": "1000", "bars": "true"})


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_a_document_has_no_looks(output: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", TerminalOutput())
    assert asked("explain", "web", "-o", output) == (EXPLAIN, {})
    assert asked("queue", "-o", output) == ("/queue", {"limit": "1000"})
