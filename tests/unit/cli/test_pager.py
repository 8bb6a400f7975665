"""The pager: for long answers on a terminal alone, and it may end when it likes."""

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from eventsched.cli.answers.pager import paged, pager_command
from eventsched.cli.main import main

LONG = "".join(f"line {number}\n" for number in range(10))
ON_TERMINAL = LONG.replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"PAGER": "more -s"}, ("more", "-s")),
        ({"PAGER": "more", "EVENTSCHED_PAGER": "most 'a b'"}, ("most", "a b")),
        ({"PAGER": "more", "EVENTSCHED_PAGER": ""}, ()),
        ({"PAGER": ""}, ()),
        ({"PAGER": "cat"}, ()),
        ({"PAGER": "more", "TERM": "dumb"}, ()),
        ({"PATH": "/none"}, ()),
    ],
)
def test_which_pager(environ: dict[str, str], words: tuple[str, ...]) -> None:
    assert pager_command({"TERM": "xterm", **environ}) == words


def test_less_if_there_is_one(tmp_path: Path) -> None:
    less = tmp_path / "less"
    less.write_text("#!/bin/sh\n")
    less.chmod(0o755)
    environ = {"TERM": "xterm", "PATH": str(tmp_path)}
    assert pager_command(environ) == ("less", "-FRX")


@contextmanager
def a_terminal(lines: int, columns: int) -> Iterator[int]:
    """Standard output and errors are a terminal; its other end."""
    controller, terminal = pty.openpty()
    before = sys.stdout, sys.stderr
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        with (
            os.fdopen(os.dup(terminal), "w", encoding="utf-8") as sys.stdout,
            os.fdopen(terminal, "w", encoding="utf-8") as sys.stderr,
        ):
            yield controller
    finally:
        sys.stdout, sys.stderr = before
        os.close(controller)


def shown(lines: int, text: str, *, wanted: bool = True, columns: int = 80) -> str:
    """What a terminal shows of an answer with a message on standard error, and of one after it."""
    with a_terminal(lines, columns) as controller:
        with paged(wanted=wanted):
            sys.stdout.write(text)
            sys.stderr.write("and more")
            sys.stderr.flush()
        sys.stdout.flush()
        sys.stderr.write("!")
        sys.stderr.flush()
        found = ""
        while not found.endswith("!"):
            found += os.read(controller, 65_536).decode()
    return found


@pytest.mark.process
@pytest.mark.parametrize(("text", "columns"), [(LONG, 80), ("x" * 80 + "\n", 10)])
def test_a_long_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, columns: int
) -> None:
    """All of it, and messages afterwards."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("EVENTSCHED_PAGER", f"sh -c 'cat >{tmp_path}/paged; echo end'")
    assert shown(5, text, columns=columns) == "end\r\nand more!"
    assert (tmp_path / "paged").read_text() == text


@pytest.mark.process
def test_who_keeps_the_output_writes_to_the_terminal_after_the_pager(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As the library of an executor does when the process ends."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("EVENTSCHED_PAGER", f"sh -c 'cat >{tmp_path}/paged'")
    with a_terminal(5, 80) as controller:
        with paged(wanted=True):
            kept = sys.stdout
            kept.write(LONG)
        kept.write("reset")
        kept.flush()
        assert os.read(controller, 65_536) == b"reset"
    assert (tmp_path / "paged").read_text() == LONG


@pytest.mark.parametrize(("lines", "wanted"), [(40, True), (5, False)])
def test_no_pager(monkeypatch: pytest.MonkeyPatch, lines: int, wanted: bool) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("EVENTSCHED_PAGER", "false")
    found = shown(lines, LONG, wanted=wanted)
    assert found.replace("and more", "") == f"{ON_TERMINAL}!"


def test_no_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("EVENTSCHED_PAGER", "false")
    with paged(wanted=True):
        print(LONG * 100, end="")
    assert capsys.readouterr().out == LONG * 100


def test_a_pager_that_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("EVENTSCHED_PAGER", "/none/pager -x")
    found = shown(5, LONG)
    message = "eventsched: no pager: /none/pager: No such file or directory; set EVENTSCHED_PAGER"
    assert message in found
    assert ON_TERMINAL in found


@pytest.mark.process
def test_a_pager_that_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``ends_unread`` the answer ends, too, without an error; one of the command itself is
    one."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("EVENTSCHED_PAGER", "true")
    written = 0
    with a_terminal(5, 80):
        with paged(wanted=True, ends_unread=True):
            for _ in range(100_000):
                sys.stdout.write(LONG)
                written += 1
        with pytest.raises(BrokenPipeError), paged(wanted=True, ends_unread=True):
            raise BrokenPipeError
    assert 0 < written < 100_000


@pytest.mark.process
def test_a_command_goes_on_without_its_reader(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its exit code is that of its answer."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("EVENTSCHED_PAGER", "true")
    written = 0
    with a_terminal(5, 80), paged(wanted=True):
        for _ in range(20_000):
            sys.stdout.write(LONG)
            sys.stdout.flush()
            written += 1
    assert written == 20_000
    names = ("old.yaml", "new.yaml")
    kind = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    for name, count in zip(names, (1, 300), strict=True):
        profiles = [f"- {{schedulerName: s{number}}}" for number in range(count)]
        (tmp_path / name).write_text(f"{kind}profiles:\n" + "\n".join(profiles) + "\n")
    differ = ["config", "diff", *(str(tmp_path / name) for name in names)]
    with a_terminal(5, 80):
        assert main(differ) == 1
        assert main([*differ[:3], differ[2]]) == 0
