"""``eventsched sticky``: lists the nodes that pods go back to, or asks to forget one."""

import argparse
import time
from collections.abc import Mapping
from typing import Any

from eventsched.cli.answers.answer_forms import (
    WIDE,
    add_output_option,
    is_document,
    print_answer,
    print_document,
)
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.objects import canonical
from eventsched.domain.units import is_virtual
from eventsched.eventlog import database
from eventsched.eventlog.postgres import request_table
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.plugin_memory import MemoryEntry, read_memory
from eventsched.output.terminal.tables import table
from eventsched.output.time_format import iso, moment, rough

PLUGIN = "FirstScheduledNode"
_POLL_SECONDS = 0.1


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sticky",
        help="list which nodes pods go back to, or have one forgotten",
        description="What FirstScheduledNode remembers: the node that each pod goes back to.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    listed = actions.add_parser("list", help="what is remembered, from the log")
    add_output_option(listed, wide=True)
    listed.set_defaults(run=_list)
    forget = actions.add_parser(
        "forget",
        help="have the running scheduler forget a key",
        description="Asks the scheduler of the stream to forget what is under a key. It keeps "
        "running, and the log says who asked. Needs the role eventsched_writer, or the right to "
        "call eventsched_log.ask_to_forget.",
    )
    forget.add_argument("key", metavar="KEY", help="as `sticky list` shows it: namespace/name")
    forget.add_argument(
        "--wait", type=_seconds, default=10.0, metavar="SECONDS",
        help="how long to wait for the answer (default: 10); 0: only ask",
    )  # fmt: skip
    add_output_option(forget, "text", pages=False)
    forget.set_defaults(run=_forget)
    for action in (listed, forget):
        action.add_argument(
            "--plugin", default=PLUGIN, metavar="NAME", help=f"whose memory (default: {PLUGIN})"
        )
        add_database_options(action)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds; write 0 or more")
    return seconds


def _list(options: argparse.Namespace) -> int:
    with database.reader_address(*database_of(options)) as address:
        log = Reader(address, options.stream)
        memory = read_memory(log, options.plugin)
    if is_document(options.output):
        print_document([_as_json(key, entry) for key, entry in memory.items()], options.output)
    elif not memory:
        print(f"{options.plugin} remembers nothing")
    else:
        print(_table(memory, options.plugin, wide=options.output == WIDE))
    return 0


def _table(memory: Mapping[str, MemoryEntry], plugin: str, *, wide: bool) -> str:
    """A wide one says also how long ago, and which record set the value, for ``log list``. The
    record of an older value than the newest snapshot is not known."""
    now = time.time_ns() // 1_000
    columns = ("node", "last bound") if plugin == PLUGIN else ("value", "changed")
    rows: list[tuple[object, ...]] = []
    for key, entry in memory.items():
        at = _time(entry)
        position = "" if entry.position is None else entry.position
        age = "" if at is None or is_virtual(at) else rough(now - at)
        rows.append((key, _node(entry.value), _when(entry), *((age, position) if wide else ())))
    return table(("key", *columns, *(("age", "position") if wide else ())), rows)


def _forget(options: argparse.Namespace) -> int:
    plugin, key = options.plugin, options.key
    with database.requester_address(*database_of(options)) as address:
        log = Reader(address, options.stream)
        document = {"stream": log.stream, "plugin": plugin, "key": key}
        if key not in read_memory(log, plugin):
            text = f"{plugin} remembers nothing under {key}; see `eventsched sticky list`"
            print_answer({**document, "request": None, "seq": None}, text, options.output)
            return 1
        with request_table.open_requests(address, log.stream) as inbox:
            number = inbox.ask_to_forget(plugin, key)
            position = _answer(inbox, number, options.wait)
    if position is None:
        text = (
            f"request {number} waits: no scheduler of stream {log.stream} has answered it yet; "
            f"the next one that leads forgets {key}"
        )
    else:
        text = f"{plugin} has forgotten {key} (position {position} of stream {log.stream})"
    print_answer({**document, "request": number, "seq": position}, text, options.output)
    return 0


def _answer(inbox: request_table.RequestTable, number: int, patience: float) -> int | None:
    """The position of the answer; None if there is none in time."""
    until = time.monotonic() + patience
    while (position := inbox.answer(number)) is None and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    return position


def _as_json(key: str, entry: MemoryEntry) -> dict[str, Any]:
    at = _time(entry)
    return {
        "key": key,
        "value": entry.value,
        "seq": entry.position,
        "at": None if at is None else iso(at),
    }


def _node(value: Any) -> str:
    """The node that FirstScheduledNode remembers; values of other plugins as JSON."""
    if isinstance(value, Mapping) and value.keys() == {"node", "at"}:
        return str(value["node"])
    return value if isinstance(value, str) else canonical(value).decode()


def _when(entry: MemoryEntry) -> str:
    at = _time(entry)
    return "" if at is None else moment(at)


def _time(entry: MemoryEntry) -> int | None:
    """When the value was set: its own field ``at``, else the time of its record."""
    if isinstance(entry.value, Mapping) and isinstance(entry.value.get("at"), int):
        return int(entry.value["at"])
    return entry.at
