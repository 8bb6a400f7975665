"""``eventsched db restore``: the log of a lost database, from its archive."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, print_answer
from eventsched.cli.log_access.archive_options import require_archives
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.schema import migrations
from eventsched.history.verify.verification import verify_database
from eventsched.history.verify.verified_log import LaterVersionError
from eventsched.history.verify.verified_problems import Problem
from eventsched.output.replays.record_progress import RecordProgress
from eventsched.output.terminal.tables import counted
from eventsched.process.exit_codes import DIFFERS


def add_action(actions: Any) -> None:
    """Adds the action to the parser of ``eventsched db``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "restore",
        help="load an archive into a database that lost the log",
        description="Loads all of a stream's archive into a database that does not have the "
        "stream, with everything that is derived from the records, and verifies it. It is one "
        "transaction: if it is interrupted, nothing is there. Records that were not archived are "
        "lost. Needs the extra `archive`.",
    )
    parser.add_argument(
        "--from-archive", type=Path, required=True, metavar="FOLDER",
        help="an archive of `db archive`",
    )  # fmt: skip
    add_output_option(parser, "text", pages=False)
    parser.set_defaults(run=_restore)
    add_database_options(parser)


def _restore(options: argparse.Namespace) -> int:
    require_archives()
    from eventsched.eventlog.archive.archive_folder import choose_archived
    from eventsched.eventlog.archive.restoring import restored

    stream = choose_archived(options.from_archive, options.stream)
    loading, verifying = RecordProgress("records loaded"), RecordProgress("records verified")
    with database.writer_address(*database_of(options)) as address:
        migrations.require(address)
        try:
            with restored(address, options.from_archive, stream, loading) as (connection, records):
                loading.done()
                [result] = verify_database(connection, [stream], thinned=True, progress=verifying)
                if result.problems:
                    raise _NotRestoredError(result.problems)
        except LaterVersionError as newer:
            where = f"position {newer.position} of the log"
            raise InputError(where, newer.problem, "use that version or a later one") from newer
        except _NotRestoredError as error:
            for position, text in error.problems:
                print(f"position {position}: {text}", file=sys.stderr)
            print(f"stream {stream} was not restored", file=sys.stderr)
            return DIFFERS
        finally:
            loading.done()
            verifying.done()
    text = f"stream {stream}: {counted(records, 'record')} and "
    text += f"{counted(result.decisions, 'decision')} restored and verified"
    document = {"stream": stream, "records": records, "decisions": result.decisions}
    print_answer(document, text, options.output)
    return 0


class _NotRestoredError(Exception):
    """What was loaded is not what was written; the transaction is rolled back."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__()
        self.problems = problems
