"""History decided again with a configuration that a client has typed.

It takes the time and the memory of a scheduler that runs through the range, and tunes the
garbage collector: call it in a process of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.whole_stream import WholeStream, require_new
from eventsched.questions.past.open_log import OpenLog
from eventsched.runtime.assembly import Assembly, assemble_document, registry
from eventsched.runtime.log_start import first_start
from eventsched.runtime.queries.logged_assembly import assembled
from eventsched.runtime.queries.state_at import require_begin
from eventsched.runtime.queries.what_if.history_run import Stretch, run_closed
from eventsched.runtime.queries.what_if.node_changes import NodeChanges, parse_changes
from eventsched.runtime.queries.what_if.result_documents import closed_document
from eventsched.runtime.queries.what_if.result_stream import ResultStream
from eventsched.runtime.queries.what_if.rules import OtherRules
from eventsched.scheduling.config.configuration import refuse_extenders

RANGE = 20_000
"""Records of a range unless a client says otherwise: the newest ones."""
MOST_RECORDS = 200_000
MOST_NEW_NODES = 5_000
STORED_PREFIX = "what-if-"
"""The names of stored results begin with it, so that none takes the name of a scheduler's
stream."""
HOLDER = "serve --store-in"
"""The writer of stored results."""
SORTS = ("arrival", "name", "priority", "waited", "node")
"""Orders of the pods that differ: of arrival, by name, the most important first, those first whose
wait changes most, by node in the what-if."""
_RECORDED = "rules of the log"
_OPTIONS = {"--from": "from", "--until": "until", "--nodes": "nodes"}

Progress = Callable[[int, int], None]
"""Called with the records that were decided again, and how many there are."""


class WhatIfQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks: the stream, its range (positions or times; None: the newest ``RANGE``
    records), the text of a configuration ("": the one in force in the log), nodes that are added or
    left out, the name of the stream for the result (None: it is not kept), how many of the pods
    that differ are listed, and in which order of ``SORTS``."""

    stream: str
    first: str | None = None
    until: str | None = None
    configuration: str = ""
    nodes: str | None = None
    store: str | None = None
    limit: int = 100
    sort: str = "arrival"


def range_begin(log: Reader) -> int:
    """The first position of a log from which history can be decided again."""
    start = first_start(log)
    return 0 if start is None else start.position


def what_if_answer(
    address: str, question: WhatIfQuestion, plugins: list[Path], store_in: str, progress: Progress
) -> dict[str, Any]:
    """Both sides of the range, and the pods that differ. ``address`` is that of the log,
    ``store_in`` that of the database for results. Raises InputError, UnavailableError and
    CorruptLogError; nothing is stored then."""
    try:
        with closing(Reader(address, question.stream, keeps_connection=True)) as reader:
            return _decided(reader, question, plugins, store_in, progress)
    except InputError as problem:
        raise InputError(*map(_as_asked, problem.__reduce__()[1])) from None


def _decided(
    reader: Reader, question: WhatIfQuestion, plugins: list[Path], store_in: str, progress: Progress
) -> dict[str, Any]:
    changes = _changes(question.nodes)
    chosen = _chosen(question.configuration, plugins)
    stretch = _stretch(OpenLog(reader, reader), question)
    name = _RECORDED if chosen is None else f"configuration {chosen.digest[:12]}"
    origin = f"stream {reader.stream}, positions {stretch.first} to {stretch.end}, rules: {name}"
    origin += f", nodes: {question.nodes}" if question.nodes else ""
    rules = OtherRules(
        name, lambda opening: assembled(opening, reader.stream, plugins), chosen,
        origin if question.store else "",
    )  # fmt: skip
    with _store(question.store, store_in, stretch) as result:
        outcome = run_closed(
            stretch, rules, changes, with_detail=result is not None, progress=progress,
            watch=(lambda logged: None) if result is None else result.take,
        )  # fmt: skip
        stored = None
        if result is not None:
            result.flush()
            result.stream.commit(store_in)
            stored = {
                "stream": result.stream.stream, "records": result.stream.head, "origin": origin
            }  # fmt: skip
    document = closed_document(outcome)
    differences = document["differences"]
    return {
        "stream": reader.stream,
        "rules": name,
        **document,
        "differing": len(differences),
        "differences": _sorted(differences, question.sort)[: question.limit],
        "warnings": [*document["warnings"], *(() if chosen is None else chosen.warnings)],
        "stored": stored,
    }


