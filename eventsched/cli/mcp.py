"""``eventsched mcp``: tools for assistants over a log."""

import argparse
from pathlib import Path
from typing import Any

from eventsched.cli.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "mcp",
        help="answer an assistant's questions about a log",
        description="Serves tools for an assistant over standard input and output, by the Model "
        "Context Protocol: queue, decisions, explain, why_not and try, over the log of a database. "
        "Nothing is written. The assistant starts this command; "
        "docs/how-to/let-an-assistant-ask.md shows its configuration.",
    )
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the stream was written with; may be repeated",
    )  # fmt: skip
    add_database_options(parser, stream=False)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serves until the input ends."""
    try:
        from eventsched.api.desk.asked import Desk
        from eventsched.assistants.stdio_server import serve_tools
        from eventsched.process_log import output
        from eventsched.questions.states import FoldedStates
        from eventsched.questions.streams import opened_streams
    except ModuleNotFoundError as missing:
        raise InputError(
            "this command",
            f"needs the package {missing.name}",
            "install it: pip install 'eventsched[mcp]'",
        ) from missing
    with opened_streams(*database_of(options)) as streams:
        output.configure()  # to stderr: the protocol has standard output
        return serve_tools(Desk(streams, FoldedStates(), tuple(options.plugin)))
