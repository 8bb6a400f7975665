"""``eventsched simulate``: a cluster in virtual time, from a trace, manifests or a generator."""

import argparse
import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.database_options import DATA_DIR, add_database_options, database_of
from eventsched.cluster.files import read_text
from eventsched.cluster.sources import load
from eventsched.cluster.sources.load import Source
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.detail_levels import DetailLevels, parse_level
from eventsched.domain.errors import InputError, InUseError, UnavailableError
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.history.explain.conclusions.headline import needs_closed_nodes, with_closed_nodes
from eventsched.history.explain.evidence import Evidence, ScannedEvidence
from eventsched.history.explain.explanation import Explanation, explain
from eventsched.output.explain_output import story_json, story_text
from eventsched.output.simulation_output import summary_text
from eventsched.output.terminal.display import display_of_output
from eventsched.output.terminal.progress import ProgressLine
from eventsched.output.terminal.tables import duration
from eventsched.process.exit_codes import BAD_INPUT
from eventsched.process.sections.detail_settings import detail_levels, unknown_profiles
from eventsched.process.settings import kept_annotations
from eventsched.process.settings import load as load_settings
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.runtime.simulation.outcome import SimulationOutcome
from eventsched.runtime.simulation.resumption import new_or_resumed
from eventsched.runtime.simulation.simulation import DEFAULT_SEED, Simulation
from eventsched.scheduling.config.configuration import refuse_extenders

if TYPE_CHECKING:
    from eventsched.eventlog.postgres.reader import Reader
    from eventsched.eventlog.postgres.writer import PostgresEventLog

