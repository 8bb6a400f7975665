"""Addresses of databases: what is shown of them, and what is passed on."""

import pytest

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import libpq_url, shown


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@host/db",
        "postgresql://me@host/db?password=hunter2",
        "postgresql://me@host/db?sslpassword=hunter2",
        "postgres://me@host/db?password=hunter2&sslpassword=hunter2&sslmode=require",
    ],
)
def test_no_password_is_shown(address: str) -> None:
    assert "hunter2" not in shown(address)
    assert "hunter2" in libpq_url(address)


@pytest.mark.parametrize("address", ["", "host", "mysql://me@host/db", "postgresql://h:port/db"])
def test_what_is_no_address_of_a_postgres(address: str) -> None:
    with pytest.raises(InputError, match="--database"):
        shown(address)
