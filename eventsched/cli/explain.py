"""``eventsched explain``: why a pod is where it is, or why it is nowhere."""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from eventsched.cli.moments import with_distance
from eventsched.cli.places import add_database_options, database_of
from eventsched.cli.story import story_json, story_text
from eventsched.cli.tables import width_of_output
from eventsched.domain.errors import InputError
from eventsched.eventlog import database, reading
from eventsched.eventlog.reading import Reader
from eventsched.history.evidence import Evidence, ScannedEvidence
from eventsched.history.explanation import NoPodError, explain
from eventsched.history.filed import FileLog
from eventsched.history.stored_evidence import StoredEvidence


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "explain",
        help="tell why a pod is where it is, or why it is nowhere",
        description="Tells a pod's history from the log: where it waited and what moved it, each "
        "attempt, why that node, and why not the others.",
    )
    parser.add_argument(
        "pod", metavar="POD", help="namespace/name, a name that is unique, or a uid"
    )
    parser.add_argument(
        "--attempt", type=int, metavar="N", help="the attempt to explain (default: the last one)"
    )
    parser.add_argument("--node", metavar="NODE", help="why not that node, or how it scored")
    parser.add_argument("--full", action="store_true", help="do not fold repeated attempts")
    add_database_options(parser)
    parser.add_argument("--file", type=Path, metavar="FILE", help="an exported log")
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the explanation."""
    if options.file is not None:
        log = FileLog(options.file)
        return _explain(options, ScannedEvidence(log, log.stream))
    with database.read(*database_of(options)) as address:
        stream = reading.chosen(address, options.stream)
        reader = Reader(address, stream)
        try:
            return _explain(options, StoredEvidence(reader))
        except NoPodError as problem:
            raise InputError(
                problem.where, f"{problem.problem}; {_freshness(reader)}", problem.remedy
            ) from None


_FRESHNESS = """
SELECT h.holder, h.epoch, h.next,
       (SELECT (extract(epoch FROM written_at) * 1000000)::bigint FROM eventsched_log.batch
        WHERE stream = :s ORDER BY first DESC LIMIT 1) AS written,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now
FROM eventsched_log.head h WHERE h.stream = :s
"""


def _freshness(reader: Reader) -> str:
    """When the log last moved and who writes it: a pod that is new may not stand in it yet."""
    [row] = reader.rows(_FRESHNESS)
    if row["written"] is None:
        return "the log holds no record yet"
    by = f", written by {row['holder']} (epoch {row['epoch']})" if row["holder"] else ""
    return f"the log last moved {with_distance(row['written'], row['now'])}{by}"


def _explain(options: argparse.Namespace, evidence: Evidence) -> int:
    explained = explain(evidence, options.pod, options.attempt, options.node)
    if options.output == "json":
        print(json.dumps(story_json(explained)))
    else:
        now = time.time_ns() // 1_000
        print(story_text(explained, now, width_of_output(), full=options.full))
    return 0
