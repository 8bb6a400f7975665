"""Where would this pod go now, and why? The human-readable form of ``eventsched evaluate``.

An engine takes in a cluster as ``kubectl get … -o json`` prints it, and judges the pod as in an
attempt. Nothing is placed and nothing is logged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from eventsched.cluster.sources import manifests
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain import near_names, records
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.runtime.assembly import Assembly
from eventsched.scheduling.cycle.cycle_keys import KEY_NO_NODE, KEY_NOT_EVALUATED, KEY_PASSES
from eventsched.scheduling.cycle.judgement import Judgement, fit_error
from eventsched.scheduling.cycle.pod_specific_verdicts import weighted
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError, PostFilterResult
from eventsched.scheduling.preemption.evaluator import Preemption
from eventsched.scheduling.preemption.postfilter import post_filter


@dataclass(frozen=True)
class Ranked:
    """A node that can take the pod: its total score, and the normalized score of each Score plugin
    times its weight."""

    node: str
    rank: int
    total: int
    scores: dict[str, int]


@dataclass(frozen=True)
class Refused:
    """Nodes that were refused for the same reasons. ``plugin`` is "" for nodes that PreFilter left
    out. If PreFilter refused the pod, all nodes are here."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class PreemptionPlan:
    """How preemption would make room: the node, the victims, the number of candidates, and the
    criterion that chose among them ("" if a custom plugin nominated the node)."""

    node: str
    victims: tuple[str, ...]
    candidates: int
    criterion: str


@dataclass(frozen=True)
class PlacementAnswer:
    """What the scheduler would decide about a pod.

    - ``ranked``: the nodes that can take it, the best first. Equal ones share a rank and are in the
      cluster's order.
    - ``message``: if there is none, upstream's FitError, or the error of a plugin that failed.
    - ``room``: what preemption would do then.
    - ``assigned``: the node that the pod has already, or "". The answer is as if it had none.
    """

    pod: str
    profile: str
    ranked: tuple[Ranked, ...]
    refused: tuple[Refused, ...]
    message: str
    room: PreemptionPlan | None = None
    assigned: str = ""

    @property
    def best(self) -> tuple[Ranked, ...]:
        """The nodes with the largest total; one of them would be drawn."""
        return tuple(ranked for ranked in self.ranked if ranked.rank == 1)


