"""``eventsched``: the commands. What their exit codes mean is in exit_codes.py."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from eventsched import __version__, signals
from eventsched.cli.database_options import database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog.log_errors import (
    ConflictError,
    CorruptLogError,
    FencedError,
    UnavailableError,
)
from eventsched.process.exit_codes import BAD_INPUT, ENVIRONMENT, STOPPED

COMMANDS = {
    "run": "schedule the pods of a cluster",
    "extender": "answer a kube-scheduler that asks this as its extender, and log it",
    "simulate": "schedule a simulated cluster and say what was decided",
    "evaluate": "say where a pod would go now, and why",
    "plugin": "make a package for a plugin of one's own, or check one",
    "config": "check a KubeSchedulerConfiguration, complete it, or compare two",
    "explain": "tell why a pod is where it is, or why it is nowhere",
    "replay": "rebuild a stream's state, or make its decisions again and compare",
    "verify": "check that a log is what was written",
    "log": "list, follow or export the records of a stream",
    "sticky": "list which nodes pods go back to, or have one forgotten",
    "sql": "ask a log by SQL, or open psql on it",
    "db": "the database: its address, its schema, the embedded server",
    "completion": "print a script that completes commands and options in a shell",
}
"""Each is a module of this package with ``add_to``; only the one that is asked for is imported."""

_REMEDIES = {
    "25006": "connect to one that may be written, such as the primary",
    "42501": "GRANT eventsched_writer (to read: eventsched_reader) to this user",
    "53": "give it more room, and start again",
}
"""By what the SQLSTATE begins with."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong with a command line in one line, like everything else."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def _is_text(word: str) -> bool:
    """Whether a word of the command line can be printed and stored: the system passes bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown(word: str) -> str:
    """What is said of a command that there is not."""
    near = get_close_matches(word, COMMANDS, 1, 0.5)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
    return f"there is no command {word!r}: {remedy}"


def _outline() -> tuple[_Parser, Any]:
    """The parser without commands, and what commands are added to."""
    parser = _Parser(
        prog="eventsched",
        description="The Kubernetes scheduler that remembers: every decision is an event.",
    )
    parser.add_argument("--version", action="version", version=f"eventsched {__version__}")
    return parser, parser.add_subparsers(title="commands", dest="command", required=True)


def _add(commands: Any, name: str) -> None:
    importlib.import_module(f"eventsched.cli.{name}").add_to(commands)


def every_command() -> argparse.ArgumentParser:
    """The parser with all commands. It imports all of them, which is slow."""
    parser, commands = _outline()
    for name in COMMANDS:
        _add(commands, name)
    return parser


def _parsed(given: Sequence[str]) -> argparse.Namespace | None:
    """The command and its options; None if nothing was given, after the help."""
    parser, commands = _outline()
    if unreadable := next((word for word in given if not _is_text(word)), None):
        parser.error(f"{unreadable.encode(errors='surrogateescape')!r} is no UTF-8")
    asked = next((word for word in given if not word.startswith("-")), None)
    if asked is not None and given[0] == asked and asked not in COMMANDS:
        parser.error(_unknown(asked))
    for name, told in COMMANDS.items():
        if name == asked:
            _add(commands, name)
        else:
            commands.add_parser(name, help=told)
    if not given:
        parser.print_help(sys.stderr)
        return None
    return parser.parse_args(given)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    options = _parsed(sys.argv[1:] if arguments is None else arguments)
    if options is None:
        return BAD_INPUT
    if signals.asked_to_end():
        return signals.ENDED_BY_SIGTERM
    try:
        code: int = options.run(options)
    except InputError as problem:
        print(f"eventsched {options.command}: {problem}", file=sys.stderr)
        return BAD_INPUT
    except UnavailableError as problem:
        line = " ".join(str(problem).split())  # initdb and the server say more than one
        print(f"eventsched {options.command}: {line}", file=sys.stderr)
        return ENVIRONMENT
    except (FencedError, ConflictError) as problem:
        print(
            f"eventsched {options.command}: {problem}; see that only one runs, and start it again",
            file=sys.stderr,
        )
        return ENVIRONMENT
    except CorruptLogError as problem:
        print(
            f"eventsched {options.command}: the log is damaged: {problem}; "
            "see `eventsched verify`, and restore the database from a backup",
            file=sys.stderr,
        )
        return ENVIRONMENT
    except _overruns() as overrun:
        print(f"eventsched {options.command}: {overrun}; fix the plugin", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader (head, less) has seen enough; nothing may be flushed into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        kept = options.command == "simulate" and any(database_of(options))
        told = "; the same command goes on from here" if kept else ""
        print(f"\neventsched {options.command}: stopped{told}", file=sys.stderr)
        return STOPPED
    except Exception as problem:
        # Whatever Postgres refuses is said in one line, foreseen or not; all else is a bug of ours.
        said = _said_by_the_database(problem)
        if said is None:
            raise
        print(f"eventsched {options.command}: the database says: {said}", file=sys.stderr)
        return ENVIRONMENT
    return code


def _overruns() -> tuple[type[BaseException], ...]:
    """What a plugin that takes too long raises, once plugins are imported at all."""
    guard = sys.modules.get("eventsched.scheduling.framework.call_guard")
    return () if guard is None else (guard.OverrunError,)


def _said_by_the_database(problem: Exception) -> str | None:
    """What Postgres refused in a place where nobody foresaw it, with a remedy; None for what does
    not come from there. psycopg is there only where a database is used."""
    refused = getattr(problem, "orig", problem)
    psycopg = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(refused, psycopg.Error):
        return None
    state = refused.sqlstate or ""
    remedy = next((told for begins, told in _REMEDIES.items() if state.startswith(begins)), "")
    return f"{str(refused).strip().splitlines()[0]}; {remedy or 'read its log'}"
