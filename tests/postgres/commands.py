"""Commands of eventsched as processes that begin with everything imported.

Importing takes most of the time of a short command. So one process for each process of pytest
imports the modules once and forks a child for each command. The child is a process as any other: it
has a PID of its own, ends as the interpreter ends, and can be killed. Tests of what happens before
the command begins start ``python -m eventsched`` themselves (``test_process.py``).
"""

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from types import TracebackType

from tests.databases import ROOT
from tests.waiting import LIMIT

_IMPORTED = (
    "alembic.command",
    "eventsched.cli.db",
    "eventsched.cli.main",
    "eventsched.cli.simulate",
    "eventsched.entry",
    "eventsched.eventlog.database",
    "eventsched.eventlog.postgres.writer",
)
_MOST = 2**20
"""Bytes of a request; the environment is the largest part."""
_starters: list["subprocess.Popen[bytes]"] = []


class Command:
    """``eventsched`` with arguments, as a process. The methods are those of ``subprocess.Popen``.

    ``changes`` are statements that it runs beforehand; they may use ``PostgresEventLog`` and
    ``Simulation``.
    """

    def __init__(self, *arguments: object, changes: str = "") -> None:
        self.args = [str(word) for word in arguments]
        self.returncode: int | None = None
        self._output, self._errors = os.memfd_create("output"), os.memfd_create("errors")
        self._status, status = os.pipe()
        request = json.dumps([self.args, changes, dict(os.environ)]).encode()
        try:
            starter = _starter()
            sent = socket.send_fds(starter, [request], [self._output, self._errors, status])
            assert sent == len(request)
        finally:
            os.close(status)
        self.pid = self._number(LIMIT)

    def __enter__(self) -> "Command":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.wait(LIMIT)
        for descriptor in (self._status, self._output, self._errors):
            os.close(descriptor)

    def poll(self) -> int | None:
        """The exit code, or minus the signal that killed it; None while it runs."""
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self.returncode = self._number(0)
        return self.returncode

    def wait(self, timeout: float) -> int:
        """The exit code. Raises subprocess.TimeoutExpired after that many seconds."""
        if self.returncode is None:
            self.returncode = self._number(timeout)
        return self.returncode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """What it has printed, after its end: standard output and standard error."""
        self.wait(timeout)
        return _content(self._output), _content(self._errors)

    def kill(self) -> None:
        """Kills it, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _number(self, timeout: float) -> int:
        """The next number that is reported: the PID, then the exit code."""
        if not select.select([self._status], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.args, timeout)
        return int.from_bytes(os.read(self._status, 4), "big", signed=True)


def _content(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode()


@cache
def _starter() -> socket.socket:
    """The socket to the process that imports and forks. The process ends after ours."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.postgres.commands", str(theirs.fileno())],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[theirs.fileno()],
            cwd=ROOT,
        )  # fmt: skip
    _starters.append(process)  # forgotten, it would be warned about
    return ours


def _start(requests: socket.socket) -> None:
    """Forks a child for each request, until the other end is closed."""
    for name in _IMPORTED:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _MOST, 3)
        if not request:
            return
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _report(*json.loads(request), *descriptors)
            return
        for descriptor in descriptors:
            os.close(descriptor)


def _report(
    arguments: list[str], changes: str, environment: dict[str, str],
    output: int, errors: int, status: int,
) -> None:  # fmt: skip
    """Forks the command, and writes its PID and how it ended."""
    if (pid := os.fork()) == 0:
        os.close(status)
        os.dup2(output, 1)
        os.dup2(errors, 2)
        os.close(output)
        os.close(errors)
        os.environ.clear()
        os.environ.update(environment)
        sys.exit(_run(arguments, changes))
    os.write(status, pid.to_bytes(4, "big", signed=True))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(status, code.to_bytes(4, "big", signed=True))
    os._exit(0)


def _run(arguments: Sequence[str], changes: str) -> int:
    from eventsched.entry import main
    from eventsched.eventlog.postgres.writer import PostgresEventLog
    from eventsched.runtime.simulation.simulation import Simulation

    sys.argv = ["eventsched", *arguments]
    exec(changes, {"PostgresEventLog": PostgresEventLog, "Simulation": Simulation})
    return main()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as end:
        _start(end)
