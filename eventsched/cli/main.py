"""``eventsched``: the commands. What their exit codes mean is in exits.py."""

import argparse
import os
import sys
from collections.abc import Sequence

from eventsched import __version__
from eventsched.cli import evaluate, simulate
from eventsched.cli.exits import BAD_INPUT, STOPPED
from eventsched.domain.errors import InputError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="eventsched",
        description="The Kubernetes scheduler that remembers: every decision is an event.",
    )
    parser.add_argument("--version", action="version", version=f"eventsched {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    for command in (simulate, evaluate):
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except InputError as problem:
        print(f"eventsched {options.command}: {problem}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader (head, less) has seen enough; nothing may be flushed into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return STOPPED
    return code
