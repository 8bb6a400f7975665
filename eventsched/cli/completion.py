"""``eventsched completion``: a script that completes the command line in a shell."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import shtab

from eventsched.cli.main import every_command

SHELLS = ("bash", "zsh", "fish")


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a script that completes commands and options in a shell",
        description="Prints a script for a shell. In bash, for this session: "
        "source <(eventsched completion bash)",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    sys.stdout.write(script(options.shell))
    return 0


def script(shell: str) -> str:
    """The script for one of SHELLS. It holds every command and option, so completion starts no
    Python. Options that take a file or a folder complete paths."""
    parser = every_command()
    for action in _actions(parser):
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if "FOLDER" in metavar:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif "FILE" in metavar or "PATH" in metavar:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return f"{shtab.complete(parser, shell=shell).rstrip()}\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of a parser and of all parsers below it. argparse has no public list of them."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
