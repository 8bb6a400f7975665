"""Addresses of databases: what may be written, and the form that SQLAlchemy wants."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from eventsched.domain.errors import InputError

NOTICES: Mapping[str, Any] = {
    "connect_timeout": 10,
    "tcp_user_timeout": 15_000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}
"""Options of libpq by which a server that is gone without a word is noticed within half a minute.
"""
_REMEDY = "write postgresql://USER@HOST:PORT/DATABASE, or use --data-dir"


def sqlalchemy_url(address: str) -> URL:
    """The URL with psycopg 3 as its driver. Raises InputError for what is no Postgres URL."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError) as problem:
        raise InputError("--database", "is not a URL", _REMEDY) from problem
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InputError("--database", f"names {url.drivername}, not Postgres", _REMEDY)
    password = url.query.get("password")  # libpq takes it there too; it must not be shown
    if isinstance(password, str):
        url = url.set(password=password).difference_update_query(["password"])
    return url.set(drivername="postgresql+psycopg")


def shown(address: str | URL) -> str:
    """The address without its passwords, for messages."""
    url = sqlalchemy_url(address) if isinstance(address, str) else address
    url = url.difference_update_query(["sslpassword"])
    return url.set(drivername="postgresql").render_as_string()


def libpq_url(address: str) -> str:
    """The address as psql and psycopg take it."""
    return rendered(sqlalchemy_url(address))


def rendered(url: URL) -> str:
    """The text of a URL for libpq, with its password: libpq knows no ``+`` for a space, and takes
    none as it is."""
    text = url.set(drivername="postgresql").render_as_string(hide_password=False)
    place, mark, options = text.partition("?")
    return place.replace(" ", "%20") + mark + options.replace("+", "%20")
