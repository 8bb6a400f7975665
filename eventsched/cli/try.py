"""``eventsched try``: where pods would go if they were submitted, and what they would need."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eventsched.cli.log_at import AT_HELP, add_log_options, opened_log
from eventsched.cli.output.trial_output import trial_json, trial_text
from eventsched.cli.replay import assembled
from eventsched.cluster.sources import load, manifests
from eventsched.cluster.sources.admission import Admission
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.sources.workload_pods import PodsOfWorkloads
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import InputError
from eventsched.domain.objects.registry import AnyObject, StorageClass
from eventsched.domain.records import StreamStarted
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.state_manifests import nodes_of
from eventsched.process.exit_codes import DIFFERS
from eventsched.process.settings import kept_annotations
from eventsched.runtime.assembly import assemble
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.runtime.logbook import OWN
from eventsched.runtime.queries.node_proposals import NodeProposal, propose_nodes
from eventsched.runtime.queries.state_at import FoldedState
from eventsched.runtime.queries.trial_run import (
    MOST_MORE,
    Room,
    TrialCluster,
    TrialRun,
    copies_of,
    room_for,
    run_trial,
)
from eventsched.scheduling.config.configuration import refuse_extenders

_MAX = "max"
_MORE = 100
"""Further pods that are tried by default."""


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
    parser.add_argument("-o", dest="output", choices=("text", "json"), default="text")
    parser.set_defaults(run=run)


def _count(text: str) -> int | str:
    if text == _MAX or (text.isascii() and text.isdigit() and 0 < int(text) <= MOST_MORE):
        return text if text == _MAX else int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_MORE}, or max")


def run(options: argparse.Namespace) -> int:
    """Tries the pods and prints what would come of them."""
    cluster, place = _of_manifests(options) if options.manifests else _of_log(options)
    pods, objects = _submitted(options, cluster)
    if options.count == _MAX:
        return _most(options, cluster, pods, objects, place)
    done = run_trial(cluster, pods, objects)
    room = proposal = None
    if done.pending:
        proposal = _proposal(cluster, pods, objects, done)
    elif _are_alike(pods):
        room = room_for(cluster, pods, objects, copies_of(pods[0].pod), _MORE)
    if options.output == "json":
        print(json.dumps({**place, **trial_json(done, room, proposal)}, ensure_ascii=False))
    else:
        print(trial_text(done, room, proposal, full=options.full))
    return DIFFERS if done.pending else 0


def _proposal(
    cluster: TrialCluster,
    pods: Sequence[TracePod],
    objects: Sequence[AnyObject],
    done: TrialRun,
) -> NodeProposal:
    return propose_nodes(
        done, cluster.nodes, lambda nodes: run_trial(cluster, pods, objects, nodes)
    )


def _most(
    options: argparse.Namespace,
    cluster: TrialCluster,
    pods: Sequence[TracePod],
    objects: Sequence[AnyObject],
    place: dict[str, Any],
) -> int:
    """--count max: how many pods fit, alone."""
    if pods[0].claims or any(volume.claim for volume in pods[0].pod.volumes):
        problem = f"pod {pods[0].pod.full_name} has volumes with claims of its own"
        raise InputError("--count max", problem, "give a number")
    room = room_for(cluster, (), objects, copies_of(pods[0].pod), MOST_MORE)
    if options.output == "json":
        found = {"fit": room.pods, "message": room.message}
        print(json.dumps({**place, **found}, ensure_ascii=False))
    else:
        print(_most_text(room))
    return 0 if room.pods else DIFFERS


def _most_text(room: Room) -> str:
    if room.is_limit:
        return f"{room.pods} or more fit"
    return f"{room.pods} fit; the next one does not: {room.message}"


def _are_alike(pods: Sequence[TracePod]) -> bool:
    """Whether further pods can be made of the first one: all are of one template, without claims
    of their own."""
    first = pods[0].pod
    return all(
        arrival.pod.spec == first.spec
        and arrival.pod.labels == first.labels
        and not any(volume.claim for volume in arrival.pod.volumes)
        for arrival in pods
    )


# --- the pods ---------------------------------------------------------------------------------


def _submitted(
    options: argparse.Namespace, cluster: TrialCluster
) -> tuple[list[TracePod], list[AnyObject]]:
    """The pods of the file, and the other objects in it. Raises InputError."""
    count = 1 if options.count == _MAX else options.count
    classes = [other for other in cluster.objects if isinstance(other, StorageClass)]
    workloads = PodsOfWorkloads(count)
    [read] = manifests.read_all([options.pods], workloads, Admission(storage=classes))
    for warning in read.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if not read.pods:
        remedy = "write a Pod, Deployment, ReplicaSet, StatefulSet or Job into it"
        raise InputError(str(options.pods), "holds no pod", remedy)
    if read.nodes:
        remedy = "leave the nodes out; the cluster has its own"
        raise InputError(str(options.pods), f"holds the node {read.nodes[0].name}", remedy)
    assembly = cluster.assembly
    annotations = KeptAnnotations((*assembly.annotations, *kept_annotations(options.config)))
    arrivals = []
    for pod in read.pods:
        where = f"{options.pods}: Pod {pod.full_name}"
        if pod.scheduler_name not in assembly.profiles:
            known = ", ".join(sorted(assembly.profiles))
            problem = f"no profile is named {pod.scheduler_name!r}"
            raise InputError(f"{where}: spec.schedulerName", problem, f"there are: {known}")
        if pod.node_name:
            raise InputError(
                f"{where}: spec.nodeName", f"is {pod.node_name}", "remove it: it is decided here"
            )
        claims = tuple(annotations.stripped(claim) for claim in read.claims.get(pod.uid, ()))
        arrivals.append(TracePod(annotations.stripped(pod), claims=claims))
    _refuse_known(arrivals, cluster, options.pods)
    return arrivals, [annotations.stripped(other) for other in read.objects]


def _refuse_known(arrivals: Sequence[TracePod], cluster: TrialCluster, path: Path) -> None:
    for arrival in arrivals:
        if arrival.pod.uid in cluster.known:
            raise InputError(
                f"{path}: Pod {arrival.pod.full_name}",
                "is in the cluster already",
                "give it another name, or remove its uid",
            )


# --- the cluster ------------------------------------------------------------------------------


def _of_log(options: argparse.Namespace) -> tuple[TrialCluster, dict[str, Any]]:
    if options.config is not None:
        remedy = "leave it out: the configuration in force there is used"
        raise InputError("--config", "goes with --manifests", remedy)
    with opened_log(options) as opened:
        folded = opened.state(options.at, whole_steps=True)
        stream = opened.log.stream
    return _cluster_of(folded, stream, options.plugin), {
        "stream": stream, "position": folded.position,
    }  # fmt: skip


def _cluster_of(folded: FoldedState, stream: str, plugins: list[Path]) -> TrialCluster:
    state, opening = folded.state, folded.opening
    if opening is None or state.serves or opening.inputs.get(OWN):
        problem = "is not one of a scheduler with profiles, so no pod can be tried there"
        if opening is None:
            problem = "has not begun at that position"
        raise InputError(f"stream {stream}", problem, "name another stream or position")
    assembly = assembled(opening, stream, plugins)
    refuse_extenders(assembly.configuration, f"stream {stream}")
    if isinstance(opening, StreamStarted):
        assembly = assembly.as_of(state.flags)
    leaving = [
        pod_state.pod
        for uid, pod_state in state.pods.items()
        if pod_state.pod.deleting or uid in state.preemptions.evicting
    ]
    return TrialCluster(
        assembly,
        nodes_of(state),
        _objects(state),
        leaving=leaving,
        state=snapshot.encode(state),
        position=state.position,
        now=state.now,
        known=frozenset(state.pods),
    )


def _objects(state: SchedulerState) -> list[AnyObject]:
    return list(state.registry.everything())  # type: ignore[arg-type]


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
