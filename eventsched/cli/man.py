"""``eventsched man``: man pages of the commands, made of their help."""

import argparse
import sys
from pathlib import Path
from typing import Any

from eventsched import __version__
from eventsched.cli.main import COMMANDS, every_command
from eventsched.cli.manual.command_pages import CommandPage, pages_of
from eventsched.cli.manual.roff import SECTION, file_name, man_page
from eventsched.domain.errors import InputError
from eventsched.process.exit_codes import BAD_INPUT, DIFFERS, ENVIRONMENT, STOPPED

_EXIT_CODES = {
    0: "Success.",
    DIFFERS: "The answer is no: something differs, or a pod has no node.",
    BAD_INPUT: "Bad input. One line names the place, the problem and the remedy.",
    ENVIRONMENT: "The database or the cluster is unavailable.",
    STOPPED: "Stopped by Ctrl-C.",
}


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "man",
        help="print the man page of a command, or write all of them",
        description="Prints a man page, for: eventsched man explain | man -l -. "
        "With --to, writes the pages of all commands into a folder that man searches.",
    )
    parser.add_argument(
        "command_name", nargs="?", metavar="COMMAND", choices=[*COMMANDS],
        help="default: the page of eventsched itself",
    )  # fmt: skip
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER",
        help=f"write all pages into FOLDER/man{SECTION}, such as ~/.local/share/man",
    )  # fmt: skip
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    top = pages_of(every_command())
    if options.to is None:
        name = " ".join(filter(None, (top.name, options.command_name)))
        (page,) = (page for page in (top, *top.below) if page.name == name)
        sys.stdout.write(_written(page, top))
        return 0
    if options.command_name is not None:
        raise InputError("--to", "writes the pages of all commands", "name no command")
    folder: Path = options.to / f"man{SECTION}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for page in (top, *top.below):
            (folder / file_name(page)).write_text(_written(page, top), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"--to {options.to}", reason, "name a folder to write to") from error
    return 0


def _written(page: CommandPage, top: CommandPage) -> str:
    """A page as roff. That of ``eventsched`` lists the others, which describe themselves."""
    others = [each.name.replace(" ", "-") for each in top.below]
    also = others if page is top else [top.name]
    return man_page(page, __version__, _EXIT_CODES, also)
