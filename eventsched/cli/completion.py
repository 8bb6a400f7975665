"""``eventsched completion``: a script that completes the command line in a shell."""

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import shtab

from eventsched.cli.main import every_command
from eventsched.cli.object_names.shell_functions import name_completion, preamble

SHELLS = ("bash", "zsh", "fish")
_ZSH_SOURCED = "zsh_eval_context[-1] == eval", "zsh_eval_context[-1] == (eval|file)"
"""shtab registers a script of zsh by ``eval``; by ``source`` it would run it, which is an error."""


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "completion",
        help="print a script that completes commands, options and names in a shell",
        description="Prints a script for a shell. In bash, for this session: "
        "source <(eventsched completion bash)",
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    sys.stdout.write(script(options.shell))
    return 0


def script(shell: str) -> str:
    """The script for one of SHELLS. It holds every command and option, so these are completed
    without starting Python. Options that take a file or a folder complete paths; names are asked
    for (``eventsched.cli.object_names``)."""
    parser = every_command()
    for action in _actions(parser):
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        if "FOLDER" in metavar:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif "FILE" in metavar or "PATH" in metavar:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif (names := name_completion(action)) is not None:
            action.complete = names  # type: ignore[attr-defined]
    made = shtab.complete(parser, shell=shell, preamble=preamble(shell))
    return f"{made.replace(*_ZSH_SOURCED).rstrip()}\n"


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The actions of a parser and of all parsers below it. argparse has no public list of them."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
