"""``eventsched try``: where pods would go if they were submitted, and what they would need."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.log_at import AT_HELP, add_log_options, opened_log
from eventsched.cluster.files import read_text
from eventsched.cluster.sources import load, node_template
from eventsched.cluster.sources.workload_pods import PodsOfWorkloads
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node
from eventsched.output.terminal.display import display_of_output
from eventsched.output.trial_output import trial_json, trial_text
from eventsched.process.exit_codes import DIFFERS
from eventsched.process.settings import kept_annotations
from eventsched.questions.trials import (
    Submission,
    cluster_of,
    run_submission,
    submitted_pods,
)
from eventsched.runtime.assembly import assemble
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.runtime.queries.trial_run import (
    MOST_MORE,
    Room,
    TrialCluster,
    copies_of,
    room_for,
)
from eventsched.scheduling.config.configuration import refuse_extenders

_MAX = "max"


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "try",
        help="say where pods would go if they were submitted, and what they would need",
        description="Tries the pods of a file (Pods, Deployments, ReplicaSets, StatefulSets, Jobs) "
        "on a copy of the cluster: as a scheduler's log has it now or had it at a position, or as "
        "manifests describe it. Says where they would go and why, which pods would be evicted for "
        "them, how many more fit, and which nodes to add for the others. Nothing is written. Exit "
        "code 1: some pods would have no node.",
    )
    parser.add_argument(
        "-f", "--filename", dest="pods", type=Path, required=True, metavar="FILE",
        help="the pods, and other objects that come with them (- is standard input)",
    )  # fmt: skip
    parser.add_argument(
        "--count",
        type=_count,
        metavar="N|max",
        help="N pods of the file's only template; max: find out how many fit",
    )
    parser.add_argument(
        "--node-template", type=Path, action="append", default=[], metavar="NODE.yaml",
        help="a node that the cluster could have: like it, too, nodes are proposed for pods that "
        "fit nowhere; may be repeated",
    )  # fmt: skip
    parser.add_argument("--at", metavar="POS|TIME", help=f"{AT_HELP} (default: now)")
    parser.add_argument(
        "--manifests", type=Path, nargs="+", default=[], metavar="FILE",
        help="the cluster's objects as YAML or JSON, instead of a log",
    )  # fmt: skip
    parser.add_argument(
        "--config", type=Path, metavar="FILE",
        help="with --manifests: a KubeSchedulerConfiguration",
    )  # fmt: skip
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the configuration names; may be repeated",
    )  # fmt: skip
    add_log_options(parser)
    parser.add_argument("--full", action="store_true", help="show all pods of a long table")
    add_output_option(parser, "text")
    parser.set_defaults(run=run)


def _count(text: str) -> int | str:
    if text == _MAX or (text.isascii() and text.isdigit() and 0 < int(text) <= MOST_MORE):
        return text if text == _MAX else int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_MORE}, or max")


def run(options: argparse.Namespace) -> int:
    """Tries the pods and prints what would come of them."""
    cluster, place = _of_manifests(options) if options.manifests else _of_log(options)
    submission = _submitted(options, cluster)
    templates = _templates(options, cluster)
    if options.count == _MAX:
        return _most(options, cluster, submission, place)
    trial = run_submission(cluster, submission, templates)
    came = trial.done, trial.room, trial.proposal
    if is_document(options.output):
        print_document({**place, **trial_json(*came)}, options.output)
    else:
        print(trial_text(*came, full=options.full, display=display_of_output()))
    return DIFFERS if trial.done.pending else 0


def _most(
    options: argparse.Namespace,
    cluster: TrialCluster,
    submission: Submission,
    place: dict[str, Any],
) -> int:
    """--count max: how many pods fit, alone."""
    pods, objects = submission.pods, submission.objects
    if pods[0].claims or any(volume.claim for volume in pods[0].pod.volumes):
        problem = f"pod {pods[0].pod.full_name} has volumes with claims of its own"
        raise InputError("--count max", problem, "give a number")
    room = room_for(cluster, (), objects, copies_of(pods[0].pod), MOST_MORE)
    if is_document(options.output):
        found = {"fit": room.pods, "message": room.message}
        print_document({**place, **found}, options.output)
    else:
        print(_most_text(room))
    return 0 if room.pods else DIFFERS


def _most_text(room: Room) -> str:
    if room.is_limit:
        return f"{room.pods} or more fit"
    return f"{room.pods} fit; the next one does not: {room.message}"


# --- the pods ---------------------------------------------------------------------------------


def _submitted(options: argparse.Namespace, cluster: TrialCluster) -> Submission:
    """The pods of the file, and the other objects in it. Raises InputError."""
    count = 1 if options.count == _MAX else options.count
    kept = kept_annotations(options.config)
    file = options.pods
    submission = submitted_pods(read_text(file), str(file), cluster, PodsOfWorkloads(count), kept)
    for warning in submission.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    return submission


# --- the cluster ------------------------------------------------------------------------------


def _templates(options: argparse.Namespace, cluster: TrialCluster) -> list[Node]:
    """The nodes that the cluster could have. Raises InputError, also for a name that it has."""
    if options.node_template and options.count == _MAX:
        raise InputError("--node-template", "does not go with --count max", "leave one of them out")
    names = {node.name for node in cluster.nodes}
    templates = []
    for path in options.node_template:
        node = node_template.read(path)
        if node.name in names:
            problem = f"describes the node {node.name}, which is there already"
            raise InputError(str(path), problem, "give it another name")
        names.add(node.name)
        templates.append(node)
    return templates


def _of_log(options: argparse.Namespace) -> tuple[TrialCluster, dict[str, Any]]:
    if options.config is not None:
        remedy = "leave it out: the configuration in force there is used"
        raise InputError("--config", "goes with --manifests", remedy)
    with opened_log(options) as opened:
        folded = opened.state(options.at, whole_steps=True)
        stream = opened.log.stream
    return cluster_of(folded, stream, options.plugin), {
        "stream": stream, "position": folded.position,
    }  # fmt: skip


def _of_manifests(options: argparse.Namespace) -> tuple[TrialCluster, dict[str, Any]]:
    for name in ("at", "file", "from_archive", "database", "data_dir", "stream"):
        if getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise InputError(option, "is about a log", "remove it, or remove --manifests")
    assembly = assemble(options.config, options.plugin, Deadlines())
    refuse_extenders(assembly.configuration, str(options.config))
    source = load.read(nodes=None, pods=None, objects=options.manifests, generate=None)
    annotations = (*assembly.annotations, *kept_annotations(options.config))
    source = source.keeping(KeptAnnotations(annotations))
    for warning in (*assembly.warnings, *source.warnings):
        print(f"warning: {warning}", file=sys.stderr)
    ours = [each for each in source.arrivals if each.pod.scheduler_name in assembly.profiles]
    known = {pod.uid for pod in source.bound} | {arrival.pod.uid for arrival in ours}
    return TrialCluster(
        assembly, source.nodes, source.objects, source.bound,
        [replace(arrival, arrives_at=0) for arrival in ours], source.samples,
        known=frozenset(known),
    ), {}  # fmt: skip
