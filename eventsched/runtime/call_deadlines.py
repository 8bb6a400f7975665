"""Interrupts calls of plugins that take too long.

- In the main thread, a timer's signal handler raises OverrunError inside the plugin's code. This
  also ends sleeping and waiting.
- In another thread (a live scheduler takes in a whole list in one), a watching thread raises an
  exception there, between two steps of Python code.

Neither can end native code that never returns. If a plugin has called eventsched's own code (a
NodeView that looks something up), that code may finish first, so that it leaves nothing half done.
"""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import eventsched
from eventsched.scheduling.framework.call_guard import Guard, OverrunError

DEFAULT_DEADLINE = 5.0
"""Seconds that a call of a plugin may take, by default."""
_RETRY_AFTER = 0.05
"""Seconds between two attempts to end a call."""
_GRACE_ATTEMPTS = 20
"""Attempts during which eventsched's own code may finish: one second of them."""
_ARRIVAL_STEPS = 1_000
"""Steps within which an exception raised for another thread arrives, unless a plugin caught it."""
_PACKAGE = str(Path(eventsched.__file__).parent) + os.sep


class _LateError(OverrunError):
    """Raised in another thread, which can only be given a class."""

    def __init__(self) -> None:
        super().__init__("", "", 0)


class _Call(NamedTuple):
    """A call under way in another thread, and when (s, monotonic) it has to end."""

    thread: int
    due: float


class Deadlines(Guard):
    """A guard that interrupts calls after ``seconds`` seconds."""

    def __init__(self, seconds: float = DEFAULT_DEADLINE) -> None:
        super().__init__()
        self.seconds = seconds
        self._under_way: tuple[str, str] | None = None
        self._attempts = 0
        self._installed = False
        self._elsewhere: _Call | None = None
        self._has_raised = False
        self._lock = threading.Lock()
        self._watching: threading.Thread | None = None

    def timed(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """Makes the call. Raises OverrunError if it takes too long."""
        if self._under_way is not None:  # a plugin called another one
            return function(*arguments, **named)
        self._under_way, self._attempts = (plugin, method), 0
        try:
            if threading.current_thread() is not threading.main_thread():
                return self._watched(plugin, method, function, *arguments, **named)
            if not self._installed:
                signal.signal(signal.SIGALRM, self._alarmed)
                self._installed = True
            signal.setitimer(signal.ITIMER_REAL, self.seconds, _RETRY_AFTER)
            try:
                return function(*arguments, **named)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            self._under_way = None

    # --- in the main thread -----------------------------------------------------------------

    def _alarmed(self, number: int, frame: FrameType | None) -> None:
        """Called repeatedly until the call has ended, because a plugin may catch the exception."""
        if self._under_way is None:
            return
        self._attempts += 1
        if self._attempts <= _GRACE_ATTEMPTS and _is_own_code(frame):
            return
        plugin, method = self._under_way
        raise OverrunError(plugin, method, self.seconds)

    # --- in other threads -------------------------------------------------------------------

    def _watched(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        if self._watching is None:
            self._watching = threading.Thread(target=self._watch, name="deadlines", daemon=True)
            self._watching.start()
        self._has_raised = False
        self._elsewhere = _Call(threading.get_ident(), time.monotonic() + self.seconds)
        try:
            try:
                return function(*arguments, **named)
            finally:
                with self._lock:
                    self._elsewhere = None
                for _ in range(_ARRIVAL_STEPS if self._has_raised else 0):
                    time.sleep(0)  # the exception was raised and arrives here
        except _LateError:
            self._elsewhere, self._has_raised = None, False
            raise OverrunError(plugin, method, self.seconds) from None

    def _watch(self) -> None:
        """The watching thread: raises repeatedly, like the timer. A call may take a tenth longer
        than it should."""
        while True:
            time.sleep(self.seconds / 10)
            with self._lock:
                call = self._elsewhere
                if call is None or time.monotonic() < call.due:
                    continue
                self._has_raised = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(call.thread), ctypes.py_object(_LateError)
                )


def _is_own_code(frame: FrameType | None) -> bool:
    """Whether eventsched's own code is running (or numpy, called by it) and not the plugin's."""
    while frame is not None and f"{os.sep}numpy{os.sep}" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_PACKAGE)
