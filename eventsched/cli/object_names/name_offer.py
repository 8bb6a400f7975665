"""``eventsched __complete KIND LINE``: names for the word at the end of a command line."""

from collections.abc import Sequence
from contextlib import suppress

from eventsched.cli.log_access.database_options import database_of
from eventsched.cli.object_names.bounded_search import found_in_time
from eventsched.cli.object_names.typed_line import read_line

COMMAND = "__complete"


def offer_names(arguments: Sequence[str]) -> int:
    """Prints a name a line, after a tab a few words about it. Prints nothing, and no error, if
    there is no answer in time: an error would end up in the line that is being typed."""
    found = found_in_time(lambda: _offered(*arguments))
    with suppress(BrokenPipeError):  # TAB was interrupted
        print("".join(f"{each}\n" for each in found), end="", flush=True)
    return 0


def _offered(kind: str, line: str) -> list[str]:
    from eventsched.cli.object_names.stored_names import stored_names

    word, options = read_line(line)
    if options.file is not None and options.database is options.data_dir is None:
        return []
    stream, namespace = options.stream or "", options.namespace or ""
    names = stored_names(kind, word, *database_of(options), stream, namespace)
    return ["\t".join(filter(None, each)) for each in names]
