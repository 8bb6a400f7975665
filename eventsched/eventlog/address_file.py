"""The address of a database in a file, which is read again for each new connection.

So a password, a certificate's path or the server can change while a scheduler runs. Only new
connections need the address; those that exist go on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.addresses import libpq_url
from eventsched.eventlog.log_errors import LoginRefusedError


class AddressFile:
    """A file with a URL; ``last`` is what it had when it was read last. Threads may share it."""

    def __init__(self, path: Path, address: str) -> None:
        """``address`` is what the file says now, as ``libpq_url`` renders it."""
        self._path, self.last = path, address
        self._has_accepted = False

    def read(self) -> str:
        """The address that the file has now; the last one if it cannot be read or has none, as
        while it is being written."""
        try:
            text = self._path.read_text(encoding="utf-8").strip()
            self.last = libpq_url(text) if text else self.last
        except (OSError, UnicodeDecodeError, InputError):
            pass
        return self.last

    def accepted(self) -> None:
        """Notes that the database has accepted a login."""
        self._has_accepted = True

    def refused(self, problem: LoginRefusedError) -> UnavailableError:
        """The error for a refused login: one that may be waited out, if there was a login before,
        because the file may be about to change."""
        if not self._has_accepted:
            return problem
        remedy = f"write the new address to {self._path}; it is read again for each connection"
        return UnavailableError(problem.where, problem.problem, remedy)


Address = str | AddressFile


@contextmanager
def for_login(address: Address) -> Iterator[str]:
    """The address for one new connection, which is made in the block. Raises UnavailableError
    instead of LoginRefusedError if the address may change."""
    if isinstance(address, str):
        yield address
        return
    try:
        yield address.read()
    except LoginRefusedError as problem:
        raise address.refused(problem) from problem
    address.accepted()


def last_read(address: Address) -> str:
    """The address for messages."""
    return address if isinstance(address, str) else address.last
