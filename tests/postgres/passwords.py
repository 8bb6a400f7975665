"""Servers that ask for passwords or certificates, unlike the embedded one of itself."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.embedded.programs import account_for
from tests.cluster.harness.certificates import Authority
from tests.cluster.harness.plane import free_ports

PASSWORD = "s3cr3t pass"
_RULES = """\
local all postgres trust
local all outcast reject
local all all scram-sha-256
"""


_SECURE_RULES = """\
local all postgres trust
hostssl all all 127.0.0.1/32 cert
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
def guarded(place: Path, programs: Path | None = None) -> Iterator[Guarded]:
    """A server below a folder that all accounts may enter."""
    rules = place / "pg_hba.conf"
    rules.write_text(_RULES)
    rules.chmod(0o644)
    settings = {"hba_file": str(rules), "fsync": "off"}
    with EmbeddedPostgres(place / "data", binaries=programs, settings=settings).open() as postgres:
        postgres.execute(f"CREATE ROLE scheduler LOGIN PASSWORD '{PASSWORD}'")
        yield Guarded(postgres)


class Secured:
    """One that runs; ``url`` is the address of the user ``scheduler``, who may log in by TLS with
    the certificate that ``certify`` made last, if it is the user's."""

    def __init__(self, postgres: EmbeddedPostgres, folder: Path, port: int) -> None:
        self._folder = folder
        self._authority = Authority(folder)
        self._owner = folder.owner(), folder.group()
        self.execute = postgres.execute
        self.admin_url = postgres.superuser_url
        files = {"sslrootcert": "ca.crt", "sslcert": "tls.crt", "sslkey": "tls.key"}
        query = "&".join(f"{name}={quote(str(folder / file))}" for name, file in files.items())
        host = f"127.0.0.1:{port}"
        self.url = f"postgresql://scheduler@{host}/eventsched?sslmode=verify-full&{query}"
        self._serve()

    def certify(self, user: str) -> None:
        """Replaces certificate and key by those of a user."""
        for made, file in zip(self._authority.client(user), ("tls.crt", "tls.key"), strict=True):
            made.chmod(0o600)
            made.replace(self._folder / file)

    def _serve(self) -> None:
        for made, setting in zip(
            self._authority.serving(), ("ssl_cert_file", "ssl_key_file"), strict=True
        ):
            shutil.chown(made, *self._owner)
            made.chmod(0o600)
            self.execute(f"ALTER SYSTEM SET {setting} = '{made}'")
        self.execute(f"ALTER SYSTEM SET ssl_ca_file = '{self._authority.certificate}'")
        self.execute("ALTER SYSTEM SET ssl = on")
        self.execute("SELECT pg_reload_conf()")


@contextmanager
def secured(place: Path, programs: Path) -> Iterator[Secured]:
    """Such a server; skips the test if the programs know no TLS."""
    options = subprocess.run(
        [programs / "pg_config", "--configure"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    if "openssl" not in options.stdout:
        pytest.skip("these programs are built without TLS")
    rules = place / "pg_hba.conf"
    rules.write_text(_SECURE_RULES)
    rules.chmod(0o644)
    [port] = free_ports(1)
    settings = {
        "hba_file": str(rules), "fsync": "off", "listen_addresses": "127.0.0.1", "port": str(port)
    }  # fmt: skip
    server = EmbeddedPostgres(place / "data", binaries=programs, settings=settings)
    with server.open() as postgres:
        postgres.execute("CREATE ROLE scheduler LOGIN")
        folder = place / "tls"
        folder.mkdir()
        if (account := account_for(folder)) is not None:
            os.chown(folder, account.uid, account.gid)
        yield Secured(postgres, folder, port)
