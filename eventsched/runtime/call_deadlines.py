"""Ends calls of plugins that take too long.

In the main thread by a timer's signal, whose handler raises OverrunError inside the plugin's code:
that ends sleeping and waiting too. Elsewhere (a live scheduler takes in a whole list in a thread of
its own) by an exception that a watching thread raises there, between two steps of Python code. What
neither ends is native code that never comes back. Our own code below a plugin's call (a NodeView
that looks something up) is let finish first, so that nothing of it is left half done.
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

DEFAULT = 5.0
"""Seconds that a call of a plugin may take."""
_AGAIN = 0.05
"""Seconds between two tries to end a call."""
_PATIENCE = 20
"""Tries for which our own code is let finish: as many as a second has."""
_ARRIVAL = 1_000
"""Steps within which an exception arrives that was raised for a thread, if nobody has kept it."""
_OURS = str(Path(eventsched.__file__).parent) + os.sep


class _LateError(OverrunError):
    """What is raised in another thread, where only a class can be named."""

    def __init__(self) -> None:
        super().__init__("", "", 0)


class _Call(NamedTuple):
    """A call under way in another thread, and when (s) it has to end."""

    thread: int
    due: float


class Deadlines(Guard):
    """A guard that lets no call take longer than so many seconds."""

    def __init__(self, seconds: float = DEFAULT) -> None:
        super().__init__()
        self.seconds = seconds
        self._under_way: tuple[str, str] | None = None
        self._tries = 0
        self._installed = False
        self._elsewhere: _Call | None = None
        self._fired = False
        self._lock = threading.Lock()
        self._watching: threading.Thread | None = None

    def timed(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """The call; OverrunError where it takes too long."""
        if self._under_way is not None:  # a plugin that has another one called
            return function(*arguments, **named)
        self._under_way, self._tries = (plugin, method), 0
        try:
            if threading.current_thread() is not threading.main_thread():
                return self._watched(plugin, method, function, *arguments, **named)
            if not self._installed:
                signal.signal(signal.SIGALRM, self._alarmed)
                self._installed = True
            signal.setitimer(signal.ITIMER_REAL, self.seconds, _AGAIN)
            try:
                return function(*arguments, **named)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        finally:
            self._under_way = None

    # --- in the main thread -----------------------------------------------------------------

    def _alarmed(self, number: int, frame: FrameType | None) -> None:
        """Again and again, until the call has ended: a plugin might keep what is raised."""
        if self._under_way is None:
            return
        self._tries += 1
        if self._tries <= _PATIENCE and _is_ours(frame):
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
        self._fired = False
        self._elsewhere = _Call(threading.get_ident(), time.monotonic() + self.seconds)
        try:
            try:
                return function(*arguments, **named)
            finally:
                with self._lock:
                    self._elsewhere = None
                for _ in range(_ARRIVAL if self._fired else 0):
                    time.sleep(0)  # what was raised is on its way, and arrives here
        except _LateError:
            self._elsewhere, self._fired = None, False
            raise OverrunError(plugin, method, self.seconds) from None

    def _watch(self) -> None:
        """The watching thread: raises again and again, like the timer. A call may take a tenth
        longer than it should."""
        while True:
            time.sleep(self.seconds / 10)
            with self._lock:
                call = self._elsewhere
                if call is None or time.monotonic() < call.due:
                    continue
                self._fired = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(call.thread), ctypes.py_object(_LateError)
                )


def _is_ours(frame: FrameType | None) -> bool:
    """Whether it is our own code that runs, or numpy for it, and not the plugin's."""
    while frame is not None and f"{os.sep}numpy{os.sep}" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_OURS)