@dataclass(frozen=True)
class ClusterSnapshot:
    """A cluster at one moment. ``in_question`` are the pods that are asked about. ``annotations``
    are kept in addition to those that plugins declare."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    objects: Sequence[AnyObject]
    in_question: Sequence[Pod]
    warnings: tuple[str, ...]
    annotations: tuple[str, ...] = ()


def read(cluster: Sequence[Path], pod: str) -> ClusterSnapshot:
    """The snapshot in manifest files. ``pod`` is a manifest with the pods in question, or the name
    of one pod in the cluster (``namespace/name``; ``name`` in namespace default). Raises
    InputError."""
    if pod == "-" and Path("-") in cluster:
        raise InputError("--pod -", "standard input is the cluster's", "name the pod's file")
    is_file = pod == "-" or Path(pod).is_file()
    is_name = not is_file and pod.rpartition(".")[2] not in ("yaml", "yml", "json")
    paths = list(cluster) if is_name else [*cluster, Path(pod)]
    files = manifests.read_all(paths)
    cluster_files = files if is_name else files[:-1]
    nodes = [node for file in cluster_files for node in file.nodes]
    pods = [cluster_pod for file in cluster_files for cluster_pod in file.pods]
    if not nodes:
        raise InputError(
            ", ".join(str(path) for path in cluster),
            "no Node is there",
            "add the nodes, as in kubectl get nodes,pods -A -o json",
        )
    return ClusterSnapshot(
        nodes=nodes,
        pods=pods,
        objects=[cluster_object for file in files for cluster_object in file.objects],
        in_question=_named(pods, pod) if is_name else _pods_of_manifest(files[-1].pods, pod),
        warnings=tuple(warning for file in files for warning in file.warnings),
    )


def _named(pods: Sequence[Pod], name: str) -> list[Pod]:
    full_name = name if "/" in name else f"default/{name}"
    matching = [pod for pod in pods if pod.full_name == full_name]
    if not matching:
        known = {pod.full_name for pod in pods}
        form = "name a manifest, or a pod as namespace/name"
        remedy = near_names.offer(full_name, known, form)
        raise InputError(f"--pod {name}", "is neither a file nor a pod of the cluster", remedy)
    return matching


def _pods_of_manifest(pods: Sequence[Pod], path: str) -> Sequence[Pod]:
    if not pods:
        raise InputError(path, "holds no pod", "write the pod in question into it")
    return pods


def ask(snapshot: ClusterSnapshot, assembly: Assembly) -> list[PlacementAnswer]:
    """An answer for each pod in question, as if it were the only pod that waits. If it has a node
    already, it is treated as not there yet. Raises InputError for a pod that no profile
    schedules."""
    return [_ask(snapshot, assembly, pod) for pod in snapshot.in_question]


def _ask(snapshot: ClusterSnapshot, assembly: Assembly, pod: Pod) -> PlacementAnswer:
    if pod.scheduler_name not in assembly.profiles:
        raise InputError(
            f"pod {pod.full_name}: spec.schedulerName",
            f"no profile is named {pod.scheduler_name!r}",
            near_names.offer(
                pod.scheduler_name, assembly.profiles,
                "give a --config with such a profile, or change the pod",
            ),
        )  # fmt: skip
    engine = assembly.engine(with_detail=False)
    annotations = KeptAnnotations((*assembly.annotations, *snapshot.annotations))
    for stimulus in _stimuli(snapshot, pod, annotations):
        engine.observe(stimulus, 0)
    # The node is a decision, not a request of the pod.
    waiting = msgspec.structs.replace(annotations.stripped(pod), node_name="")
    return replace(answer(engine, waiting), assigned=pod.node_name)


def _stimuli(
    snapshot: ClusterSnapshot, pod_in_question: Pod, annotations: KeptAnnotations
) -> list[records.Stimulus]:
    others = [pod for pod in snapshot.pods if pod.full_name != pod_in_question.full_name]
    objects = map(annotations.stripped, snapshot.objects)
    return [
        *(records.ObjectChanged(object=seen) for seen in objects),
        *(records.NodeAdded(node=annotations.stripped(node)) for node in snapshot.nodes),
        *(records.PodAdded(pod=annotations.stripped(pod)) for pod in others),
    ]


def answer(engine: Engine, pod: Pod) -> PlacementAnswer:
    """An engine's answer about a pod that it does not know."""
    if (gate := engine.gate(pod)) is not None:
        return PlacementAnswer(pod.full_name, pod.scheduler_name, (), (), ", ".join(gate.reasons))
    try:
        judgement = engine.judge(pod)
        refused = _refused(judgement, engine.state.nodes.names)
    except PluginError as error:
        return PlacementAnswer(pod.full_name, pod.scheduler_name, (), (), str(error))
    if judgement.problem is not None:
        return PlacementAnswer(
            pod.full_name, pod.scheduler_name, (), refused, str(judgement.problem)
        )
    names, live = engine.state.nodes.names, engine.state.nodes.live
    if ranked := _ranked(judgement, names):
        return PlacementAnswer(pod.full_name, pod.scheduler_name, ranked, refused, "")
    if not live or not judgement.profile.post_filter:
        return PlacementAnswer(
            pod.full_name, pod.scheduler_name, (), refused, fit_error(judgement, live)
        )
    result = post_filter(judgement)
    message = fit_error(judgement, live, ", ".join(result.status.reasons))
    room = _room(result)
    return PlacementAnswer(pod.full_name, pod.scheduler_name, (), refused, message, room)


def _room(result: PostFilterResult) -> PreemptionPlan | None:
    if not result.nominated:
        return None
    preemption = result.preemption
    if not isinstance(preemption, Preemption):
        return PreemptionPlan(result.nominated, (), 0, "")
    victims = tuple(victim.full_name for victim in preemption.victims)
    return PreemptionPlan(
        result.nominated, victims, len(preemption.candidates), preemption.criterion
    )


def _ranked(judgement: Judgement, names: list[str]) -> tuple[Ranked, ...]:
    rows = np.flatnonzero(judgement.keys == KEY_PASSES)
    totals = judgement.totals[rows]
    columns = [(score.column.plugin, weighted(score, rows)) for score in judgement.scores]
    ranked = []
    for place in np.argsort(-totals, kind="stable").tolist():
        total = int(totals[place])
        scores = {plugin: int(values[place]) for plugin, values in columns}
        rank = 1 + int(np.count_nonzero(totals > total))
        ranked.append(Ranked(names[rows[place]], rank, total, scores))
    return tuple(ranked)


def _refused(judgement: Judgement, names: list[str]) -> tuple[Refused, ...]:
    if judgement.refusal is not None:
        plugin, status = judgement.refusal
        all_nodes = tuple(names[row] for row in np.flatnonzero(judgement.keys != KEY_NO_NODE))
        return (Refused(plugin, str(status.code), status.reasons, all_nodes),)
    refused = []
    for key in sorted(judgement.counts):
        if key in (KEY_PASSES, KEY_NO_NODE, KEY_NOT_EVALUATED):
            continue
        verdict = judgement.verdict(key)
        nodes = tuple(names[row] for row in np.flatnonzero(judgement.keys == key))
        refused.append(Refused(verdict.plugin, str(verdict.code), verdict.reasons, nodes))
    return tuple(refused)
