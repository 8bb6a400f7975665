"""``eventsched db stats``: how large a log is, and how fast it grows."""

import argparse
import json
from typing import Any

from eventsched.cli.database_options import add_database_options, database_of
from eventsched.cli.output.statistics_output import statistics_json, statistics_text
from eventsched.domain.errors import InputError
from eventsched.domain.objects import quantities
from eventsched.eventlog import database
from eventsched.eventlog.inspection.log_statistics import read_statistics


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
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    add_database_options(parser, stream=False)
    parser.add_argument("--stream", metavar="NAME", help="the stream (default: all)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the statistics."""
    disk = _disk(options.disk)
    with database.reader_address(*database_of(options)) as address:
        log = read_statistics(address, options.stream)
    if options.output == "json":
        print(json.dumps(statistics_json(log, disk)))
    else:
        print(statistics_text(log, disk))
    return 0


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
