"""Addresses of databases: what is shown of them, and what is passed on."""

import pytest
from psycopg.conninfo import conninfo_to_dict

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


def test_spaces_and_signs_reach_libpq_as_they_are() -> None:
    """In a password, a name, an option."""
    address = "postgresql://a%20user:p%20w%2B%40%2F@host/a%20db?options=-c%20role%3Dr%2B"
    assert conninfo_to_dict(libpq_url(address)) == {
        "user": "a user", "password": "p w+@/", "host": "host", "dbname": "a db",
        "options": "-c role=r+",
    }  # fmt: skip


@pytest.mark.parametrize("address", ["", "host", "mysql://me@host/db", "postgresql://h:port/db"])
def test_what_is_no_address_of_a_postgres(address: str) -> None:
    with pytest.raises(InputError, match="--database"):
        shown(address)
