"""``eventsched replay --what-if``: decides history again under other rules."""

import argparse
import errno
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from eventsched import __version__
from eventsched.cli.answers.answer_forms import is_document, print_document
from eventsched.cli.log_access.log_at import AT_HELP, opened_log
from eventsched.cli.what_if_runs.stored_what_if import (
    ResultStore,
    add_store_options,
    refuse_store,
    result_store,
)
from eventsched.cli.what_if_runs.what_if_grid import add_executor_option, executor_of_grid, run_grid
from eventsched.cluster.sources import node_template
from eventsched.domain.errors import InputError
from eventsched.output.replays.record_progress import RecordProgress
from eventsched.output.replays.what_if_chart import chart
from eventsched.output.replays.what_if_output import result_text
from eventsched.process.exit_codes import DIFFERS
from eventsched.questions.past.open_log import OpenLog
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import Assembly, assemble, assemble_text
from eventsched.runtime.log_start import first_start
from eventsched.runtime.queries.state_at import Opening
from eventsched.runtime.queries.what_if.conditions import Condition, parse_condition
from eventsched.runtime.queries.what_if.history_run import Stretch, run_closed, run_open
from eventsched.runtime.queries.what_if.node_changes import NodeChanges, parse_changes
from eventsched.runtime.queries.what_if.result_documents import (
    closed_document,
    closed_value,
    condition_document,
    open_document,
    open_value,
)
from eventsched.runtime.queries.what_if.rules import OtherRules
from eventsched.scheduling.config.configuration import refuse_extenders

RECORDED = "recorded"
"""The rules that are in force in the log."""
AssemblyMaker = Callable[[Opening, str, list[Path]], Assembly]
_OF_OPEN = {"moved", "pending"}
"""What an open loop can measure."""


