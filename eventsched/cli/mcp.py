"""``eventsched mcp``: tools for assistants over a log."""

import argparse
from pathlib import Path
from typing import Any

from eventsched.cli.log_access.served_log import add_served_log_options, served_streams
from eventsched.domain.errors import InputError
from eventsched.runtime import plugin_files


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "mcp",
        help="answer an assistant's questions about a log",
        description="Serves tools for an assistant over standard input and output, by the Model "
        "Context Protocol: queue, decisions, explain, why_not and try, over the log of a database, "
        "an archive or an exported file. The log is not written to. The assistant starts this "
        "command; "
        "docs/how-to/let-an-assistant-ask.md shows its configuration.",
    )
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the stream was written with; may be repeated",
    )  # fmt: skip
    add_served_log_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serves until the input ends."""
    try:
        from eventsched.api.desk.asked import Desk
        from eventsched.assistants.stdio_server import serve_tools
        from eventsched.process_log import output
        from eventsched.questions.states import FoldedStates
    except ModuleNotFoundError as missing:
        raise InputError(
            "this command",
            f"needs the package {missing.name}",
            "install it: pip install 'eventsched[mcp]'",
        ) from missing
    for path in options.plugin:
        plugin_files.imported(path)  # so that no question finds that the file is not there
    with served_streams(options) as streams:
        output.configure()  # to stderr: the protocol has standard output
        return serve_tools(Desk(streams, FoldedStates(), tuple(options.plugin)))
