"""The pages of docs/how-to whose commands need a database and no cluster."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.records import PodAdded
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.address_file import AddressFile
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.embedded.programs import account_for
from eventsched.eventlog.inspection.database_checks import CHECKS
from eventsched.eventlog.log_errors import LoginRefusedError, UnknownOutcomeError
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from tests import releases
from tests.builders import make_pod
from tests.databases import ROOT, complete_programs, embedded_programs
from tests.live.stage import pods
from tests.live.stage import until as until_async
from tests.next_version import PRE, NextVersion
from tests.pages import Page
from tests.postgres.passwords import guarded, secured
from tests.postgres.replicas import Scene, play
from tests.waiting import until

STREAM = "eventsched"
"""What the overlays call it."""
LOAD = "nodes=12,pods=60,shape=tight,seed=3"


class Database:
    """A server of a test's own with ``eventsched``, the log of a simulation as a scheduler's, and
    the user ``migrator``, who owns it and may make roles."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        postgres.execute("CREATE ROLE migrator LOGIN CREATEDB CREATEROLE")
        postgres.execute("ALTER DATABASE eventsched OWNER TO migrator")
        migrations.upgrade(self.url("migrator"))
        words = ["simulate", "--generate", LOAD, "--stream", STREAM]
        assert main([*words, "--database", self.url("postgres")]) == 0

    def url(self, user: str, database: str = "eventsched") -> str:
        """A user's address of a database."""
        return self._postgres.url(user, database)

    def add_pod(self, name: str) -> None:
        """Adds a pod to the log."""
        with closing(PostgresEventLog(self.url("postgres"), STREAM, "another")) as log:
            added = LogEntry(log.head, 10**15, log.head, PodAdded(pod=make_pod(name)))
            log.begin(Batch([StoredRecord.of(added)], {}))
            log.finish()

    def archive(self) -> None:
        """Waits until all WAL is archived."""
        [(file,)] = self._postgres.execute("SELECT pg_walfile_name(pg_switch_wal())")

        def is_archived() -> bool:
            [(last,)] = self._postgres.execute("SELECT last_archived_wal FROM pg_stat_archiver")
            return last is not None and last >= file

        until(is_archived, "the WAL is archived", 60)


@contextmanager
def own_database(place: Path, programs: Path, **settings: str) -> Iterator[Database]:
    """The server, for as long as the block runs."""
    server = EmbeddedPostgres(
        place / "data", binaries=programs, settings={"fsync": "off", **settings}
    )
    with server.open(writer=True) as postgres:
        yield Database(postgres)


def as_account(folder: Path, program: Path, *arguments: str) -> str:
    """A script that runs a program as the account that runs Postgres for root."""
    account = account_for(folder)
    words = [str(program), '"$@"', *arguments]
    if account is not None:
        words[:0] = [
            "setpriv",
            f"--reuid={account.uid}",
            f"--regid={account.gid}",
            "--clear-groups",
        ]
    return f"cd / && exec {' '.join(words)}"


@pytest.fixture
def shared(place: Path) -> Path:
    """A folder in which the account that runs Postgres may write."""
    folder = place / "shared"
    folder.mkdir()
    if (account := account_for(folder)) is not None:
        os.chown(folder, account.uid, account.gid)
    return folder


@pytest.fixture
def newest(place: Path) -> Path:
    """The programs of the newest version."""
    return complete_programs(list(embedded_programs().values())[-1], place)


@pytest.fixture
def all_programs(programs: Path, place: Path) -> Path:
    """The programs of each version, also those for administrators."""
    return complete_programs(programs, place)