def _sorted(differences: list[dict[str, Any]], sort: str) -> list[dict[str, Any]]:
    """The pods that differ, in an order of ``SORTS``; equal ones in that of their arrival."""

    def change(pod: dict[str, Any]) -> float:
        """That of the wait in seconds; without a node on one side it is the largest."""
        before, after = pod["before"]["waited"], pod["after"]["waited"]
        return float("inf") if before is None or after is None else abs(after - before)

    keys: dict[str, Callable[[dict[str, Any]], Any]] = {
        "arrival": lambda pod: 0,
        "name": lambda pod: (pod["namespace"], pod["name"]),
        "priority": lambda pod: -pod["priority"],
        "waited": lambda pod: -change(pod),
        "node": lambda pod: pod["after"]["node"],
    }
    return sorted(differences, key=keys[sort])


def _changes(text: str | None) -> NodeChanges:
    changes = parse_changes([] if text is None else [text])
    added = sum(number for number, _ in changes.added)
    if added > MOST_NEW_NODES:
        raise InputError("nodes", f"adds {added:,} nodes", f"add {MOST_NEW_NODES:,} at most")
    return changes


def _chosen(configuration: str, plugins: list[Path]) -> Assembly | None:
    """The rules of a configuration; None for those of the log."""
    if not configuration:
        return None
    assembly = assemble_document(configuration, "configuration", registry(plugins))
    refuse_extenders(assembly.configuration, "configuration")
    return assembly


def _stretch(opened: OpenLog, question: WhatIfQuestion) -> Stretch:
    """The range, with the state that it begins with."""
    assert opened.reader is not None
    end = opened.end
    if question.until is not None:
        end = min(end, opened.position(question.until, "until"))
    first = max(range_begin(opened.reader), end - RANGE)
    if question.first is not None:
        first = opened.position(question.first, "from")
    if end <= first and question.first is not None and question.until is None:
        problem = f"is position {first}, not before the end of the log ({end})"
        raise InputError("from", problem, "name an earlier one")
    if end <= first:
        problem = f"is position {end}, not after the beginning ({first})"
        raise InputError("until", problem, "name a later one")
    if end - first > MOST_RECORDS:
        problem = f"is {end - first:,} records before the end of the range"
        remedy = f"take {MOST_RECORDS:,} at most, or the command eventsched replay --what-if"
        raise InputError("from", problem, remedy)
    return Stretch(opened.log, opened.state(str(first), "from", whole_steps=True), end)


@contextmanager
def _store(name: str | None, address: str, stretch: Stretch) -> Iterator[ResultStream | None]:
    """The new stream for a result, with the records before the range; None without a name."""
    if name is None:
        yield None
        return
    assert isinstance(stretch.log, Reader)
    if stretch.end > MOST_RECORDS:
        problem = f"copies the log up to the range, {stretch.end:,} records with it"
        remedy = f"{MOST_RECORDS:,} at most are stored; use eventsched replay --what-if --store"
        raise InputError("store", problem, remedy)
    if stretch.first:
        require_begin(stretch.log, "store")
    require_new(address, name, HOLDER)
    with closing(WholeStream(name, HOLDER)) as stream:
        result = ResultStream(stream)
        result.copy(stretch.log, stretch.first)
        yield result


def _as_asked(text: str) -> str:
    """A message that names the command's options, for the parameters."""
    for option, parameter in _OPTIONS.items():
        text = text.replace(option, parameter)
    return text