STREAM = "simulation"
"""The stream that is written if no stream is named."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "simulate",
        help="schedule a simulated cluster and say what was decided",
        description="Runs the scheduler over a simulated cluster in virtual time. It comes "
        "from files (--nodes and --pods, --manifests) or from a generator (--generate).",
    )
    _add_cluster_options(parser.add_argument_group("the cluster"))
    _add_run_options(parser.add_argument_group("the run"))
    add_database_options(parser)
    parser.add_argument(
        "--in-memory", action="store_true",
        help="keep the log in memory, even if the environment names a database",
    )  # fmt: skip
    parser.add_argument(
        "--why", metavar="NAMESPACE/NAME", help="explain how that pod's placement was decided"
    )
    add_output_option(parser)
    parser.set_defaults(run=run)


def _add_cluster_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--nodes", type=Path, metavar="FILE", help="openb CSV or manifests, plain or .gz"
    )
    group.add_argument("--pods", type=Path, metavar="FILE", help="openb CSV or manifests")
    group.add_argument(
        "--manifests",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="nodes and pods as `kubectl get nodes,pods -A -o yaml` prints them; may be repeated",
    )
    group.add_argument(
        "--generate",
        metavar="nodes=N,pods=N,shape=S,seed=N",
        help="a generated load; shapes: plain, mixed, tight; also rate=PODS_PER_SECOND, "
        "runtime=SECONDS; node-life=TIME and churn=TIME replace and change nodes (90s, 30m, 12h), "
        "flaps=TIME makes them not ready, rollouts=TIME rolls Deployments, waves=TIME is the "
        "period of arrivals",
    )
    group.add_argument(
        "--arrivals",
        choices=("trace", "together"),
        default="trace",
        help="together: all pods arrive at 0 in file order and stay",
    )
    group.add_argument("--limit", type=_count, metavar="N", help="only the first N pods")


def _add_run_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--config", type=Path, metavar="FILE", help="a KubeSchedulerConfiguration")
    group.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the configuration names; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--until", type=_until, metavar="TIME", help="stop at a virtual time: 90, 15m, 2h, 30d"
    )
    group.add_argument(
        "--detail", metavar="LEVEL",
        help="what is kept of every decision's verdicts and scores: full, top:K (the best K nodes) "
        "or summary; default: what the second document of --config says, else full",
    )  # fmt: skip
    group.add_argument(
        "--seed", default=DEFAULT_SEED, help="what draws among equal nodes depend on"
    )


def run(options: argparse.Namespace) -> int:
    """Runs the simulation and prints its summary."""
    assembly = assemble(options.config, options.plugin, Deadlines())
    refuse_extenders(assembly.configuration, str(options.config))
    levels = _detail_levels(options, assembly)
    source = _source(options, assembly)
    database, data_dir = _log_location(options)
    if database is None and data_dir is None:
        log_in_memory = MemoryEventLog(options.stream or STREAM)
        return _run(options, assembly, source, levels, log_in_memory)
    from eventsched.eventlog.database import (
        analyze,
        writer_address,  # the import takes half a second
    )
    from eventsched.eventlog.postgres.writer import PostgresEventLog

    try:
        with writer_address(database, data_dir) as address:
            holder = f"simulate {os.getpid()}"
            log = PostgresEventLog(address, options.stream or STREAM, holder=holder)
            with closing(log):
                code = _run(options, assembly, source, levels, log, log.reader)
            if data_dir is not None:
                analyze(data_dir)
            return code
    except InUseError as problem:
        if not _is_by_environment(options):
            raise
        # The folder may be exported for a live scheduler, which a simulation must not stop.
        raise UnavailableError(
            problem.where,
            f"{problem.problem}, and the environment names that folder (${DATA_DIR})",
            "leave that process alone: give --in-memory, or --data-dir with another folder",
        ) from None


def _log_location(options: argparse.Namespace) -> tuple[str | None, Path | None]:
    """The database or the data folder of the log; both None for a log in memory."""
    is_named = options.database is not None or options.data_dir is not None
    if not options.in_memory:
        return database_of(options, by_file=False)
    if is_named:
        raise InputError(
            "--in-memory", "is given together with --data-dir or --database", "remove one of them"
        )
    return None, None


def _is_by_environment(options: argparse.Namespace) -> bool:
    """Whether the environment alone says where the log is."""
    return options.database is None and options.data_dir is None and not options.in_memory


def _detail_levels(options: argparse.Namespace, assembly: Assembly) -> DetailLevels:
    """The levels that the option or the configuration says. Raises InputError."""
    if options.detail is not None:
        try:
            return DetailLevels(parse_level(options.detail))
        except InputError as problem:
            raise InputError("--detail", problem.problem, problem.remedy) from None
    if options.config is None:
        return DetailLevels()
    source = str(options.config)
    settings = load_settings(read_text(options.config), source)
    for unknown in unknown_profiles(settings.detail, assembly.profiles, source):
        raise unknown
    return detail_levels(settings.detail)


def _source(options: argparse.Namespace, assembly: Assembly) -> Source:
    source = load.read(
        nodes=options.nodes,
        pods=options.pods,
        objects=options.manifests,
        generate=options.generate,
    )
    if options.arrivals == "together":
        source = source.together()
    if options.limit is not None:
        source = source.limited(options.limit)
    source = source.of_profiles(assembly.profiles)
    annotations = (*assembly.annotations, *kept_annotations(options.config))
    source = source.keeping(KeptAnnotations(annotations))
    absent = assembly.unknown_nodes({node.name for node in source.nodes})
    missing = [f"{plugin} names the node {node}, which does not exist" for plugin, node in absent]
    for warning in (*assembly.warnings, *source.warnings, *missing):
        print(f"warning: {warning}", file=sys.stderr)
    if options.why is not None:
        source.check_pod(options.why)
    return source


def _run(
    options: argparse.Namespace,
    assembly: Assembly,
    source: Source,
    levels: DetailLevels,
    log: "PostgresEventLog | MemoryEventLog",
    reader: "Reader | None" = None,
) -> int:
    store_snapshot = getattr(log, "store_snapshot", None)
    simulation = new_or_resumed(assembly, source, log, options.seed, reader, store_snapshot, levels)
    progress = ProgressLine(len(source.arrivals))
    gc_tuning.freeze()
    began = simulation.engine.position
    started = time.perf_counter()
    simulation.run(options.until, progress)
    seconds = time.perf_counter() - started
    progress.done()
    if reader is not None and simulation.counters.resumed == simulation.counters.placed:
        # The run had ended before: the summary is that of the earlier process.
        simulation.counters.resumed, seconds = 0, reader.seconds()
    if reader is not None and simulation.engine.position == began:
        print(
            f"stream {log.stream} holds this run already: nothing was decided now, and the speed "
            "is that of the earlier process",
            file=sys.stderr,
        )
    report = SimulationOutcome.of(simulation, log, seconds)
    story = None if options.why is None else _why(options.why, log, reader, simulation)
    if is_document(options.output):
        why = {} if options.why is None else {"why": story and story_json(story)}
        print_document({**report.as_json(), **why}, options.output)
    else:
        print(summary_text(report))
        if options.why is not None:
            text = f"{options.why} has not arrived by then"
            if story is not None:
                text = story_text(story, display=display_of_output())
            print(f"\n{text}")
    _warn_of_still_nodes(str(options.generate or ""), report)
    for plugin, message in report.failures.items():
        where = assembly.files.get(plugin, plugin)
        print(f"eventsched simulate: {where}: {message}; fix the plugin", file=sys.stderr)
    return BAD_INPUT if report.failures else 0


def _warn_of_still_nodes(generate: str, report: SimulationOutcome) -> None:
    """Says so if nodes were to change, and the run was over before one did."""
    asked = [name for name in ("node-life", "churn", "flaps") if f",{name}=" in generate]
    if asked and not report.nodes_changed and not report.nodes_removed:
        print(
            f"warning: --generate: {' and '.join(asked)} changed no node, because the run ended at "
            f"{duration(report.virtual)}; add rate=PODS_PER_SECOND and runtime=SECONDS",
            file=sys.stderr,
        )


def _why(
    pod: str,
    log: "PostgresEventLog | MemoryEventLog",
    reader: "Reader | None",
    simulation: Simulation,
) -> Explanation | None:
    """The explanation of a pod; None if it has not arrived by then."""
    evidence: Evidence
    if reader is None:
        evidence = ScannedEvidence(log, log.stream)
    else:
        from eventsched.history.explain.stored_evidence import StoredEvidence

        evidence = StoredEvidence(reader)
    if not evidence.pods(pod):
        return None
    explained = explain(evidence, pod)
    nodes = simulation.engine.state.nodes
    if not needs_closed_nodes(explained):
        return explained
    return with_closed_nodes(explained, nodes, has_pods=True)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pods; write 0 or more")
    return int(text)


def _until(text: str) -> int:
    """The virtual time in microseconds."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "s")
    try:
        seconds = float(number)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 2**42:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time; write seconds, or a number with s, m, h or d"
        )
    return round(seconds * _UNITS[unit] * 1_000_000)
