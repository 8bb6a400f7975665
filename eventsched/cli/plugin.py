"""``eventsched plugin``: a package for a plugin of one's own, and a check of one."""

import argparse
import json
from pathlib import Path
from typing import Any

from eventsched.authoring import scaffold
from eventsched.authoring.checkup import Checkup, check
from eventsched.authoring.findings import findings_json, findings_text
from eventsched.cli.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog.port import StoredLog
from eventsched.process.exit_codes import DIFFERS
from eventsched.runtime.assembly import registry


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "plugin",
        help="make a package for a plugin of one's own, or check one",
        description="Makes a package for a plugin of one's own, or checks one.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    _add_new(actions)
    _add_check(actions)


def _add_new(actions: Any) -> None:
    new: argparse.ArgumentParser = actions.add_parser(
        "new",
        help="make a package: code, test, entry point, configuration",
        description="Makes a package for a plugin: code with typed arguments, a test, an entry "
        "point, a configuration and a small cluster to try it on.",
    )
    new.add_argument("name", metavar="NAME", help="the plugin's name, like FastDisk")
    new.add_argument("--dir", type=Path, metavar="FOLDER", help="default: ./fast-disk")
    new.set_defaults(run=_new)


def _add_check(actions: Any) -> None:
    checking: argparse.ArgumentParser = actions.add_parser(
        "check",
        help="run a plugin over a history, twice, and say what is wrong with it",
        description="Asks a plugin about every attempt of a history, twice, in two processes, and "
        "reports what depends on more than it was given (clock, randomness, network, files, "
        "environment), answers that differ or have a wrong shape, what a call costs, and changes "
        "that make a refused pod acceptable and that it does not wake for. Nothing is scheduled. "
        "Exit code 1 where something was found.",
    )
    checking.add_argument(
        "plugin", metavar="PATH|NAME", help="a file, a package's folder, or an installed plugin"
    )
    checking.add_argument(
        "--config", type=Path, metavar="FILE", help="where the plugin's arguments stand"
    )
    checking.add_argument(
        "--history", type=Path, metavar="FILE",
        help="an exported log to ask about (default: a small generated cluster)",
    )  # fmt: skip
    checking.add_argument(
        "--attempts", type=_count, default=500, metavar="N",
        help="of the history at most so many (default: 500)",
    )  # fmt: skip
    add_database_options(checking)
    checking.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    checking.set_defaults(run=_check)


def _new(options: argparse.Namespace) -> int:
    folder = scaffold.make(options.name, options.dir, registry())
    print(f"{folder} is made; next:\n\n    cd {folder}\n    pytest\n    eventsched plugin check .")
    return 0


def _check(options: argparse.Namespace) -> int:
    wanted = Checkup(options.plugin, options.config, options.attempts)
    found = _checked(options, wanted)
    if options.output == "json":
        print(json.dumps(findings_json(found), ensure_ascii=False))
    else:
        print(findings_text(found))
    return DIFFERS if any(each.findings for each in found) else 0


def _checked(options: argparse.Namespace, wanted: Checkup) -> Any:
    """Over the history that is named: a file, a database, or none. The environment's database
    counts only where a stream of it is named: it may be another project's."""
    named = options.database is not None or options.data_dir is not None or options.stream
    if options.history is not None:
        if named:
            raise InputError("options", "--history names a whole log", "leave the other places out")
        from eventsched.history.export_reader import FileLog

        return check(wanted, FileLog(options.history))
    if not named:
        return check(wanted, None)
    from eventsched.eventlog import database
    from eventsched.eventlog.postgres import reader
    from eventsched.eventlog.postgres.reader import Reader

    with database.reader_address(*database_of(options)) as address:
        log: StoredLog = Reader(address, reader.choose_stream(address, options.stream))
        return check(wanted, log)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number; write 1 or more")
    return int(text)
