"""``eventsched db stats``: how large a log is, and how fast it grows."""

import argparse
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.domain.objects import quantities
from eventsched.eventlog import database
from eventsched.eventlog.inspection.log_statistics import read_statistics
from eventsched.eventlog.inspection.old_partitions import old_partitions
from eventsched.output.statistics_output import (
    old_partitions_text,
    statistics_json,
    statistics_text,
)
from eventsched.output.time_format import read_moment


def add_action(actions: Any) -> None:
    """Adds the action to ``eventsched db``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "stats",
        help="how large the log is, and how fast it grows",
        description="Counts the records, decisions, batches and epochs of each stream, measures "
        "the tables, and estimates the growth per day from the last day of a stream, or from its "
        "whole age if it is younger. Sizes are those of the whole database, also with --stream.",
    )
    parser.add_argument(
        "--disk",
        metavar="SIZE",
        help="a quantity such as 100Gi: say when a disk of this size would be full",
    )
    parser.add_argument(
        "--keep",
        metavar="AGE",
        help="a length such as 90d: say what would be free if older records were dropped",
    )
    add_output_option(parser)
    add_database_options(parser, stream=False)
    parser.add_argument("--stream", metavar="NAME", help="the stream (default: all)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the statistics."""
    disk = _disk(options.disk)
    with database.reader_address(*database_of(options)) as address:
        log = read_statistics(address, options.stream)
        before = _before(options.keep, log.at)
        old = None if before is None else old_partitions(address, before)
    if is_document(options.output):
        freed = {} if old is None else {"old": [each._asdict() for each in old]}
        print_document({**statistics_json(log, disk), **freed}, options.output)
    else:
        print(statistics_text(log, disk))
        if old is not None:
            print(old_partitions_text(old, options.keep))
    return 0


def _before(keep: str | None, now: int) -> int | None:
    """The time (µs) before which records are older than --keep. Raises InputError."""
    if keep is None:
        return None
    try:
        return read_moment(keep, now, virtual=False)
    except (ValueError, OverflowError):
        raise InputError("--keep", f"{keep!r} is not a length", "write one such as 90d") from None


def _disk(text: str | None) -> int | None:
    """The bytes of --disk. Raises InputError."""
    if text is None:
        return None
    try:
        size = quantities.parse(text)
    except InputError:
        size = 0
    if size <= 0:
        raise InputError("--disk", f"{text!r} is not a size", "write one such as 100Gi or 500G")
    return size
