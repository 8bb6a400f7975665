"""``eventsched replay``: the state of a stream from its log, or every decision repeated."""

import argparse
import time
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.archive_options import add_archive_option, archived_log
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.cli.what_if_runs.what_if import add_what_if_options, is_asked_for, run_what_if
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.export_reader import FileLog
from eventsched.history.replay import stream_replay
from eventsched.history.replay.logged_state import ReplayStart
from eventsched.history.replay.stream_replay import ReplayResult
from eventsched.output.terminal.tables import counted
from eventsched.process.exit_codes import DIFFERS
from eventsched.questions.past.open_log import StreamLog
from eventsched.runtime import gc_tuning
from eventsched.runtime.log_start import LogStart, first_start, last_start
from eventsched.runtime.queries.logged_assembly import assembled, begun_assembly


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "replay",
        help="rebuild a stream's state, or make its decisions again and compare",
        description="Rebuilds the state of a stream from its log. With --verify every decision is "
        "repeated and compared with what is written; the first difference is reported. With "
        "--what-if every decision is made by other rules, and the pods that differ are shown.",
    )
    add_database_options(parser)
    add_archive_option(parser, file_help="an exported log")
    parser.add_argument("--verify", action="store_true", help="decide again, and compare")
    parser.add_argument(
        "--until",
        metavar="POSITION",
        help="stop before the record at that position; with --what-if also a time",
    )
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the stream was written with, or that --what-if names; may "
        "be repeated",
    )  # fmt: skip
    add_output_option(parser)
    add_what_if_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Replays and prints what came of it."""
    if is_asked_for(options):
        return run_what_if(options, assembled)
    options.until = _position(options.until, "--until")
    options.first = _position(options.first, "--from")
    if options.first and (options.file is not None or options.from_archive is not None):
        problem = "begins at a checkpoint of a database; files and archives are replayed as a whole"
        raise InputError("--from", problem, "leave it out, or add --what-if CONFIG")
    if options.file is not None:
        if not options.database is options.data_dir is options.stream is None:
            raise InputError(
                "options", "--file names a whole log", "remove --database, --data-dir and --stream"
            )
        return _replay(options, FileLog(options.file), None)
    if options.from_archive is not None:
        with archived_log(options) as (log, reader):
            return _replay(options, log, reader)
    with database.reader_address(*database_of(options)) as address:
        reader = Reader(address, options.stream)
        return _replay(options, reader, reader)


def _replay(options: argparse.Namespace, log: StreamLog, reader: Reader | None) -> int:
    start = _start_of(log, options.first or 0) if isinstance(log, Reader) else None
    if start is not None and options.until is not None and options.until < start.position:
        raise InputError(
            "--until",
            f"the records before position {start.position} "
            + ("are left out" if options.first else "were dropped"),
            "name a later one" if options.first else "add --from-archive FOLDER",
        )
    assembly = begun_assembly(log, log.stream, options.plugin, options.verify, start)
    gc_tuning.freeze()
    started = time.perf_counter()
    snapshot, end = reader.snapshot() if reader else None, log.head.next
    if options.verify:
        done = stream_replay.verify(
            assembly.engine,
            log,
            options.until,
            snapshot,
            end=end,
            engine_of_term=lambda began: assembled(began, log.stream, options.plugin).engine(),
            start=_replay_start(start),
            partial_details=log.partial_details(0 if start is None else start.position),
        )
    else:
        done = stream_replay.rebuild(
            assembly.engine(), log, options.until, snapshot, end=end, start=_replay_start(start)
        )
    seconds = time.perf_counter() - started
    first = 0 if start is None else start.position
    if is_document(options.output):
        print_document(
            {**_as_json(options, log.stream, done, seconds), "first": first}, options.output
        )
    else:
        if first:
            missing = "are left out" if options.first else "were dropped"
            print(f"the records before position {first} {missing}: the state there is a checkpoint")
        print(_as_text(options, log.stream, done, seconds))
    return 0 if done.divergence is None else DIFFERS


def _position(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InputError(option, f"{text!r} is not a position", "write a number")
    return int(text)


def _start_of(reader: Reader, since: int) -> LogStart | None:
    """The newest checkpoint up to position ``since``, or where the kept records begin; None for the
    first record."""
    first = first_start(reader)
    return (last_start(reader, since) if since else None) or first


def _replay_start(start: LogStart | None) -> ReplayStart:
    return ReplayStart() if start is None else ReplayStart(start.position, start.state)


def _as_text(options: argparse.Namespace, stream: str, done: ReplayResult, seconds: float) -> str:
    rate = f"{done.placed / seconds:,.0f} pods/s" if seconds else ""
    how = "decided again" if options.verify else "applied"
    answers = f"{counted(done.answers, 'answer')} to other schedulers, " if done.answers else ""
    lines = [
        f"stream {stream}: {counted(done.records, 'record')} {how}, "
        f"{counted(done.decisions, 'decision')}, {counted(done.placed, 'pod')} placed, {answers}"
        f"{seconds:.2f} s ({rate})",
        f"state digest {done.engine.state.digest()} after "
        f"{counted(done.engine.position, 'record')}",
    ]
    if done.divergence is not None:
        lines.append(f"DIFFERS at {done.divergence}")
    elif options.verify:
        decisions = "decision and answer" if done.answers else "decision"
        exceptions = ", except for:" if done.tolerated else ""
        lines.append(f"every {decisions} came out as it is written{exceptions}")
    for name, number in sorted(done.tolerated.items()):
        lines.append(f"  {counted(number, 'step')} with the known difference {name} of 0.1")
    return "\n".join(lines)


def _as_json(
    options: argparse.Namespace, stream: str, done: ReplayResult, seconds: float
) -> dict[str, Any]:
    return {
        "stream": stream,
        "verified": options.verify and done.divergence is None,
        "records": done.records,
        "decisions": done.decisions,
        "placed": done.placed,
        "answers": done.answers,
        "position": done.engine.position,
        "state_digest": done.engine.state.digest(),
        "seconds": round(seconds, 3),
        "pods_per_second": round(done.placed / seconds, 1) if seconds else 0.0,
        "tolerated": dict(sorted(done.tolerated.items())),
        "divergence": None if done.divergence is None else vars(done.divergence),
    }
