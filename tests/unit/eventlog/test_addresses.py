"""Addresses of databases: what is shown of them, and what is passed on."""

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import create_engine

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import libpq_url, shown, sqlalchemy_url


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


@pytest.mark.parametrize(
    ("address", "options"),
    [
        (
            "postgresql://me:p%2Cw@a:5433,b/db?target_session_attrs=prefer-standby",
            {
                "user": "me", "password": "p,w", "host": "a,b", "port": "5433,", "dbname": "db",
                "target_session_attrs": "prefer-standby",
            },
        ),
        ("postgresql://a.example.com,[::1]/db", {"host": "a.example.com,::1", "dbname": "db"}),
        ("postgresql://[::1]:1,[::2]:2", {"host": "::1,::2", "port": "1,2"}),
        ("postgresql:///db?host=a,b&port=1,2", {"host": "a,b", "port": "1,2", "dbname": "db"}),
    ],
)  # fmt: skip
def test_several_hosts(address: str, options: dict[str, str]) -> None:
    """In both forms that libpq takes."""
    assert conninfo_to_dict(libpq_url(address)) == options
    assert conninfo_to_dict(address).items() - {("port", ",")} == options.items()


@pytest.mark.parametrize(
    "address", ["postgresql://me@/db?host=a,b&port=5433", "postgresql://me@:5433/db?host=a,b"]
)
def test_one_port_is_that_of_all_hosts(address: str) -> None:
    """As in libpq. SQLAlchemy, which connects with the same URL, wants one for each."""
    options = {"user": "me", "host": "a,b", "port": "5433,5433", "dbname": "db"}
    assert conninfo_to_dict(libpq_url(address)) == options
    create_engine(sqlalchemy_url(address)).dialect.create_connect_args(sqlalchemy_url(address))


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("postgresql:///db?host=a,b,c&port=1,2", "names 3 hosts and 2 ports"),
        ("postgresql:///db?host=a&port=1,2", "names 1 host and 2 ports"),
        ("postgresql://a:1,b/db?host=c,d", "names its hosts or ports twice"),
    ],
)
def test_hosts_and_ports_that_do_not_fit(address: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        sqlalchemy_url(address)


@pytest.mark.parametrize(
    "address",
    ["", "host", "mysql://me@host/db", "postgresql://h:port/db", "postgresql://a,b:port/db"],
)
def test_what_is_no_address_of_a_postgres(address: str) -> None:
    with pytest.raises(InputError, match="--database"):
        shown(address)