def test_back_up_and_restore(place: Path, shared: Path, all_programs: Path, tmp_path: Path) -> None:
    """The archived WAL has a record from after the base backup, and nothing is lost."""
    with own_database(place, all_programs, archive_mode="on") as database:
        socket = shared / "socket"
        for folder in (shared / "archive", socket):
            folder.mkdir()
            shutil.chown(folder, shared.owner(), shared.group())

        def before(command: str) -> bool:
            if command.startswith("echo"):
                database.add_pod("late")
                database.archive()
            return not command.startswith(("kubectl", "eventsched log"))

        recovered = f"postgresql://migrator@/eventsched?host={quote(str(socket), safe='')}"
        page = Page(
            "how-to/back-up-and-restore.md",
            tmp_path,
            {
                "DATABASE_URL": database.url("migrator"),
                "MAINTENANCE_URL": database.url("migrator", "postgres"),
                "REPLICATION_URL": database.url("postgres", "postgres"),
                "RECOVERED_URL": recovered,
                "BACKUP": str(shared / "backup"),
                "ARCHIVE": str(shared / "archive"),
            },
            programs={
                "pg_basebackup": as_account(shared, all_programs / "pg_basebackup"),
                "pg_ctl": as_account(
                    shared, all_programs / "pg_ctl", "-o",
                    f'"-k {socket} -c listen_addresses= -c archive_mode=off -c fsync=off"',
                ),
            },
            path=(all_programs,),
            before=before,
        )  # fmt: skip
        try:
            page.run()
            last = list(Reader(recovered, STREAM).read())[-1].record
            assert isinstance(last, PodAdded)
            assert last.pod.name == "late"
        finally:
            stop = as_account(shared, all_programs / "pg_ctl", "stop", "--mode=immediate")
            subprocess.run(
                ["sh", "-c", stop, "sh", f"--pgdata={shared}/backup"], check=True, timeout=60
            )


