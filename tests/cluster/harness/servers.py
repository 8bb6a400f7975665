"""A server process: started, stopped, paused, killed, kept alive; its output goes to a file."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.cluster.harness.guard import Guard
from tests.waiting import joined

_MAX_STARTS = 10  # starts of a server that keeps ending


class Server:
    """One program with its arguments, running or not."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        guard: Guard,
        *,
        environment: Mapping[str, str] | None = None,
        keep: bool = False,
    ) -> None:
        """``keep`` starts it again whenever it ends by itself."""
        self.name = name
        self.log = log
        self.restarts = 0
        """How often it was started again because it had ended by itself."""
        self._command = [str(each) for each in command]
        self._guard = guard
        self._environment = {**os.environ, **(environment or {})}
        self._keep = keep
        self._wanted = False
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        """Whether the process is there, be it paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Starts it, without waiting until it is ready."""
        with self._lock:
            assert not self.running, f"{self.name} is running"
            with self.log.open("ab") as log:
                # In a group of its own: an interrupt at the terminal is the test's affair.
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=self._environment,
                    cwd=self.log.parent,
                    process_group=0,
                )
            self._guard.started(self._process.pid)
            self._wanted = True
        if self._keep and self._keeper is None:
            self._keeper = threading.Thread(target=self._keep_running, daemon=True)
            self._keeper.start()

    def stop(self, grace: float = 60.0) -> int:
        """Asks it to end (SIGTERM), kills it when it has not after ``grace`` seconds, and says with
        which code it ended."""
        return self._end(signal.SIGTERM, grace)

    def kill(self) -> None:
        """Ends it at once (SIGKILL), paused or not."""
        self._end(signal.SIGKILL, 15.0)

    def pause(self) -> None:
        """Pauses it (SIGSTOP) until ``go_on``."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends a pause (SIGCONT)."""
        os.kill(self.pid, signal.SIGCONT)

    def wait(self, within: float = 30.0) -> int:
        """The code with which it ends by itself. Raises TimeoutError."""
        assert self._process is not None
        try:
            code = self._process.wait(within)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.name} still runs after {within} s\n{self.tail()}") from None
        self._guard.ended(self._process.pid)
        return code

    def until(self, condition: Callable[[], object], what: str, within: float = 60.0) -> None:
        """Waits for something that the server has to do. Raises TimeoutError, with the end of its
        log, when it takes too long, and at once when the server ends."""
        deadline = time.monotonic() + within
        while not condition():
            if not self.running and (not self._keep or self.restarts >= _MAX_STARTS):
                raise TimeoutError(f"{self.name} ended before {what}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name}: not {what} within {within} s\n{self.tail()}")
            time.sleep(0.05)

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        with suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return ""

    def _end(self, how: signal.Signals, grace: float) -> int:
        with self._lock:
            self._wanted = False
            process = self._process
            if process is None:
                return 0
            with suppress(ProcessLookupError):
                process.send_signal(how)
            try:
                process.wait(grace)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(60)
            self._guard.ended(process.pid)
        if self._keeper is not None:
            joined(self._keeper)
            self._keeper = None
        return process.returncode

    def _keep_running(self) -> None:
        while True:
            process = self._process
            assert process is not None
            process.wait()
            with self._lock:
                if not self._wanted or self.restarts >= _MAX_STARTS:
                    return
                if process is self._process:
                    self._guard.ended(process.pid)
                    self.restarts += 1
                    self.start()
            time.sleep(0.2)
