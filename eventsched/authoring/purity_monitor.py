"""Detects that a plugin uses the clock, randomness, the environment, files or the network.

It must be installed before the plugin is imported, so that ``from time import time`` also gets the
watched function. Uses count only while a method of the plugin runs. Python's audit hooks reveal
what C code does. Each use is reported once, with the line in the plugin.
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
_RANDOMNESS: dict[ModuleType, tuple[str, ...]] = {
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
"""Prefix of an audit event → what it accesses."""


class PurityMonitor:
    """``armed`` is the plugin's method that is running, or ""; ``hits`` maps (method, what it did,
    where) to a count."""

    def __init__(self) -> None:
        self.armed = ""
        self.hits: dict[tuple[str, str, str], int] = {}
        self.file = ""
        """The plugin's file or folder: hits name its lines."""
        self.now = time.thread_time_ns
        """Processor time (ns): the unwatched function, for our own measurements."""

    def install(self) -> None:
        """Starts watching, for the rest of the process."""
        for names, source in (
            (_CLOCK, "the clock"),
            (_RANDOMNESS, "randomness"),
            (_PROCESS, "the process"),
        ):
            for module, functions in names.items():
                for name in functions:
                    if hasattr(module, name):
                        self._watch(module, name, source)
        self._watch_numpy()
        self._watch_dates()
        self._watch_environment()
        sys.addaudithook(self._audited)

    def hit(self, use: str) -> None:
        """Counts a use if a method of the plugin is running."""
        if not self.armed:
            return
        place = (self.armed, use, self._line())
        self.hits[place] = self.hits.get(place, 0) + 1

    def _watch(self, module: Any, name: str, source: str) -> None:
        function = getattr(module, name)
        setattr(module, name, self._watched(function, f"uses {source}: {module.__name__}.{name}()"))

    def _watched(self, function: Callable[..., Any], use: str) -> Callable[..., Any]:
        @wraps(function)
        def watched(*arguments: Any, **named: Any) -> Any:
            self.hit(use)
            return function(*arguments, **named)

        return watched

    def _watch_numpy(self) -> None:
        numpy_random = np.random  # noqa: TID251 - watched, not used
        for name in numpy_random.__all__:
            function = getattr(numpy_random, name)
            if callable(function) and not isinstance(function, type):
                self._watch(numpy_random, name, "randomness")

    def _watch_dates(self) -> None:
        """Replaces ``datetime`` and ``date`` by subclasses: built-in types cannot be patched."""
        hit = self.hit

        class WatchedDatetime(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Any:
                hit("uses the clock: datetime.now()")
                return super().now(tz)

            @classmethod
            def utcnow(cls) -> Any:
                hit("uses the clock: datetime.utcnow()")
                return super().now(datetime.UTC).replace(tzinfo=None)

            @classmethod
            def today(cls) -> Any:
                hit("uses the clock: datetime.today()")
                return super().today()

        class WatchedDate(datetime.date):
            @classmethod
            def today(cls) -> Any:
                hit("uses the clock: date.today()")
                return super().today()

        datetime.datetime, datetime.date = WatchedDatetime, WatchedDate  # type: ignore[misc]

    def _watch_environment(self) -> None:
        kind: Any = type(os.environ)
        for name in ("__getitem__", "__iter__", "__setitem__"):
            setattr(kind, name, self._watched(getattr(kind, name), "reads the environment"))

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.armed:
            return
        resource = next(
            (resource for prefix, resource in _AUDITED.items() if event.startswith(prefix)), ""
        )
        if resource and not _is_importing():
            self.hit(f"accesses {resource}: {event}")

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


def _is_importing() -> bool:
    """Whether the event comes from an import statement, which may open files."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False