def add_what_if_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a what-if run."""
    group = parser.add_argument_group("under other rules")
    group.add_argument(
        "--what-if", metavar="CONFIG", nargs="?", const=RECORDED, action="append",
        help="decide history again with this KubeSchedulerConfiguration, and compare (without a "
        "value: with the one that is in force in the log); several are compared side by side, on "
        "all cores or on a cluster",
    )  # fmt: skip
    group.add_argument(
        "--open-loop", action="store_true",
        help="decide each attempt from the state that history had, and carry nothing on",
    )  # fmt: skip
    group.add_argument(
        "--nodes", action="append", default=[], metavar="'+20xNODE|-NODE'",
        help="nodes that are added, like one that history has or that a manifest describes "
        "(+20xnode.yaml), or left out (--nodes -NODE)",
    )  # fmt: skip
    group.add_argument(
        "--from", dest="first", metavar="POS|TIME",
        help=f"begin at {AT_HELP}; without --what-if at the newest checkpoint up to a position",
    )  # fmt: skip
    group.add_argument(
        "--fail-if", action="append", default=[], metavar="CONDITION",
        help="exit code 1 if it is true: moved(), pending(), preempted(priority>=1000), "
        "waited(p99) or empty(), compared with a number; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--chart", type=Path, metavar="FILE.svg", help="draw both sides over time, as SVG"
    )
    add_executor_option(group)
    add_store_options(group)
    group.add_argument("--full", action="store_true", help="show all pods of a long table")


def is_asked_for(options: argparse.Namespace) -> bool:
    """Whether the options ask for a what-if run. Raises InputError for options that only go with
    one."""
    if options.what_if is not None or options.nodes:
        if options.verify:
            raise InputError("--verify", "does not go with --what-if", "leave one of them out")
        return True
    for name, option in (
        ("open_loop", "--open-loop"), ("fail_if", "--fail-if"),
        ("full", "--full"), ("chart", "--chart"), ("store", "--store"), ("store_in", "--store-in"),
        ("executor", "--executor"),
    ):  # fmt: skip
        if getattr(options, name):
            raise InputError(option, "is about a run under other rules", "add --what-if CONFIG")
    return False


def run_what_if(options: argparse.Namespace, recorded: AssemblyMaker) -> int:
    """Decides again and prints the differences. ``recorded`` makes the assembly that a record of
    the log puts in force."""
    conditions = [parse_condition(text) for text in options.fail_if]
    names: list[str] = options.what_if or [RECORDED]
    if options.open_loop:
        _refuse_for_open(options, conditions)
    if options.chart is not None and len(names) > 1:
        raise InputError("--chart", "draws one configuration", "name only one by --what-if")
    if options.chart is not None:
        _require_place(options.chart)
    refuse_store(options, len(names))
    changes = parse_changes(options.nodes, node_template.read)
    executor = executor_of_grid(options.executor, len(names))
    with opened_log(options) as opened:
        stretch = _stretch(opened, options)
        if executor is not None:
            tasks = _grid_tasks(options, opened, stretch, names, changes, recorded)
            return run_grid(executor, grid_result, tasks, names, options.output)
        chosen = _chosen(names[0], options.plugin)
        with result_store(options, opened, stretch, names[0]) as store:
            rules = _rules(options, opened, names[0], chosen, recorded, store)
            document = _decided(options, opened, stretch, rules, changes, RecordProgress(), store)
            if store is not None:
                document["stored"] = store.commit()
    if options.chart is not None:
        _draw(options.chart, document)
    with suppress(BrokenPipeError):  # of --fail-if … | head the exit code is the answer
        if is_document(options.output):
            print_document(document, options.output)
        else:
            print(result_text(document, full=options.full))
    return DIFFERS if document["failed"] else 0


def _rules(
    options: argparse.Namespace, opened: OpenLog, name: str, chosen: Assembly | None,
    recorded: AssemblyMaker, store: ResultStore | None = None,
) -> OtherRules:  # fmt: skip
    """The rules of a configuration; those of the log if ``chosen`` is None."""
    return OtherRules(
        name,
        lambda opening: recorded(opening, opened.log.stream, options.plugin),
        chosen,
        "" if store is None else store.origin,
    )


def _decided(
    options: argparse.Namespace, opened: OpenLog, stretch: Stretch, rules: OtherRules,
    changes: NodeChanges, progress: RecordProgress, store: ResultStore | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The result of one configuration, whose records go to ``store``."""
    conditions = [parse_condition(text) for text in options.fail_if]
    document, judged = _run(options, stretch, rules, changes, conditions, progress, store)
    return {
        "stream": opened.log.stream, "rules": rules.name, **document,
        "failed": [each["condition"] for each in judged if each["holds"]], "conditions": judged,
    }  # fmt: skip


def _require_place(path: Path) -> None:
    """Raises InputError if no chart can be written there: before a run that takes minutes, and is
    stored."""
    problem = 0
    if path.is_dir():
        problem = errno.EISDIR
    elif not path.parent.is_dir():
        problem = errno.ENOENT
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = errno.EACCES
    if problem:
        message = f"cannot be written: {os.strerror(problem)}"
        raise InputError(str(path), message, "name another file")


def _draw(path: Path, document: dict[str, Any]) -> None:
    try:
        path.write_text(chart(document), encoding="utf-8")
    except OSError as problem:
        message = f"cannot be written: {problem.strerror or problem}"
        raise InputError(str(path), message, "name another file") from problem


# --- several configurations -------------------------------------------------------------------


class GridTask(NamedTuple):
    """One configuration of a grid, for a worker on any machine."""

    options: argparse.Namespace
    name: str
    changes: NodeChanges
    recorded: AssemblyMaker
    text: str
    """The configuration: its file may be on this machine alone."""
    plugins: frozenset[str]
    """The plugins that it runs."""
    version: str = __version__
    """That of the command, which the worker has to have."""


