"""A server that asks for passwords, unlike the embedded one of itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres

PASSWORD = "s3cr3t pass"
_RULES = """\
local all postgres trust
local all outcast reject
local all all scram-sha-256
"""


class Guarded:
    """One that runs; ``scheduler`` is a user who may log in with PASSWORD."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self.execute = postgres.execute
        self.admin_url = postgres.superuser_url

    def url(self, user: str, password: str | None = PASSWORD, database: str = "eventsched") -> str:
        """A user's address of a database."""
        bare = self._postgres.url(user, database)
        return bare if password is None else bare.replace("@", f":{quote(password)}@", 1)


@contextmanager
def guarded(place: Path) -> Iterator[Guarded]:
    """A server below a folder that all accounts may enter."""
    rules = place / "pg_hba.conf"
    rules.write_text(_RULES)
    rules.chmod(0o644)
    settings = {"hba_file": str(rules), "fsync": "off"}
    with EmbeddedPostgres(place / "data", settings=settings).open() as postgres:
        postgres.execute(f"CREATE ROLE scheduler LOGIN PASSWORD '{PASSWORD}'")
        yield Guarded(postgres)
