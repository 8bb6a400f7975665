"""Addresses of databases: which URLs are accepted, and their forms for libpq and SQLAlchemy."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

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
"""Options of libpq that detect a server that vanished silently within half a minute."""
_REMEDY = "write postgresql://USER@HOST:PORT/DATABASE, or use --data-dir"
_HOSTS_REMEDY = "write postgresql://USER@HOST:PORT,HOST:PORT/DATABASE"


_HOST_LIST = re.compile(r"(?<=://)((?:[^@/?#]*@)?)([^@/?#]*,[^@/?#]*)(/[^?#]*)?(\?)?")
"""The user, the hosts, the path and the beginning of the options of a URL with several hosts."""
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::(\d*))?")


def _as_options(found: re.Match[str]) -> str:
    """The same with the hosts as options, which is how SQLAlchemy passes them on to libpq. Raises
    ValueError."""
    user, hosts, path, more = found.groups(default="")
    names, ports = [], []
    for host in hosts.split(","):
        parts = _HOST.fullmatch(host)
        if parts is None:
            raise ValueError(host)
        names.append(parts[1].strip("[]"))
        ports.append(parts[2] or "")
    options = {"host": ",".join(names)} | ({"port": ",".join(ports)} if any(ports) else {})
    return f"{user}{path or '/'}?{urlencode(options)}{'&' if more else ''}"


def sqlalchemy_url(address: str) -> URL:
    """The URL with psycopg 3 as its driver; several hosts become options, as in libpq's other form.
    Raises InputError if it is not a Postgres URL, or has neither one port nor one for each host."""
    try:
        url = make_url(_HOST_LIST.sub(_as_options, address, count=1))
    except (ArgumentError, ValueError) as problem:
        raise InputError("--database", "is not a URL", _REMEDY) from problem
    if url.drivername not in ("postgresql", "postgres", "postgresql+psycopg"):
        raise InputError("--database", f"names {url.drivername}, not Postgres", _REMEDY)
    password = url.query.get("password")  # libpq accepts it there too; it must not be shown
    if isinstance(password, str):
        url = url.set(password=password).difference_update_query(["password"])
    return _with_a_port_for_each_host(url).set(drivername="postgresql+psycopg")


def _with_a_port_for_each_host(url: URL) -> URL:
    """For libpq one port serves all hosts; SQLAlchemy wants one for each. Raises InputError."""
    hosts, ports = url.query.get("host", ""), url.query.get("port")
    if isinstance(hosts, tuple) or isinstance(ports, tuple):
        raise InputError("--database", "names its hosts or ports twice", _HOSTS_REMEDY)
    if ports is None and "," in hosts and url.port:
        ports = str(url.port)
        url = url._replace(port=None)
    if ports is None or hosts.count(",") == ports.count(","):
        return url
    count, given = hosts.count(",") + 1, ports.split(",")
    if len(given) > 1:
        problem = f"names {count} host{'s' * (count > 1)} and {len(given)} ports"
        raise InputError("--database", problem, _HOSTS_REMEDY)
    return url.update_query_dict({"port": ",".join(given * count)})


def shown(address: str | URL) -> str:
    """The address without its passwords, for messages."""
    url = sqlalchemy_url(address) if isinstance(address, str) else address
    url = url.difference_update_query(["sslpassword"])
    return url.set(drivername="postgresql").render_as_string()


def libpq_url(address: str) -> str:
    """The address as psql and psycopg take it."""
    return rendered(sqlalchemy_url(address))


def rendered(url: URL) -> str:
    """The text of a URL for libpq, with its password. Spaces become ``%20``: libpq accepts neither
    ``+`` nor a literal space."""
    text = url.set(drivername="postgresql").render_as_string(hide_password=False)
    location, separator, options = text.partition("?")
    return location.replace(" ", "%20") + separator + options.replace("+", "%20")