def _grid_tasks(
    options: argparse.Namespace, opened: OpenLog, stretch: Stretch, names: list[str],
    changes: NodeChanges, recorded: AssemblyMaker,
) -> list[GridTask]:  # fmt: skip
    """A task for each configuration. Raises InputError for a bad one."""
    changed = {
        "what_if": None, "first": str(stretch.first), "until": str(stretch.end), "run": None,
        "stream": None if options.file is not None else opened.log.stream,
        "plugin": [path.absolute() for path in options.plugin],
        "file": options.file and options.file.absolute(),
        "from_archive": options.from_archive and options.from_archive.absolute(),
    }  # fmt: skip
    if opened.reader is not None:  # an embedded server is kept by this process
        changed |= {"database": opened.reader.address, "data_dir": None}
    sent = argparse.Namespace(**{**vars(options), **changed})
    tasks = []
    for name in names:
        chosen = _chosen(name, options.plugin)
        text, plugins = ("", frozenset()) if chosen is None else (chosen.text, chosen.sources)
        tasks.append(GridTask(sent, name, changes, recorded, text, frozenset(plugins)))
    return tasks


def grid_result(task: GridTask) -> dict[str, Any]:
    """The result of one configuration of a grid, in a worker, which reads the log itself."""
    if task.version != __version__:
        problem = f"has workers with eventsched {__version__}, and this is {task.version}"
        raise InputError("--executor", problem, "install the same version there")
    chosen = None
    if task.name != RECORDED:
        chosen = assemble_text(task.text, task.options.plugin, task.name, task.plugins)
    try:
        with opened_log(task.options) as opened:
            stretch = _stretch(opened, task.options)
            rules = _rules(task.options, opened, task.name, chosen, task.recorded)
            progress = RecordProgress(is_shown=False)
            return _decided(task.options, opened, stretch, rules, task.changes, progress)
    finally:
        gc_tuning.thaw()  # the worker of a cluster lives on


# --- one configuration ------------------------------------------------------------------------


def _run(
    options: argparse.Namespace,
    stretch: Stretch,
    rules: OtherRules,
    changes: NodeChanges,
    conditions: list[Condition],
    progress: RecordProgress,
    store: ResultStore | None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The result, and the conditions with their values."""
    try:
        if options.open_loop:
            loop = run_open(stretch, rules, progress)
            judged = [condition_document(each, partial(open_value, loop)) for each in conditions]
            return open_document(loop, stretch.first, stretch.end), judged
        if store is None:
            outcome = run_closed(stretch, rules, changes, progress=progress)
        else:
            outcome = run_closed(
                stretch, rules, changes, with_detail=True, watch=store.result.take,
                progress=progress,
            )  # fmt: skip
    finally:
        progress.done()
    judged = [condition_document(each, partial(closed_value, outcome)) for each in conditions]
    return closed_document(outcome), judged


def _chosen(name: str, plugins: list[Path]) -> Assembly | None:
    """The rules of the configuration; None for those of the log."""
    if name == RECORDED:
        return None
    assembly = assemble(Path(name), plugins)
    refuse_extenders(assembly.configuration, name)
    for warning in assembly.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return assembly


def _stretch(opened: OpenLog, options: argparse.Namespace) -> Stretch:
    """The stretch that --from and --until name. Raises InputError."""
    # It takes dozens of short reads to find the two positions.
    with nullcontext() if opened.reader is None else opened.reader.one_connection():
        return _found_stretch(opened, options)


def _found_stretch(opened: OpenLog, options: argparse.Namespace) -> Stretch:
    first = options.first
    if first is None:
        start = None if opened.reader is not opened.log else first_start(opened.reader)
        first = "0" if start is None else str(start.position)
    folded = opened.state(first, "--from", whole_steps=True)
    end = opened.log.head.next
    if options.until is not None:
        end = opened.position(options.until, "--until")
    if end <= folded.position and options.until is None:
        problem = f"is position {folded.position}, not before the end of the log ({end})"
        raise InputError("--from", problem, "name an earlier one")
    if end <= folded.position:
        problem = f"is position {end}, not after the beginning ({folded.position})"
        raise InputError("--until", problem, "name a later one")
    return Stretch(opened.log, folded, end)


def _refuse_for_open(options: argparse.Namespace, conditions: list[Condition]) -> None:
    if options.chart is not None:
        raise InputError("--chart", "does not go with --open-loop", "leave one of them out")
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
