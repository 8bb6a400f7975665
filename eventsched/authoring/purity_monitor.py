"""Sees a plugin reach out: for the clock, randomness, the environment, files or the network.

To be installed before the plugin is imported: what it takes from these modules is watched then,
also where it takes it by name. Only calls during a call of the plugin count. What C code does is
seen through Python's audit hooks. Each find is told once, with the plugin's own line.
"""

import datetime
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np

_CLOCK: dict[ModuleType, tuple[str, ...]] = {
    time: (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns",
        "process_time", "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime",
        "ctime", "sleep",
    )
}  # fmt: skip
_CHANCE: dict[ModuleType, tuple[str, ...]] = {
    random: (
        "random", "randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform",
        "gauss", "normalvariate", "betavariate", "expovariate", "getrandbits", "randbytes",
        "triangular", "seed",
    ),
    secrets: ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits"),
    uuid: ("uuid1", "uuid4"),
    os: ("urandom", "getrandom"),
}  # fmt: skip
_PROCESS: dict[ModuleType, tuple[str, ...]] = {
    os: ("getpid", "getppid", "getcwd", "getlogin", "uname", "cpu_count", "getloadavg", "stat"),
}
_AUDITED = {
    "open": "a file", "os.": "the operating system", "shutil.": "files", "glob.": "files",
    "pathlib.": "files", "tempfile.": "files", "sqlite3.": "files",
    "socket.": "the network", "urllib.": "the network", "http.client.": "the network",
    "smtplib.": "the network", "ftplib.": "the network",
    "subprocess.": "another program", "pty.": "another program",
    "ctypes.": "native code", "builtins.input": "the terminal",
}  # fmt: skip
"""Audit events that count, by their beginnings, and what they mean."""


class Sentinels:
    """``armed`` is the method of the plugin that is being called, "" while none is; ``hits`` are
    (method, what it did, where) → how often."""

    def __init__(self) -> None:
        self.armed = ""
        self.hits: dict[tuple[str, str, str], int] = {}
        self.file = ""
        """The plugin's file, or its folder: whose lines are named."""
        self.now = time.thread_time_ns
        """Processor time (ns), for whoever measures: asked so, nobody is seen to ask."""

    def install(self) -> None:
        """From here on they watch; for the rest of the process."""
        for names, what in ((_CLOCK, "the clock"), (_CHANCE, "chance"), (_PROCESS, "the process")):
            for module, functions in names.items():
                for name in functions:
                    if hasattr(module, name):
                        self._watch(module, name, what)
        self._watch_numpy()
        self._watch_dates()
        self._watch_environment()
        sys.addaudithook(self._audited)

    def hit(self, what: str) -> None:
        """Notes that the plugin did something, where it is being called."""
        if not self.armed:
            return
        place = (self.armed, what, self._line())
        self.hits[place] = self.hits.get(place, 0) + 1

    def _watch(self, module: Any, name: str, what: str) -> None:
        function = getattr(module, name)
        setattr(module, name, self._seen(function, f"asks {what}: {module.__name__}.{name}()"))

    def _seen(self, function: Callable[..., Any], what: str) -> Callable[..., Any]:
        @wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            self.hit(what)
            return function(*arguments, **named)

        return watched

    def _watch_numpy(self) -> None:
        chance = np.random  # noqa: TID251 - it is to be seen where a plugin uses it
        for name in chance.__all__:
            if callable(getattr(chance, name)) and not isinstance(getattr(chance, name), type):
                self._watch(chance, name, "chance")

    def _watch_dates(self) -> None:
        """Types cannot be changed, so others take their place."""
        hit = self.hit

        class Watched(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Any:
                hit("asks the clock: datetime.now()")
                return super().now(tz)

            @classmethod
            def utcnow(cls) -> Any:
                hit("asks the clock: datetime.utcnow()")
                return super().now(datetime.UTC).replace(tzinfo=None)

            @classmethod
            def today(cls) -> Any:
                hit("asks the clock: datetime.today()")
                return super().today()

        class WatchedDate(datetime.date):
            @classmethod
            def today(cls) -> Any:
                hit("asks the clock: date.today()")
                return super().today()

        datetime.datetime, datetime.date = Watched, WatchedDate  # type: ignore[misc]

    def _watch_environment(self) -> None:
        kind: Any = type(os.environ)
        for name in ("__getitem__", "__iter__", "__setitem__"):
            setattr(kind, name, self._seen(getattr(kind, name), "reads the environment"))

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        meant = next((what for start, what in _AUDITED.items() if event.startswith(start)), "")
        if meant and not _imports():
            self.hit(f"reaches for {meant}: {event}")

    def _line(self) -> str:
        """The innermost line of the plugin's own code."""
        frame = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if self.file and file.startswith(self.file):
                return f"{os.path.basename(file)}:{frame.f_lineno}"
            if frame.f_back is None:
                break
            frame = frame.f_back
        return ""


def _imports() -> bool:
    """Whether it is an import that opens a file."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False
