"""``eventsched top``: one frame, and a live screen in a pseudo-terminal."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

from eventsched.cli.main import main
from tests.api.test_now import waiting_log
from tests.waiting import LIMIT


def test_one_frame(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    waiting_log(database)
    assert main(["top", "--once", "--database", database]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("waiting  position ")
    assert lines[4] == "decided █▅▅ up to 1.0/s, last 6s"
    begin = next(number for number, line in enumerate(lines) if line.startswith("STATE")) + 1
    states = [line.split()[:2] for line in lines[begin : begin + 2]]
    assert states == [["unschedulable", "3"], ["bound", "1"]]
    assert lines[-1].split() == ["3", "5s", "NodeResourcesFit", "Insufficient", "cpu"]
    cpu = next(line for line in lines if line.startswith("cpu "))
    assert cpu.split()[2:] == ["17%", "0", "nodes", "full"]
    assert main(["top", "--once", "-o", "json", "--database", database]) == 0
    assert json.loads(capsys.readouterr().out)["stream"] == "waiting"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "top: needs a terminal for its screen and its keys; add --once"),
        (["-o", "json"], "-o json: prints no live screen; add --once"),
        (["--interval", "0"], "--interval: 0 is out of range; use 0.2 to 3600 seconds"),
    ],
)
def test_bad_input(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", *arguments]) == 2
    assert capsys.readouterr().err == f"eventsched top: {message}\n"


class Shown:
    """What a terminal shows, from mark to mark. One read may give several frames."""

    def __init__(self, controller: int) -> None:
        self._controller, self._rest = controller, b""

    def read_until(self, mark: bytes, within: float = LIMIT) -> bytes:
        """Up to the next mark, and with it. Raises TimeoutError."""
        end = time.monotonic() + within
        while mark not in self._rest:
            left = max(0.0, end - time.monotonic())
            if not select.select([self._controller], [], [], left)[0]:
                raise TimeoutError(f"{mark!r} did not come after {self._rest!r}")
            self._rest += os.read(self._controller, 4096)
        before, _, self._rest = self._rest.partition(mark)
        return before + mark


def test_a_live_screen(database: str) -> None:
    """It shows frame after frame in the alternate screen, and q gives the terminal back."""
    waiting_log(database)
    controller, terminal = pty.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 40, 0, 0))
        before = termios.tcgetattr(terminal)
        words = [sys.executable, "-m", "eventsched", "top", "--interval", "0.2"]
        with subprocess.Popen(
            [*words, "--database", database], stdin=terminal, stdout=terminal, stderr=terminal,
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
        ) as process:  # fmt: skip
            try:
                shown = Shown(controller)
                first = shown.read_until(b"\x1b[J")
                second = shown.read_until(b"\x1b[J")
                os.write(controller, b"q")
                shown.read_until(b"\x1b[?25h\x1b[?1049l")
                assert process.wait(60) == 0
            finally:
                process.kill()
        assert termios.tcgetattr(terminal) == before
    finally:
        os.close(controller)
        os.close(terminal)
    assert first.startswith(b"\x1b[?1049h\x1b[?25l\x1b[Hwaiting  position ")
    lines = second.decode().partition("\x1b[H")[2].replace("\x1b[J", "").split("\x1b[K\r\n")
    assert len(lines) == 12
    assert max(map(len, lines)) <= 40 + len("\x1b[K")
    assert "unschedulable         3" in second.decode()
