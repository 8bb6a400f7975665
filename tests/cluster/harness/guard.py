"""A process that outlives the test: it ends the servers and removes their folder when the test has
gone, however that was. Run by path, so that it needs only the standard library.

It reads lines from the test: ``+PID`` a server was started, ``-PID`` it has ended. The end of its
input is the end of the test.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


class Guard:
    """The test's side."""

    def __init__(self, folder: Path) -> None:
        """Guards a folder, which is removed in the end."""
        self._process = subprocess.Popen(
            [sys.executable, "-E", "-S", __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def started(self, pid: int) -> None:
        """From now on this process is ended, too."""
        self._say(f"+{pid}\n")

    def ended(self, pid: int) -> None:
        """It has ended: its number may belong to another one soon."""
        self._say(f"-{pid}\n")

    def close(self) -> None:
        """Ends what is left, and removes the folder."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(120)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()


def watch(lines: Iterable[str], folder: str) -> None:
    """Follows the lines to their end, then cleans up."""
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)  # the test's end is its end, and nothing else
    running: set[int] = set()
    for line in lines:
        (running.add if line[0] == "+" else running.discard)(int(line[1:]))
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for _ in range(50):  # the last of them may still be writing
        shutil.rmtree(folder, ignore_errors=True)
        if not Path(folder).exists():
            break
        time.sleep(0.1)


if __name__ == "__main__":
    watch(sys.stdin, sys.argv[1])
