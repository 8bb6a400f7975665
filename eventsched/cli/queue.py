"""``eventsched queue``: which pods wait, in which order, what for, and how much longer."""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eventsched.cli.log_at import AT_HELP, OpenLog, add_log_options, opened_log
from eventsched.cli.output.state_output import place_text, queue_text, waiting_json
from eventsched.cli.output.time_format import iso
from eventsched.cli.replay import assembled
from eventsched.domain.errors import InputError
from eventsched.domain.records import Queue
from eventsched.domain.units import is_virtual
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import uid_key
from eventsched.history.past_state.past_waits import WINDOW, scanned_waits, stored_waits
from eventsched.history.past_state.wait_estimates import WaitEstimate, estimates
from eventsched.history.past_state.waiting_pods import WaitingPod, waiting_pods
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_text
from eventsched.runtime.logbook import OWN
from eventsched.runtime.queries.state_at import FoldedState


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "queue",
        help="show which pods wait, in which order, what for, and how much longer",
        description="Shows the pods that wait, now or at a position of the log: their position in "
        "the queue, their age, the plugins that they wait for, the events that let these be asked "
        "again, and how much longer they will wait, estimated from the waits of pods that the same "
        "plugins refused before.",
    )
    parser.add_argument("--at", metavar="POS|TIME", help=f"{AT_HELP} (default: now)")
    parser.add_argument(
        "--queue", choices=tuple(map(str, Queue)), metavar="QUEUE",
        help="only this one: active, backoff, unschedulable or gated",
    )  # fmt: skip
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the stream was written with; may be repeated",
    )  # fmt: skip
    parser.add_argument("--full", action="store_true", help="show all pods of long tables")
    add_log_options(parser)
    parser.add_argument("-o", dest="output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the pods that wait."""
    with opened_log(options) as opened:
        folded = opened.state(options.at)
        stream = opened.log.stream
        pods = waiting_pods(
            folded.state, assembly_in_force(folded, stream, options.plugin).profiles
        )
        shown = [each for each in pods if options.queue in (None, each.place)]
        now = folded.state.now
        if options.at is None and not is_virtual(now):
            now = max(now, time.time_ns() // 1_000)
        guesses = wait_estimates(opened, folded.position, now, shown)
    if options.output == "json":
        _print_json(folded, stream, now, shown, guesses)
        return 0
    place = place_text({"position": folded.position, "now": folded.state.now}, stream)
    print(f"{place}\n\n{queue_text(shown, now, guesses, full=options.full)}")
    return 0


def wait_estimates(
    opened: OpenLog, position: int, now: int, pods: Sequence[WaitingPod]
) -> dict[str, WaitEstimate]:
    """How much longer the pods in the queues will wait, by uid: from the rows of a database, or
    from the records of another log."""
    asked = {
        each.pod_state.pod.uid: (each.pod_state.rejectors, each.added)
        for each in pods
        if each.pod_state.queue is not None
    }
    if not asked:
        return {}
    log = opened.log
    if isinstance(log, Reader):
        keys = {rejectors for rejectors, _ in asked.values()}
        past = stored_waits(log, position, now, keys, list(map(uid_key, asked)))
    else:
        past = scanned_waits(log.read(max(0, position - WINDOW)), position, now)
    return estimates(asked, past, now)


def _print_json(
    folded: FoldedState,
    stream: str,
    now: int,
    pods: Sequence[WaitingPod],
    guesses: Mapping[str, WaitEstimate],
) -> None:
    document = {
        "stream": stream,
        "position": folded.position,
        "now": iso(now),
        "pods": [waiting_json(each, now, guesses.get(each.pod_state.pod.uid)) for each in pods],
    }
    print(json.dumps(document, ensure_ascii=False))


def assembly_in_force(folded: FoldedState, stream: str, plugins: list[Path]) -> Assembly:
    """The configuration in force, which sorts the queue. Raises InputError before the first
    record."""
    if folded.opening is None:
        raise InputError(f"stream {stream}", "has not begun at that position", "name a later one")
    if folded.opening.inputs.get(OWN):  # its pods are in the order in which they came
        return assemble_text("", [], stream, IN_TREE)
    return assembled(folded.opening, stream, plugins)
