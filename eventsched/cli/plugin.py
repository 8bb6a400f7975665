"""``eventsched plugin``: creates a plugin package, and checks plugins."""

import argparse
from pathlib import Path
from typing import Any

from eventsched.authoring import scaffold
from eventsched.authoring.checkup import CheckRequest, check
from eventsched.authoring.findings import PluginRun, findings_json, findings_text
from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog.port import StoredLog
from eventsched.process.exit_codes import DIFFERS
from eventsched.runtime.assembly import registry


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "plugin",
        help="create a package for your own plugin, or check a plugin",
        description="Creates a package for your own plugin, or checks a plugin.",
    )
    actions = parser.add_subparsers(title="actions", dest="action", required=True)
    _add_new(actions)
    _add_check(actions)


def _add_new(actions: Any) -> None:
    new: argparse.ArgumentParser = actions.add_parser(
        "new",
        help="create a package: code, test, entry point, configuration",
        description="Creates a package for a plugin: code with typed arguments, a test, an entry "
        "point, a configuration and a small cluster to try it on.",
    )
    new.add_argument("name", metavar="NAME", help="the plugin's name, like FastDisk")
    new.add_argument("--dir", type=Path, metavar="FOLDER", help="default: ./fast-disk")
    new.set_defaults(run=_new)


def _add_check(actions: Any) -> None:
    check_parser: argparse.ArgumentParser = actions.add_parser(
        "check",
        help="run a plugin over a history, twice, and report problems",
        description="Calls a plugin for every attempt of a history, twice in each of two "
        "processes. Reports calls that use more than their arguments (clock, randomness, network, "
        "files, environment), answers that differ or have a wrong shape, the cost of a call, and "
        "changes that make a node acceptable to a refused pod without waking it. Nothing is "
        "scheduled. Exit code 1 if there are findings.",
    )
    check_parser.add_argument(
        "plugin", metavar="PATH|NAME", help="a file, a package's folder, or an installed plugin"
    )
    check_parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration with the plugin's arguments"
    )
    check_parser.add_argument(
        "--history", type=Path, metavar="FILE",
        help="an exported log to run over (default: a small generated history)",
    )  # fmt: skip
    check_parser.add_argument(
        "--attempts", type=_count, default=500, metavar="N",
        help="at most N attempts of the history (default: 500)",
    )  # fmt: skip
    add_database_options(check_parser)
    add_output_option(check_parser)
    check_parser.set_defaults(run=_check)


def _new(options: argparse.Namespace) -> int:
    folder = scaffold.make(options.name, options.dir, registry())
    print(f"created {folder}; next:\n\n    cd {folder}\n    pytest\n    eventsched plugin check .")
    return 0


def _check(options: argparse.Namespace) -> int:
    request = CheckRequest(options.plugin, options.config, options.attempts)
    runs = _run_check(options, request)
    if is_document(options.output):
        print_document(findings_json(runs), options.output)
    else:
        print(findings_text(runs))
    return DIFFERS if any(run.findings for run in runs) else 0


def _run_check(options: argparse.Namespace, request: CheckRequest) -> list[PluginRun]:
    """Runs the check over the history that the options name: a file, a database, or none. The
    environment's database counts only if a stream is named: it may belong to another project."""
    has_database = options.database is not None or options.data_dir is not None or options.stream
    if options.history is not None:
        if has_database:
            problem = "--history cannot be combined with a database or a stream"
            raise InputError("options", problem, "name one history")
        from eventsched.history.export_reader import FileLog

        return check(request, FileLog(options.history))
    if not has_database:
        return check(request, None)
    from eventsched.eventlog import database
    from eventsched.eventlog.postgres.reader import Reader

    with database.reader_address(*database_of(options)) as address:
        log: StoredLog = Reader(address, options.stream)
        return check(request, log)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number; write 1 or more")
    return int(text)
