"""``eventsched queue``: which pods wait, in which order, what for, and how much longer."""

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventsched.cli.answers.answer_forms import WIDE, add_output_option, is_document, print_document
from eventsched.cli.log_access.log_at import AT_HELP, add_log_options, opened_log
from eventsched.domain.errors import InputError
from eventsched.domain.records import Queue
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import StateSnapshot
from eventsched.domain.units import is_virtual
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.past_state.anomalies import StoredAnomalies, stored_anomalies
from eventsched.history.past_state.missed_wake_ups import (
    FlushedPod,
    MissedWakeUp,
    missed_wake_up,
    scanned_flushes,
    stored_flushes,
)
from eventsched.history.past_state.wait_estimates import WaitEstimate, wait_estimates
from eventsched.history.past_state.waiting_pods import WaitingPod, waiting_pods
from eventsched.output.queues.anomaly_output import anomalies_json, anomalies_text
from eventsched.output.queues.queue_output import (
    missed_json,
    missed_text,
    queue_text,
    waiting_json,
)
from eventsched.output.state_output import place_text
from eventsched.output.terminal.display import display_of_output
from eventsched.output.time_format import iso
from eventsched.questions.past.open_log import OpenLog, StreamLog
from eventsched.runtime.queries.logged_assembly import assembly_in_force
from eventsched.runtime.queries.state_at import FoldedState, dropped_error, state_at
from eventsched.scheduling.engine import Engine

if TYPE_CHECKING:
    from eventsched.questions.past.past_pods import PastPods

