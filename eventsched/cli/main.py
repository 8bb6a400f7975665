"""``eventsched``: the commands. exit_codes.py explains their exit codes."""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

from eventsched import __version__, signals
from eventsched.cli.answers.answer_forms import ends_unread, has_pager
from eventsched.cli.answers.pager import paged
from eventsched.cli.log_access.database_options import database_of
from eventsched.cli.object_names import name_offer
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.log_errors import ConflictError, CorruptLogError, FencedError
from eventsched.output.terminal.character_fallback import fall_back_to_ascii
from eventsched.process.exit_codes import BAD_INPUT, ENVIRONMENT, STOPPED
from eventsched.runtime import gc_tuning

COMMANDS = {
    "run": "schedule the pods of a cluster",
    "extender": "answer a kube-scheduler that asks this as its extender, and log it",
    "simulate": "schedule a simulated cluster and say what was decided",
    "evaluate": "say where a pod would go now, and why",
    "try": "say where pods would go if they were submitted, and what they would need",
    "plugin": "create a package for your own plugin, or check a plugin",
    "config": "check a KubeSchedulerConfiguration, complete it, or compare two",
    "explain": "show why a pod is where it is, or why it is nowhere",
    "state": "show nodes, pods and queues as the scheduler believed them at a position",
    "diff": "show what differs between the states at two positions of a log",
    "testcase": "write a decision as a pytest file with the smallest cluster",
    "queue": "show which pods wait, in which order, what for, and how much longer",
    "replay": "rebuild a stream's state, or make its decisions again and compare",
    "shadow": "report how a shadow's decisions compare with the real placements",
    "verify": "check that a log is what was written",
    "keys": "make or show a key that signs checkpoints of the log",
    "log": "list, follow or export the records of a stream",
    "top": "show live what happens now: who waits and why, how full the nodes are",
    "sticky": "list which nodes pods go back to, or have one forgotten",
    "serve": "answer questions about a log over HTTP",
    "mcp": "answer an assistant's questions about a log",
    "sql": "ask a log by SQL, or open psql on it",
    "db": "the database: its address, its schema, the embedded server",
    "completion": "print a script that completes commands, options and names in a shell",
    "man": "print the man page of a command, or write all of them",
}
"""The help of each command. A command is a module of this package with ``add_to``; only the module
of the requested command is imported."""

_REMEDIES = {
    "25006": "connect to one that may be written, such as the primary",
    "42501": "GRANT eventsched_writer (to read: eventsched_auditor) to this user",
    "53": "give it more room, and start again",
}
"""Remedies by the first characters of the SQLSTATE."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""Errors of a file that output is redirected to."""


_SIGNED_VALUES = {"replay": "--nodes"}
"""The option of a command whose value may begin with "-", as in ``--nodes -NODE``."""
_SHORT_OPTIONS = ("-h", "-o")
"""The short options of these commands."""


class CommandParser(argparse.ArgumentParser):
    """Reports an error of the command line in one line, as all other errors are. Options are
    written out: what is short for one option today would be short for two after the next version,
    or for another one on another command."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def _is_text(word: str) -> bool:
    """Whether an argument is valid UTF-8. The system passes bytes."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown_command(word: str) -> str:
    """The error message for a command that does not exist."""
    near = get_close_matches(word, COMMANDS, 1, 0.5)
    remedy = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
    return f"there is no command {word!r}: {remedy}"


def _empty_parser() -> tuple[CommandParser, Any]:
    """The parser without commands, and the object to which commands are added."""
    parser = CommandParser(
        prog="eventsched",
        description="The Kubernetes scheduler that remembers: every decision is an event.",
    )
    parser.add_argument("--version", action="version", version=f"eventsched {__version__}")
    return parser, parser.add_subparsers(title="commands", dest="command", required=True)


def _with_signed_values(command: str | None, arguments: Sequence[str]) -> list[str]:
    """The arguments with ``--nodes -NODE`` as ``--nodes=-NODE``: argparse takes each word that
    begins with "-" for an option, https://github.com/python/cpython/issues/53580."""
    option = _SIGNED_VALUES.get(command or "")
    joined: list[str] = []
    for word in arguments:
        is_value = word[:1] == "-" and word[1:2] not in ("", "-") and word not in _SHORT_OPTIONS
        if is_value and joined and joined[-1] == option:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _add_command(commands: Any, name: str) -> None:
    importlib.import_module(f"eventsched.cli.{name}").add_to(commands)


