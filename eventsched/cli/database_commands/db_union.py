"""``eventsched db union``: one database that answers for the logs of several servers."""

import argparse
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, print_answer
from eventsched.cli.log_access.database_options import database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog.union.union_database import make_union
from eventsched.eventlog.union.union_members import read_members
from eventsched.output.terminal.tables import counted, table


def add_action(actions: Any) -> None:
    """Adds the action to ``eventsched db``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "union",
        help="make a database whose views answer for several servers",
        description="Makes views in a database of its own that answer for the logs of several "
        "servers, with a column that names the server. Nothing can be written through them. The "
        "database holds the logins, so prefer password files or certificates of its server to "
        "passwords in URLs. Run again, it replaces the union. The database's user needs a "
        "superuser's rights, or logins with passwords; its server needs postgres_fdw and dblink.",
    )
    parser.add_argument("--database", metavar="URL", help="the union's own database, without a log")
    parser.add_argument(
        "--member", action="append", required=True, metavar="NAME=URL",
        help="a server, by the name that it shall have and its address as the union's server sees "
        "it, for a login that can only read; repeated for each",
    )  # fmt: skip
    parser.add_argument(
        "--reader", action="append", default=[], metavar="ROLE",
        help="a role that may ask the union; may be repeated (default: its owner alone)",
    )  # fmt: skip
    parser.add_argument(
        "--print", action="store_true", help="print the SQL, without passwords, and change nothing"
    )
    add_output_option(parser, "text", pages=False)
    parser.set_defaults(run=run, data_dir=None)


def run(options: argparse.Namespace) -> int:
    """Makes the union and lists its members, or prints the SQL."""
    members = read_members(options.member)
    address, _ = database_of(options)
    if address is None:
        problem, remedy = "no database is named", "give the union's own one: --database URL"
        raise InputError("--database", problem, remedy)
    script = make_union(address, members, options.reader, keep=not options.print)
    if options.print:
        script = ["BEGIN;", *script, "COMMIT;"]
        print_answer({"statements": script}, "\n".join(script), options.output)
        return 0
    listed = table((), [[m.name, m.address] for m in members], ("server", "address"))
    text = f"views of schema eventsched answer for {counted(len(members), 'server')}"
    document = {"members": [{"server": m.name, "address": m.address} for m in members]}
    print_answer(document, f"{listed}\n{text}", options.output)
    return 0
