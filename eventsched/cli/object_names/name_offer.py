"""``eventsched __complete KIND LINE``: names for the word at the end of a command line."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread

from eventsched.cli.database_options import database_of
from eventsched.cli.object_names.typed_line import read_line

COMMAND = "__complete"
LIMIT_SECONDS = 3.0
"""How long TAB waits at most. A name server that does not answer has no timeout of its own."""


def offer_names(arguments: Sequence[str]) -> int:
    """Prints a name a line, after a tab a few words about it. Prints nothing, and no error, if
    there is no answer in time: an error would end up in the line that is being typed."""
    found = found_in_time(lambda: _offered(*arguments))
    with suppress(BrokenPipeError):  # TAB was interrupted
        print("".join(f"{each}\n" for each in found), end="", flush=True)
    return 0


def found_in_time(ask: Callable[[], list[str]], seconds: float = LIMIT_SECONDS) -> list[str]:
    """What is found within some seconds; nothing after that or after an error. The command that
    the user is typing will say what is wrong with the database or the cluster."""
    found: list[list[str]] = []

    def run() -> None:
        with suppress(Exception):
            found.append(ask())

    asking = Thread(target=run, daemon=True)
    asking.start()
    asking.join(seconds)
    return found[0] if found else []


def _offered(kind: str, line: str) -> list[str]:
    from eventsched.cli.object_names.stored_names import stored_names

    word, options = read_line(line)
    if options.file is not None and options.database is options.data_dir is None:
        return []
    stream, namespace = options.stream or "", options.namespace or ""
    names = stored_names(kind, word, *database_of(options), stream, namespace)
    return ["\t".join(filter(None, each)) for each in names]
