"""The members of a union, as ``--member NAME=URL`` names them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import NOTICES, libpq_url, shown
from eventsched.eventlog.database import SERVERS

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_LOGIN = ("user", "password", "sslpassword")
"""What a user mapping holds; all else is of the foreign server, which every user may read."""
_READ_ONLY = "-c default_transaction_read_only=on"


class UnionMember(NamedTuple):
    """A server of a union. ``options`` are those of libpq without ``login``: the user and what must
    not be shown. ``address`` is the URL without passwords."""

    name: str
    address: str
    options: dict[str, str]
    login: dict[str, str]

    @property
    def schema(self) -> str:
        """The schema of its foreign tables in the union's database."""
        return f"member_{self.name}"


def read_members(texts: Sequence[str]) -> list[UnionMember]:
    """The members, in order. Raises InputError."""
    members = [_member(text) for text in texts]
    names = [member.name for member in members]
    for name in names:
        if names.count(name) > 1:
            raise InputError("--member", f"{name} is named twice", "give each server its own name")
    return members


def _member(text: str) -> UnionMember:
    name, _, url = text.partition("=")
    if not _NAME.fullmatch(name):  # without the rest, which may hold a password
        raise InputError(
            "--member",
            "does not begin with a server's name and =",
            "write NAME=URL; a name has small letters, digits, - and _, at most 40",
        )
    where = f"--member {name}"
    try:
        options = {key: str(value) for key, value in conninfo_to_dict(libpq_url(url)).items()}
    except InputError as problem:
        raise InputError(where, problem.problem, f"write {name}=postgresql://…") from None
    except psycopg.ProgrammingError as problem:
        reason = str(problem).strip().splitlines()[0]
        raise InputError(where, reason, "correct the options of the URL") from None
    if "user" not in options:
        raise InputError(where, "names no user", f"write {name}=postgresql://USER@HOST/DATABASE")
    for key, value in NOTICES.items():
        options.setdefault(key, str(value))
    options["options"] = f"{options.get('options', '')} {_READ_ONLY}".strip()
    wanted = options.get("target_session_attrs")
    if wanted in SERVERS:  # libpq asks whether a session may write, and these may not
        options["target_session_attrs"] = SERVERS[wanted]
    login = {key: options.pop(key) for key in _LOGIN if key in options}
    return UnionMember(name, shown(url), options, login)