_MOST_ANOMALIES = 20
"""Anomalies of each view that are shown without --full."""
_MOST_FLUSHES = 100
"""How many pods are looked at, the newest first: each takes some decisions."""


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
    parser.add_argument(
        "--missed-wake-ups", action="store_true",
        help="show the pods instead that only the flush after five minutes brought to a node, the "
        "change that should have woken them, and the plugin whose queueing hint missed it",
    )  # fmt: skip
    parser.add_argument(
        "--anomalies", action="store_true",
        help="show what goes wrong instead, or went wrong at --at: pods that starve or that no "
        "node would take, workloads that are evicted or pods that are nominated again and again, "
        "and preemptions that were for nothing",
    )  # fmt: skip
    for name, default in (("from", "the beginning"), ("until", "the end")):
        parser.add_argument(
            f"--{name}", dest=f"{name}_", metavar="POS|TIME",
            help=f"with --missed-wake-ups, flushes {name} there (default: {default})",
        )  # fmt: skip
    add_log_options(parser)
    add_output_option(parser, "text", wide=True)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the pods that wait, or those that were woken too late."""
    if options.missed_wake_ups:
        if options.anomalies:
            remedy = "leave one of the two out"
            raise InputError("--anomalies", "excludes --missed-wake-ups", remedy)
        return _run_missed(options)
    for name in ("from", "until"):
        if getattr(options, f"{name}_") is not None:
            raise InputError(f"--{name}", "is about --missed-wake-ups", "add that option")
    if options.anomalies:
        return _run_anomalies(options)
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
        guesses = wait_estimates(opened.log, folded.position, now, shown)
    if is_document(options.output):
        _print_document(folded, stream, now, shown, guesses, options.output)
        return 0
    shape = {"full": options.full, "wide": options.output == WIDE}
    place = place_text({"position": folded.position, "now": folded.state.now}, stream)
    text = queue_text(shown, now, guesses, **shape, display=display_of_output())
    print(f"{place}\n\n{text}")
    return 0


def _refuse_waiting(options: argparse.Namespace, chosen: str, *names: str) -> None:
    """Raises InputError if options about the pods that wait are given beside another question."""
    for name in names:
        if getattr(options, name) is not None:
            problem = f"is about the pods that wait, not about {chosen}"
            raise InputError(f"--{name}", problem, "leave one of the two out")


def _run_anomalies(options: argparse.Namespace) -> int:
    """Prints the anomalies of a log in a database."""
    _refuse_waiting(options, "--anomalies", "queue")
    most = sys.maxsize if options.full else _MOST_ANOMALIES
    place = ""
    with opened_log(options) as opened:
        log, stream = opened.log, opened.log.stream
        if not isinstance(log, Reader):
            problem = "are views of a database, which this log is not in"
            remedy = "name its database, or one that `eventsched db restore` has put the archive in"
            raise InputError("--anomalies", problem, remedy)
        if options.at is None:
            found = stored_anomalies(log.view_rows, stream, most)
            last = log.last_batch()
            now = time.time_ns() // 1_000
            if last is not None and is_virtual(last.records[-1].at):
                now = last.records[-1].at
        else:
            found, past = _past_anomalies(log, options.at, most)
            now = past.now
            place = place_text({"position": past.position, "now": now}, stream) + "\n\n"
    if is_document(options.output):
        print_document(anomalies_json(stream, found, most), options.output)
    else:
        print(f"{place}{anomalies_text(found, now, most)}")
    return 0


def _past_anomalies(log: Reader, at: str, most: int) -> "tuple[StoredAnomalies, PastPods]":
    """The anomalies at a position or time, as the API answers them, and the pods there."""
    # Only here: to import these takes longer than to answer about now.
    from eventsched.questions.past.past_anomalies import past_anomalies
    from eventsched.questions.past.past_pods import past_pods
    from eventsched.questions.states import FoldedStates, nodes_filled
    from eventsched.questions.streams import DatabaseStreams
    from eventsched.questions.visibility import EVERYTHING

    with closing(DatabaseStreams(log.address)) as streams:
        stream = streams.open(log.stream)
        with FoldedStates().at(stream, at, "--at") as folded:
            past = past_pods(stream, folded, nodes_filled(folded))
        return past_anomalies(stream, EVERYTHING, past, most), past


def _run_missed(options: argparse.Namespace) -> int:
    """Prints the missed wake-ups between two positions."""
    _refuse_waiting(options, "--missed-wake-ups", "at", "queue")
    with opened_log(options) as opened:
        log, stream = opened.log, opened.log.stream
        begin = 0 if options.from_ is None else opened.position(options.from_, "--from")
        if isinstance(log, Reader) and options.from_ is not None and begin < log.begin:
            raise dropped_error(log, begin, "--from")
        end = log.head.next
        if options.until_ is not None:
            end = min(end, opened.position(options.until_, "--until"))
        if begin > end:
            raise InputError(
                "--from", f"is position {begin}, after --until ({end})", "exchange them"
            )
        flushes = _flushes(log, begin, end)
        found = [_missed(opened, flush, options.plugin) for flush in flushes[-_MOST_FLUSHES:]]
    missed = [each for each in found if each is not None]
    if is_document(options.output):
        document = {
            "stream": stream, "from": begin, "until": end, "flushed": len(flushes),
            "examined": len(found), "missed": [missed_json(each) for each in missed],
        }  # fmt: skip
        print_document(document, options.output)
    else:
        print(missed_text(missed, len(flushes), len(found)))
    return 0


def _flushes(log: StreamLog, begin: int, end: int) -> list[FlushedPod]:
    """The pods that flushes between two positions brought to a node."""
    if isinstance(log, Reader):
        return stored_flushes(log, begin, end)
    return [each for each in scanned_flushes(log.read()) if begin <= each.flushed < end]


def _missed(opened: OpenLog, flush: FlushedPod, plugins: list[Path]) -> MissedWakeUp | None:
    log = opened.log
    folded: list[FoldedState] = []

    def state_before(position: int) -> SchedulerState:
        folded.append(state_at(log, opened.reader, position, log.head.next))
        return folded[-1].state

    def make_engine(copy: StateSnapshot, position: int) -> Engine:
        assembly = assembly_in_force(folded[-1], log.stream, plugins)
        engine = assembly.engine(with_detail=False)
        engine.restore(copy, position)
        return engine

    return missed_wake_up(log, flush, state_before, make_engine)


def _print_document(
    folded: FoldedState,
    stream: str,
    now: int,
    pods: Sequence[WaitingPod],
    guesses: Mapping[str, WaitEstimate],
    output: str,
) -> None:
    document = {
        "stream": stream,
        "position": folded.position,
        "now": iso(now),
        "pods": [waiting_json(each, now, guesses.get(each.pod_state.pod.uid)) for each in pods],
    }
    print_document(document, output)
