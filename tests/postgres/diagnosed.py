"""Servers and databases that ``eventsched db doctor`` examines, and what it finds."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.inspection.database_checks import diagnose
from eventsched.eventlog.inspection.database_facts import read_facts
from eventsched.eventlog.schema import migrations
from tests.databases import open_place

POOR = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "max_prepared_transactions": "2",
    "max_wal_senders": "0",
    "synchronous_commit": "local",
    "track_counts": "off",
    "wal_level": "minimal",
}


class Databases:
    """A server, and fresh databases on it."""

    def __init__(self, server: EmbeddedPostgres) -> None:
        self.server, self._count = server, 0

    def fresh(self, user: str = "postgres") -> str:
        """The URL of a new database without a schema, owned by a user, for that user."""
        self._count += 1
        name = f"db{self._count}"
        self.server.create_database(name)
        self.server.execute(f"ALTER DATABASE {name} OWNER TO {user}")
        return self.server.url(user, name)

    def migrated(self) -> str:
        """The URL of a new database with the schema, for the superuser."""
        url = self.fresh()
        migrations.upgrade(url)
        return url

    @contextmanager
    def role(self, name: str, attributes: str = "") -> Iterator[str]:
        """A role that can log in, for as long as the block runs."""
        self.server.execute(f"CREATE ROLE {name} LOGIN {attributes}")
        try:
            yield name
        finally:
            self.server.execute(f"DROP OWNED BY {name}")  # memberships that it granted
            self.server.execute(f"DROP ROLE {name}")


@contextmanager
def serving(programs: Path, settings: dict[str, str]) -> Iterator[Databases]:
    place = Path(tempfile.mkdtemp(prefix="evs-", dir=open_place()))
    place.chmod(0o755)
    server = EmbeddedPostgres(place / "data", binaries=programs, settings=settings)
    try:
        with server.open(writer=True) as opened:
            yield Databases(opened)
    finally:
        shutil.rmtree(place)


@pytest.fixture(scope="module")
def sound(programs: Path) -> Iterator[Databases]:
    """A server of each version with nothing to find."""
    with serving(programs, {}) as databases:
        yield databases


@pytest.fixture(scope="module")
def poor(programs: Path) -> Iterator[Databases]:
    """A server of each version with settings that a log must not have."""
    with serving(programs, POOR) as databases:
        yield databases


def found(url: str, *checks: str) -> list[tuple[str, str]]:
    """(severity, problem) of the findings of some checks."""
    findings = diagnose(read_facts(url)).findings
    return [(str(f.severity), f.problem) for check, f in findings if check in checks]


def run(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def remedied(url: str, *checks: str) -> None:
    """Runs the remedies of some checks, which are statements, and finds nothing any longer."""
    remedy(url, *checks)
    assert found(url, *checks) == []


def remedy(url: str, *checks: str) -> None:
    for check, finding in diagnose(read_facts(url)).findings:
        if check in checks:
            for statement in finding.remedy.split("; "):
                run(url, statement)
