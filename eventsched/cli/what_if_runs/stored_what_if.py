"""``--store`` of ``eventsched replay --what-if``: the result as a stream of a database."""

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from eventsched.cli.log_access.database_options import database_of
from eventsched.cli.log_access.database_places import place_of_results, results_address
from eventsched.domain.errors import InputError
from eventsched.eventlog.whole_stream import WholeStream, require_new
from eventsched.output.replays.record_progress import RecordProgress
from eventsched.questions.past.open_log import OpenLog
from eventsched.runtime.queries.state_at import require_begin
from eventsched.runtime.queries.what_if.history_run import Stretch
from eventsched.runtime.queries.what_if.result_stream import ResultStream

_HOLDER = "replay --what-if"


class ResultStore(NamedTuple):
    """A stream that is filled, and the address of the database that it is written to."""

    result: ResultStream
    address: str
    origin: str

    def commit(self) -> dict[str, object]:
        """Writes the stream. Returns what is said about it. Raises UnavailableError; nothing was
        written then."""
        self.result.flush()
        progress = RecordProgress("records written")
        try:
            self.result.stream.commit(self.address, progress)
        finally:
            progress.done()
        stream = self.result.stream
        return {"stream": stream.stream, "records": stream.head, "origin": self.origin}


def add_store_options(group: argparse._ArgumentGroup) -> None:
    """Adds --store and --store-in."""
    group.add_argument(
        "--store", metavar="STREAM",
        help="write what would have been as a new stream, which every command can read",
    )  # fmt: skip
    group.add_argument(
        "--store-in", metavar="DATABASE",
        help="with --store: the database's URL, or the folder of an embedded one (default: the "
        "database that the log is read from)",
    )  # fmt: skip


def refuse_store(options: argparse.Namespace, configurations: int) -> None:
    """Raises InputError if the options name a stream and no result that can be one."""
    if options.store is None:
        if options.store_in is not None:
            raise InputError("--store-in", "is about a stream", "add --store STREAM")
        return
    if not options.store.strip():
        raise InputError("--store", "is empty", "name a new stream")
    if options.open_loop:
        remedy = "leave one of them out"
        raise InputError("--store", "does not go with --open-loop, which makes no log", remedy)
    if configurations > 1:
        raise InputError("--store", "stores one result", "name only one configuration by --what-if")
    if options.store_in is None and options.file is not None:
        raise InputError("--store", "does not say in which database", "add --store-in DATABASE")


@contextmanager
def result_store(
    options: argparse.Namespace, opened: OpenLog, stretch: Stretch, name: str
) -> Iterator[ResultStore | None]:
    """A stream for the result, which has the records before the stretch already; None without
    --store. What is not committed is given up. Raises InputError and UnavailableError."""
    if options.store is None:
        yield None
        return
    if stretch.first and opened.reader is opened.log:
        require_begin(opened.reader, "--store")
    is_named = options.store_in is not None
    place = place_of_results(options.store_in) if is_named else database_of(options)
    with results_address(*place) as address:
        require_new(address, options.store, _HOLDER)
        with closing(WholeStream(options.store, _HOLDER)) as stream:
            result = ResultStream(stream)
            result.copy(stretch.log, stretch.first)
            yield ResultStore(result, address, _origin(options, opened, stretch, name))


def _origin(options: argparse.Namespace, opened: OpenLog, stretch: Stretch, name: str) -> str:
    """The stream, range and rules that the result comes from, for people."""
    parts = [
        f"stream {opened.log.stream}, positions {stretch.first} to {stretch.end}", f"rules: {name}"
    ]  # fmt: skip
    return ", ".join([*parts, *(f"nodes: {changes}" for changes in options.nodes)])
