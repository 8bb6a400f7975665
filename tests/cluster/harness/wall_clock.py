"""A wall clock of its own for a Python process, that can be set while it runs."""

import os
from pathlib import Path

from tests.cluster.harness.scheduler import ROOT

_SHIFTED = """
import os
import time

def shift():
    with open(os.environ["EVENTSCHED_TESTS_CLOCK"]) as file:
        return int(file.read())

seconds, nanoseconds = time.time, time.time_ns
time.time = lambda: seconds() + shift()
time.time_ns = lambda: nanoseconds() + shift() * 10**9
"""


class WallClock:
    """That of a Python process with this environment, ahead of the machine's. Only Python's
    time.time and time.time_ns show it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SHIFTED)
        self._file = folder / "seconds"
        path = os.pathsep.join((str(folder), str(ROOT)))
        self.environment = {"PYTHONPATH": path, "EVENTSCHED_TESTS_CLOCK": str(self._file)}

    def jump(self, seconds: int) -> None:
        """It is ahead by this many seconds from now on."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self._file)
