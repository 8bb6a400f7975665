"""What a page asks: the request to the API, and the same question in SQL and as a command."""

import shlex
from collections.abc import Mapping
from typing import NamedTuple


class PageRequest(NamedTuple):
    """A request for a page: the parts of its path, and its query without empty values."""

    path: Mapping[str, str]
    query: Mapping[str, str]


class PageQuestion(NamedTuple):
    """A question to the log. ``call`` is a path and query below /api/v1; ``sql`` and ``cli`` answer
    it elsewhere, "" if they cannot. With a ``body`` it is a POST; ``file`` is the name of that
    body in the command."""

    call: str
    sql: str = ""
    cli: str = ""
    body: bytes | None = None
    file: str = ""

    @property
    def method(self) -> str:
        """The method of the request."""
        return "GET" if self.body is None else "POST"


_KEYS = frozenset({"group", "open"})
"""Parameters that a page has from an answer, as it is: a reason may end with a blank."""


def typed(query: Mapping[str, str]) -> dict[str, str]:
    """The parameters of an address that are not empty, without the blanks around what is typed."""
    trimmed = {name: text if name in _KEYS else text.strip() for name, text in query.items()}
    return {name: text for name, text in trimmed.items() if text}


def command(*words: str, stream: str | None = None) -> str:
    """A command line of eventsched, quoted for a shell."""
    given = ["eventsched", *words]
    if stream:
        given += ["--stream", stream]
    return shlex.join(given)


def queue_command(stream: str | None, at: str | None) -> str:
    """The command that shows the queues, as of a position or time if there is one."""
    return command("queue", *(("--at", at) if at else ()), stream=stream)


def literal(text: str) -> str:
    """A text as a literal of SQL, also with backslashes."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in quoted else "E'" + quoted.replace("\\", "\\\\") + "'"
