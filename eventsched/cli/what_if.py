"""``eventsched replay --what-if``: decides history again under other rules."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eventsched.cli.log_at import AT_HELP, OpenLog, opened_log
from eventsched.cli.output.replays.record_progress import RecordProgress
from eventsched.cli.output.replays.what_if_output import result_text
from eventsched.domain.errors import InputError
from eventsched.process.exit_codes import DIFFERS
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.log_start import first_start
from eventsched.runtime.queries.state_at import Opening
from eventsched.runtime.queries.what_if.conditions import Condition, parse_condition
from eventsched.runtime.queries.what_if.history_run import Stretch, run_closed, run_open
from eventsched.runtime.queries.what_if.node_changes import NodeChanges, parse_changes
from eventsched.runtime.queries.what_if.result_documents import (
    closed_document,
    closed_value,
    open_document,
    open_value,
)
from eventsched.runtime.queries.what_if.rules import OtherRules

RECORDED = "recorded"
"""The rules that are in force in the log."""
AssemblyMaker = Callable[[Opening, str, list[Path]], Assembly]
_OF_OPEN = {"moved", "pending"}
"""What an open loop can measure."""


def add_what_if_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a what-if run."""
    group = parser.add_argument_group("under other rules")
    group.add_argument(
        "--what-if", metavar="CONFIG", nargs="?", const=RECORDED,
        help="decide history again with this KubeSchedulerConfiguration, and compare (without a "
        "value: with the one that is in force in the log)",
    )  # fmt: skip
    group.add_argument(
        "--open-loop", action="store_true",
        help="decide each attempt from the state that history had, and carry nothing on",
    )  # fmt: skip
    group.add_argument(
        "--nodes", action="append", default=[], metavar="'+20xNODE|-NODE'",
        help="nodes that are added, like one that history has, or left out",
    )  # fmt: skip
    group.add_argument("--from", dest="first", metavar="POS|TIME", help=f"begin at {AT_HELP}")
    group.add_argument(
        "--fail-if", action="append", default=[], metavar="CONDITION",
        help="exit code 1 if it is true: moved(), pending(), preempted(priority>=1000), "
        "waited(p99) or empty(), compared with a number; may be repeated",
    )  # fmt: skip
    group.add_argument("--full", action="store_true", help="show all pods of a long table")


def is_asked_for(options: argparse.Namespace) -> bool:
    """Whether the options ask for a what-if run. Raises InputError for options that only go with
    one."""
    if options.what_if is not None or options.nodes:
        if options.verify:
            raise InputError("--verify", "does not go with --what-if", "leave one of them out")
        return True
    for name, option in (
        ("open_loop", "--open-loop"), ("first", "--from"), ("fail_if", "--fail-if"),
        ("full", "--full"),
    ):  # fmt: skip
        if getattr(options, name):
            raise InputError(option, "is about a run under other rules", "add --what-if CONFIG")
    return False


def run_what_if(options: argparse.Namespace, recorded: AssemblyMaker) -> int:
    """Decides again and prints the differences. ``recorded`` makes the assembly that a record of
    the log puts in force."""
    conditions = [parse_condition(text) for text in options.fail_if]
    if options.open_loop:
        _refuse_for_open(options, conditions)
    changes = parse_changes(options.nodes)
    chosen = _chosen(options)
    with opened_log(options) as opened:
        stretch = _stretch(opened, options)
        name = options.what_if or RECORDED
        rules = OtherRules(
            name,
            lambda opening: recorded(opening, opened.log.stream, options.plugin),
            chosen,
        )
        document, failed = _run(options, stretch, rules, changes, conditions)
        document = {"stream": opened.log.stream, "rules": name, **document, "failed": failed}
    if options.output == "json":
        print(json.dumps(document, ensure_ascii=False))
    else:
        print(result_text(document, full=options.full))
    return DIFFERS if failed else 0


def _run(
    options: argparse.Namespace,
    stretch: Stretch,
    rules: OtherRules,
    changes: NodeChanges,
    conditions: list[Condition],
) -> tuple[dict[str, Any], list[str]]:
    """The result, and the conditions that hold."""
    progress = RecordProgress()
    try:
        if options.open_loop:
            loop = run_open(stretch, rules, progress)
            found = [each.text for each in conditions if each.holds(lambda m: open_value(loop, m))]
            return open_document(loop, stretch.first, stretch.end), found
        outcome = run_closed(stretch, rules, changes, progress=progress)
    finally:
        progress.done()
    found = [each.text for each in conditions if each.holds(lambda m: closed_value(outcome, m))]
    return closed_document(outcome), found


def _chosen(options: argparse.Namespace) -> Assembly | None:
    """The rules of the configuration; None for those of the log."""
    if options.what_if in (None, RECORDED):
        return None
    assembly = assemble(Path(options.what_if), options.plugin)
    for warning in assembly.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return assembly


def _stretch(opened: OpenLog, options: argparse.Namespace) -> Stretch:
    """The stretch that --from and --until name. Raises InputError."""
    first = options.first
    if first is None:
        start = None if opened.reader is not opened.log else first_start(opened.reader)
        first = "0" if start is None else str(start.position)
    folded = opened.state(first, "--from", whole_steps=True)
    end = opened.log.head.next
    if options.until is not None:
        end = opened.position(options.until, "--until")
    if end <= folded.position:
        problem = f"is position {end}, not after the beginning ({folded.position})"
        raise InputError("--until", problem, "name a later one")
    return Stretch(opened.log, folded, end)


def _refuse_for_open(options: argparse.Namespace, conditions: list[Condition]) -> None:
    if options.nodes:
        raise InputError(
            "--nodes", "does not go with --open-loop, which has history's state", "leave it out"
        )
    for condition in conditions:
        for name in sorted(condition.measures - _OF_OPEN):
            raise InputError(
                "--fail-if",
                f"{name}() is not known in an open loop, which carries nothing on",
                "leave --open-loop out, or use moved() or pending()",
            )