def test_upgrade_and_roll_back(
    place: Path, newest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To the version after this one, without the commands for the cluster, and back by the dump:
    this version reads and writes the log again, and the next one explains what was lost."""
    later = NextVersion(tmp_path / "next")
    with own_database(place, newest) as database:
        url = database.url("migrator")

        def before(command: str) -> bool:
            if "db upgrade --post" in command:
                assert main(["verify", "--database", url]) == 0
            if command.startswith("eventsched verify") and not (tmp_path / "back").exists():
                later.describe_schema(url)
            if command.endswith("--replicas=0"):
                (tmp_path / "back").touch()
                assert main(["log", "streams", "--database", url]) == 3
                lost = ("simulate", "--generate", "nodes=3,pods=5", "--stream", "lost")
                assert later.run(*lost, "--database", database.url("postgres")).returncode == 0
            return not command.startswith("kubectl")

        page = Page(
            "how-to/upgrade-and-roll-back.md",
            tmp_path,
            {
                "DATABASE_URL": url,
                "MAINTENANCE_URL": database.url("migrator", "postgres"),
                **dict.fromkeys(("IMAGE", "OLD_IMAGE"), "x"),
            },
            programs={
                "eventsched": f'PYTHONPATH={later.folder} exec {sys.executable} -m eventsched "$@"',
            },
            path=(newest,),
            before=before,
        )
        assert page.run() == 7
        assert migrations.require(url) == PRE
        assert main(["replay", "--verify", "--database", url]) == 0
        database.add_pod("after")
        for command in (["verify"], ["db", "upgrade", "--pre"]):
            assert main([*command, "--database", url]) == 0, command
        capsys.readouterr()
        assert main(["log", "streams", "-o", "json", "--database", url]) == 0
        assert "lost" not in capsys.readouterr().out
        newer = database.url("migrator", "eventsched_newer")
        assert "lost" in later.run("log", "streams", "--database", newer).stdout


def test_upgrade_from_0_1(place: Path, newest: Path, tmp_path: Path) -> None:
    """Without the commands for the cluster."""
    server = EmbeddedPostgres(place / "data", binaries=newest, settings={"fsync": "off"})
    with server.open(writer=True) as postgres:
        releases.restore(postgres.superuser_url)
        page = Page(
            "how-to/upgrade-from-0.1.md",
            tmp_path,
            {
                "DATABASE_URL": postgres.superuser_url,
                "MAINTENANCE_URL": postgres.url("postgres", "postgres"),
                **dict.fromkeys(("IMAGE", "OLD_IMAGE"), "x"),
            },
            path=(newest,),
            before=lambda command: not command.startswith("kubectl"),
        )
        assert page.run() == 7


def test_check_the_database(place: Path, newest: Path, tmp_path: Path) -> None:
    with own_database(place, newest, fsync="on") as database:
        environment = {"DATABASE_URL": database.url("migrator")}
        page = Page("how-to/check-the-database.md", tmp_path, environment, path=(newest,))
        assert page.run() == 8


def test_ask_the_past(place: Path, newest: Path) -> None:
    page = Page("how-to/ask-the-past.md", place, {}, path=(newest,))
    assert page.run() == 10


def test_try_before_you_submit(place: Path, newest: Path) -> None:
    page = Page("how-to/try-before-you-submit.md", place, {}, path=(newest,))
    assert page.run() == 7


def test_try_another_configuration(place: Path, newest: Path) -> None:
    page = Page("how-to/try-another-configuration.md", place, {}, path=(newest,))
    assert page.run() == 8


def test_keep_the_database_small(place: Path, newest: Path, tmp_path: Path) -> None:
    with own_database(place, newest) as database:
        address = database.url("postgres")
        environment = {"DATABASE_URL": address, "OWNER_URL": address, "ARCHIVE": str(tmp_path)}
        page = Page("how-to/keep-the-database-small.md", tmp_path, environment, path=(newest,))
        assert page.run() == 5
        with psycopg.connect(database.url("postgres")) as connection:
            row = connection.execute("SHOW eventsched.partition_records").fetchone()
        assert row == ("1048576",)


def test_let_tenants_read(place: Path, newest: Path, tmp_path: Path) -> None:
    with own_database(place, newest) as database:
        addresses = {
            "DATABASE_URL": database.url("migrator"),
            "TENANT_URL": database.url("team_shop"),
        }
        page = Page("how-to/let-tenants-read.md", tmp_path, addresses, path=(newest,))
        assert page.run() == 7


def test_every_check_of_the_doctor_is_described() -> None:
    text = (ROOT / "docs/how-to/check-the-database.md").read_text()
    cells = re.findall(r"^\| ([^|]+) \| [^|]+ \| (?:refuse|warn)", text, re.MULTILINE)
    described = [name for cell in cells for name in cell.split(", ")]
    assert described == [check.name for check in CHECKS]


@pytest.mark.row(31)
def test_rotate_credentials(place: Path, newest: Path, tmp_path: Path) -> None:
    """Beside a leader, whose term goes on; once it loses its connections before the file has the
    new password, and waits."""
    file = tmp_path / "url"
    with guarded(place, newest) as server:
        migrations.upgrade(server.admin_url)
        server.execute("GRANT eventsched_writer TO scheduler")
        addresses = {
            "DATABASE_URL": server.admin_url,
            "NEW_URL": server.url("scheduler", "new-secret"),
            "OTHER_URL": server.url("scheduler_b", "other-secret"),
        }
        file.write_text(server.url("scheduler"))

        async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
            await until_async(lambda: scene.settled)
            loop = asyncio.get_running_loop()
            written: list[str] = []

            async def secret(address: str) -> None:
                if not written:
                    server.execute(TERMINATED)
                    scene.cluster.put(*pods(5, "waiting"))
                    database = scene.replica.database
                    assert database is not None
                    await until_async(lambda: "password" in database.health.problem)
                file.write_text(address)
                written.append(address)
                await until_async(lambda: scene.bound == 5 and scene.settled)
                await connected()

            async def connected() -> None:
                await until_async(lambda: server.execute(CONNECTED) == [(2,)])

            def before(command: str) -> bool:
                if "scheduler_b login" in command:
                    asyncio.run_coroutine_threadsafe(connected(), loop).result(60)
                if not command.startswith("kubectl"):
                    return True
                [name] = re.findall(r"from-literal=url=.\$(\w+)", command)
                asyncio.run_coroutine_threadsafe(secret(addresses[name]), loop).result(60)
                return False

            page = Page(
                "how-to/rotate-credentials.md",
                tmp_path,
                addresses,
                path=(newest,),
                before=before,
            )
            assert await asyncio.to_thread(page.run) == 5
            scene.cluster.put(*pods(5, "late"))
            await until_async(lambda: scene.bound == 10 and scene.settled)

        address = AddressFile(file, file.read_text())
        assert play(address, story).replica.terms == 1


CONNECTED = "SELECT count(*)::int FROM pg_stat_activity WHERE usename = 'scheduler'"
TERMINATED = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'scheduler'"


def test_client_certificates_are_read_for_each_connection(
    place: Path, all_programs: Path, tmp_path: Path
) -> None:
    """A session with a new certificate goes on after the old one has become useless."""
    with secured(place, all_programs) as server:
        migrations.upgrade(server.admin_url)
        server.execute("GRANT eventsched_writer TO scheduler")
        server.certify("scheduler")
        with closing(Session(server.url)) as session:
            term = session.acquire("s", "me").term
            server.certify("outcast")
            session.renew(term)
            server.execute(TERMINATED)
            with pytest.raises(UnknownOutcomeError):
                session.renew(term)
            with pytest.raises(LoginRefusedError, match="certificate authentication failed"):
                session.renew(term)
            server.certify("scheduler")
            session.renew(term)
