"""What a page asks: the request to the API, and the same question in SQL and as a command."""

import shlex
from collections.abc import Mapping
from typing import NamedTuple


class PageRequest(NamedTuple):
    """A request for a page: the parts of its path, and its query without empty values."""

    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def place(self) -> dict[str, str | None]:
        """The parameters that every page has: the stream, and the position that it shows."""
        return {"stream": self.query.get("stream"), "at": self.query.get("at")}


class PageQuestion(NamedTuple):
    """A question to the log. ``call`` is a path and query below /api/v1; ``sql`` and ``cli`` answer
    it elsewhere, "" if they cannot."""

    call: str
    sql: str = ""
    cli: str = ""


def command(*words: str | None, stream: str | None = None, at: str | None = None) -> str:
    """A command line of eventsched, quoted for a shell; words that are None are left out."""
    given = ["eventsched", *(word for word in words if word)]
    if stream:
        given += ["--stream", stream]
    if at:
        given += ["--at", at]
    return shlex.join(given)


def literal(text: str) -> str:
    """A text as a literal of SQL, also with backslashes."""
    quoted = text.replace("'", "''")
    return f"'{quoted}'" if "\\" not in quoted else "E'" + quoted.replace("\\", "\\\\") + "'"
