"""``eventsched diff``: what differs between the states at two positions of a log."""

import argparse
from collections import Counter
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.log_at import AT_HELP, add_log_options, opened_log
from eventsched.domain.errors import InputError
from eventsched.history.past_state.state_differences import ObjectDifference, differences
from eventsched.output.state_output import difference_json, difference_lines
from eventsched.output.terminal.display import display_of_output
from eventsched.output.terminal.tables import counted


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "diff",
        help="show what differs between the states at two positions of a log",
        description="Compares what the scheduler believed at two positions or times of its log: "
        "nodes, pods and where they are, other objects.",
    )
    parser.add_argument("--from", dest="first", required=True, metavar="POS|TIME", help=AT_HELP)
    parser.add_argument(
        "--to", dest="last", metavar="POS|TIME", help="said in the same way (default: now)"
    )
    add_log_options(parser)
    add_output_option(parser, "text")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the differences."""
    with opened_log(options) as opened:
        before = opened.state(options.first, "--from")
        after = opened.state(options.last, "--to")
        stream = opened.log.stream
    if before.position > after.position:
        raise InputError(
            "--from",
            f"is position {before.position}, after --to ({after.position})",
            "exchange them",
        )
    found = differences(before.state, after.state)
    if is_document(options.output):
        document = {
            "stream": stream,
            "from": before.position,
            "to": after.position,
            "differences": [difference_json(difference) for difference in found],
        }
        print_document(document, options.output)
        return 0
    print(f"stream {stream}, from position {before.position} to {after.position}")
    for line in difference_lines(found, display_of_output().paint):
        print(line)
    print(_sum(found))
    return 0


def _sum(found: list[ObjectDifference]) -> str:
    if not found:
        return "no difference"
    counts = Counter((difference.kind, difference.change) for difference in found)
    return ", ".join(
        f"{counted(number, kind.lower())} {change}"
        if kind in ("Node", "Pod")
        else f"{number} {kind} {change}"
        for (kind, change), number in counts.items()
    )
