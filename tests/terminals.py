"""Commands on a pseudo-terminal."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

LIMIT = 120.0
"""Seconds that a command may take."""
PLAIN_LOCALE = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
"""The environment of a terminal without UTF-8."""
_STYLE = re.compile(r"\x1b\[\d*m")


def without_styles(text: str) -> str:
    """Text without its colours."""
    return _STYLE.sub("", text)


def on_terminal(
    *words: str, columns: int = 120, module: str = "eventsched", environ: Mapping[str, str] = {}
) -> str:  # fmt: skip
    """What a command of ``eventsched`` shows on a terminal, as bytes that are read as UTF-8. Raises
    CalledProcessError if it fails."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    left_out = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    command = [sys.executable, "-m", module, *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=subprocess.PIPE,
        env={**inherited, "TERM": "xterm", "EVENTSCHED_PAGER": "", **environ},
        cwd=Path(__file__).parent.parent,
    ) as process:  # fmt: skip
        os.close(terminal)
        shown = b""
        try:
            while part := _read(controller):
                shown += part
            assert process.stderr is not None
            message = process.stderr.read().decode()
            if code := process.wait(LIMIT):
                raise subprocess.CalledProcessError(code, command, shown, message)
        finally:
            process.kill()
            os.close(controller)
    return shown.decode(errors="replace").replace("\r\n", "\n")


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, 65_536)
    except OSError:  # the other end is closed
        return b""
