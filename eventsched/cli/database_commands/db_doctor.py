"""``eventsched db doctor``: whether a database can be trusted with the log."""

import argparse
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.eventlog import database
from eventsched.eventlog.inspection.database_checks import diagnose
from eventsched.eventlog.inspection.database_facts import read_facts
from eventsched.output.diagnosis_output import diagnosis_json, diagnosis_text
from eventsched.output.terminal.display import display_of_output
from eventsched.process.exit_codes import DIFFERS


def add_action(actions: Any) -> None:
    """Adds the action to ``eventsched db``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "doctor",
        help="check that the database can be trusted with the log",
        description="Checks settings, replication, roles, triggers, the ends of the streams and "
        "what slows appends down, and changes nothing. Each finding has a remedy. Exit code 1: a "
        "scheduler must not be trusted to run on this database. Connect as the user of `eventsched "
        "db upgrade` or as the scheduler's; a user without pg_read_all_stats (pg_monitor has it) "
        "does not see the transactions of others.",
    )
    add_output_option(parser)
    add_database_options(parser, stream=False)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the findings."""
    with database.administrator_address(*database_of(options)) as address:
        diagnosis = diagnose(read_facts(address))
    if is_document(options.output):
        print_document(diagnosis_json(diagnosis), options.output)
    else:
        print(diagnosis_text(diagnosis, display_of_output().paint))
    return DIFFERS if diagnosis.is_refused else 0
