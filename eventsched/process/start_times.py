"""What took how long between the start of the process and its first attempt."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import structlog

logger = structlog.get_logger()


class StartTimes(NamedTuple):
    """When the steps of a start were over: seconds since the process began. Lists and log are read
    at the same time, both from ``connected`` on."""

    imported: float
    """Modules are imported, and the configuration is read."""
    connected: float
    """The API server answers."""
    listed: float
    """Every resource has been listed."""
    caught_up: float
    """The snapshot is loaded, and the log after it is applied."""
    elected: float
    """The replica may lead."""
    leading: float
    """Attempts are made."""

    def durations(self) -> dict[str, float]:
        """Seconds by step, for a log line. ``total`` is less than the sum, because ``lists`` and
        ``log`` overlap."""
        ready = max(self.listed, self.caught_up)
        seconds = {
            "total": self.leading,
            "imports": self.imported,
            "connecting": self.connected - self.imported,
            "lists": self.listed - self.connected,
            "log": self.caught_up - self.connected,
            "lease": self.elected - ready,
            "takeover": self.leading - self.elected,
        }
        return {name: round(max(0.0, value), 3) for name, value in seconds.items()}


def process_began() -> float:
    """The monotonic time (s, as of ``time.monotonic``) at which this process was started, to a
    hundredth of a second. It is earlier than its first line of Python."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    return time.monotonic() - max(0.0, age)


class StartClock:
    """Notes the steps of this process's start, and logs their durations once."""

    def __init__(self) -> None:
        self._began = process_began()
        self._noted: dict[str, float] = {}

    def note(self, step: str) -> None:
        """A step is over: ``imported``, ``connected`` or ``listed``."""
        self._noted[step] = time.monotonic() - self._began

    def report(self, caught_up_at: float, takeover: float) -> None:
        """Attempts are made from now on. Logs ``started``, the first time. The log was caught up
        with at the monotonic time ``caught_up_at`` (s); the lease was won ``takeover`` seconds
        ago."""
        noted, self._noted = self._noted, {}
        if not noted:
            return
        now = time.monotonic() - self._began
        times = StartTimes(
            **noted, caught_up=caught_up_at - self._began, elected=now - takeover, leading=now
        )
        logger.info("started", **times.durations())
