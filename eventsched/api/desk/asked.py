"""A request, the desk on which everything is that answers it, and the row of an operation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eventsched.api import parameters as p
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import LoggedStream, LoggedStreams
from eventsched.questions.visibility import Visibility


@dataclass(frozen=True)
class Desk:
    """What answers are made from: the streams, the folded states, and the files with plugins that
    the streams were written with. ``store_in`` is the address of the database for the results of
    what-ifs, "" if none are stored; ``what_ifs``: whether they are answered."""

    streams: LoggedStreams
    states: FoldedStates
    plugins: tuple[Path, ...] = ()
    store_in: str = ""
    what_ifs: bool = True


class Asked(NamedTuple):
    """One request: its parameters' values, and what its user may see."""

    desk: Desk
    values: dict[str, Any]
    sees: Visibility
    body: bytes = b""

    def stream(self) -> LoggedStream:
        """The stream that it is about. Raises InputError and UnavailableError."""
        return self.desk.streams.open(self.values.get("stream"))


class Operation(NamedTuple):
    """A path below /api/v1. ``answer`` is a struct, or the name of a schema of schemas.py. A
    ``slow`` one may fold a state or decide again."""

    path: str
    summary: str
    parameters: tuple[p.Parameter, ...]
    answer: type[Any] | str
    make: Callable[[Asked], Any]
    slow: bool = False
    slow_with: str = ""
    """A parameter with which it is slow, too."""
    method: str = "GET"
    waits: bool = False
    """Whether a request may wait for what comes after a position."""
    arrow: Callable[[Asked], bytes] | None = None
    """Makes the answer as an Arrow stream."""
    body: str = ""
    """What the body of a POST holds."""
    refresh: Callable[[Asked], Any] | None = None
    """Done in the background before, for what the answer shows as it was made last."""

    def is_slow(self, values: Mapping[str, Any]) -> bool:
        """Whether an answer to these values may fold a state or decide again."""
        return self.slow or values.get(self.slow_with) is not None