def every_command() -> argparse.ArgumentParser:
    """The parser with all commands. It imports all of them, which is slow."""
    parser, commands = _empty_parser()
    for name in COMMANDS:
        _add_command(commands, name)
    return parser


def _parsed(arguments: Sequence[str]) -> argparse.Namespace | None:
    """The command and its options; None, after printing the help, if there are no arguments."""
    parser, commands = _empty_parser()
    if unreadable := next((word for word in arguments if not _is_text(word)), None):
        parser.error(f"{unreadable.encode(errors='surrogateescape')!r} is not UTF-8")
    command = next((word for word in arguments if not word.startswith("-")), None)
    if command is not None and arguments[0] == command and command not in COMMANDS:
        parser.error(_unknown_command(command))
    for name, summary in COMMANDS.items():
        if name == command:
            _add_command(commands, name)
        else:
            commands.add_parser(name, help=summary)
    if not arguments:
        parser.print_help(sys.stderr)
        return None
    return parser.parse_args(_with_signed_values(command, arguments))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    owns_process = arguments is None
    if sys.stdout is None:  # it was closed; the next file that is opened must not take its place
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    arguments = sys.argv[1:] if arguments is None else arguments
    fall_back_to_ascii(sys.stdout)
    if arguments[:1] == [name_offer.COMMAND]:
        return name_offer.offer_names(arguments[1:])
    with gc_tuning.paused():  # what a command's modules make stays
        options = _parsed(arguments)
        if owns_process:
            gc_tuning.spare()  # in the pause, at whose end they would be scanned once
    if options is None:
        return BAD_INPUT
    if signals.asked_to_end():
        return signals.ENDED_BY_SIGTERM
    code = 0
    try:
        with paged(wanted=has_pager(options), ends_unread=ends_unread(options)):
            code = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe; the interpreter must not flush into it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    except KeyboardInterrupt:
        resumable = options.command == "simulate" and any(database_of(options, by_file=False))
        hint = "; the same command continues from here" if resumable else ""
        print(f"\neventsched {options.command}: stopped{hint}", file=sys.stderr)
        return STOPPED
    except BaseException as error:
        report = _reported(error)
        if report is None:
            raise  # a bug, or an exit
        message, code = report
        print(f"eventsched {options.command}: {message}", file=sys.stderr)
    if owns_process:
        gc_tuning.spare()  # the interpreter, which ends now, would scan all that is left
    return code


def _reported(error: BaseException) -> tuple[str, int] | None:
    """The one-line message and the exit code of an expected error; None for any other."""
    if isinstance(error, InputError):
        return str(error), BAD_INPUT
    if isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None:
        # Where output stays, the interpreter would flush it once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return f"the output cannot be written: {error.strerror}; make room there", ENVIRONMENT
    if isinstance(error, UnavailableError):
        return " ".join(str(error).split()), ENVIRONMENT  # initdb and the server write many lines
    if isinstance(error, (FencedError, ConflictError)):
        return f"{error}; make sure that only one runs, and start it again", ENVIRONMENT
    if isinstance(error, CorruptLogError):
        return (
            f"the log is damaged: {error}; "
            "see `eventsched verify`, and restore the database from a backup",
            ENVIRONMENT,
        )
    if isinstance(error, _overrun_errors()):
        return f"{error}; fix the plugin", BAD_INPUT
    if (refusal := _database_message(error)) is not None:
        return f"the database says: {refusal}", ENVIRONMENT
    return None


def _overrun_errors() -> tuple[type[BaseException], ...]:
    """The error of a plugin call that takes too long; empty if plugins were never imported."""
    guard = sys.modules.get("eventsched.scheduling.framework.call_guard")
    return () if guard is None else (guard.OverrunError,)


def _database_message(error: BaseException) -> str | None:
    """The first line of an error that Postgres reported and no caller handled, with a remedy; None
    if the error does not come from Postgres. Commands without a database never import psycopg."""
    original = getattr(error, "orig", error)
    psycopg = sys.modules.get("psycopg")
    if psycopg is None or not isinstance(original, psycopg.Error):
        return None
    state = original.sqlstate or ""
    remedy = next((text for prefix, text in _REMEDIES.items() if state.startswith(prefix)), "")
    return f"{str(original).strip().splitlines()[0]}; {remedy or 'read its log'}"
