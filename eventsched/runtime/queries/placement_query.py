"""Where would this pod go now, and why? ``eventsched evaluate`` for people.

A cluster as ``kubectl get … -o json`` prints it is taken in by an engine, and the pod is judged as
in an attempt; nothing is placed and nothing logged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from eventsched.cluster.sources import manifests
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import ClusterObject
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
    """A node that can take the pod: its total, and of each Score plugin the normalised score times
    its weight."""

    node: str
    rank: int
    total: int
    scores: dict[str, int]


@dataclass(frozen=True)
class Refused:
    """Nodes that were refused with the same words; ``plugin`` is "" for nodes that PreFilter left
    out, and all nodes were refused at once where PreFilter refused the pod."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Room:
    """How preemption would make room: on which node, by the end of which pods, the best of how many
    candidates by which criterion ("" where a plugin of one's own nominated the node)."""

    node: str
    victims: tuple[str, ...]
    candidates: int
    criterion: str


@dataclass(frozen=True)
class PlacementAnswer:
    """What the scheduler would say of a pod. ``ranked`` has the best node first (equal ones share a
    rank and stand in the cluster's order); where it is empty ``message`` is upstream's FitError, or
    what went wrong where a plugin failed, and ``room`` what preemption would do about it.
    ``assigned`` is the node that it has already (""): the answer is as if it had none."""

    pod: str
    profile: str
    ranked: tuple[Ranked, ...]
    refused: tuple[Refused, ...]
    message: str
    room: Room | None = None
    assigned: str = ""

    @property
    def best(self) -> tuple[Ranked, ...]:
        """The nodes with the largest total: one of them would be drawn."""
        return tuple(each for each in self.ranked if each.rank == 1)


@dataclass(frozen=True)
class ClusterSnapshot:
    """A cluster at one moment, and the pods that are asked about. ``annotations`` are kept besides
    those that plugins declare."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    objects: Sequence[ClusterObject]
    asked: Sequence[Pod]
    warnings: tuple[str, ...]
    annotations: tuple[str, ...] = ()


def read(cluster: Sequence[Path], pod: str) -> ClusterSnapshot:
    """The snapshot in manifest files. ``pod`` is a manifest with the pods that are asked about, or
    the name (``namespace/name``, or in namespace default ``name``) of one in the cluster. Raises
    InputError."""
    if pod == "-" and Path("-") in cluster:
        raise InputError("--pod -", "standard input is the cluster's", "name the pod's file")
    is_file = pod == "-" or Path(pod).is_file()
    named = not is_file and pod.rpartition(".")[2] not in ("yaml", "yml", "json")
    paths = list(cluster) if named else [*cluster, Path(pod)]
    found = manifests.read_all(paths)
    inside = found if named else found[:-1]
    nodes = [node for each in inside for node in each.nodes]
    pods = [each_pod for each in inside for each_pod in each.pods]
    if not nodes:
        raise InputError(
            ", ".join(str(path) for path in cluster),
            "no Node is there",
            "add the nodes, as in kubectl get nodes,pods -A -o json",
        )
    return ClusterSnapshot(
        nodes=nodes,
        pods=pods,
        objects=[each_object for each in found for each_object in each.objects],
        asked=_named(pods, pod) if named else _given(found[-1].pods, pod),
        warnings=tuple(warning for each in found for warning in each.warnings),
    )


def _named(pods: Sequence[Pod], name: str) -> list[Pod]:
    full_name = name if "/" in name else f"default/{name}"
    found = [each for each in pods if each.full_name == full_name]
    if not found:
        raise InputError(
            f"--pod {name}",
            "is neither a file nor a pod of the cluster",
            "name a manifest, or a pod as namespace/name",
        )
    return found


def _given(pods: Sequence[Pod], path: str) -> Sequence[Pod]:
    if not pods:
        raise InputError(path, "holds no pod", "write the pod that you ask about into it")
    return pods


def ask(snapshot: ClusterSnapshot, assembly: Assembly) -> list[PlacementAnswer]:
    """An answer for each pod that is asked about, as if it were the only one waiting and, where it
    has a node already, were not there. Raises InputError for a pod that no profile schedules."""
    return [_ask(snapshot, assembly, pod) for pod in snapshot.asked]


def _ask(snapshot: ClusterSnapshot, assembly: Assembly, pod: Pod) -> PlacementAnswer:
    if pod.scheduler_name not in assembly.profiles:
        raise InputError(
            f"pod {pod.full_name}: spec.schedulerName",
            f"no profile is named {pod.scheduler_name!r}",
            "give a --config with such a profile, or change the pod",
        )
    engine = assembly.engine(with_detail=False)
    annotations = KeptAnnotations((*assembly.annotations, *snapshot.annotations))
    for stimulus in _stimuli(snapshot, pod, annotations):
        engine.observe(stimulus, 0)
    # Its node is an outcome, and no wish of the pod's.
    found = answer(engine, msgspec.structs.replace(annotations.seen(pod), node_name=""))
    return replace(found, assigned=pod.node_name)


def _stimuli(
    snapshot: ClusterSnapshot, asked: Pod, annotations: KeptAnnotations
) -> list[records.Stimulus]:
    others = [each for each in snapshot.pods if each.full_name != asked.full_name]
    objects = map(annotations.seen, snapshot.objects)
    return [
        *(records.ObjectChanged(object=each) for each in objects),  # type: ignore[arg-type]
        *(records.NodeAdded(node=annotations.seen(each)) for each in snapshot.nodes),
        *(records.PodAdded(pod=annotations.seen(each)) for each in others),
    ]


def answer(engine: Engine, pod: Pod) -> PlacementAnswer:
    """What an engine says of a pod that it does not know."""
    if (gate := engine.gate(pod)) is not None:
        return PlacementAnswer(pod.full_name, pod.scheduler_name, (), (), ", ".join(gate.reasons))
    try:
        judged = engine.judge(pod)
        refused = _refused(judged, engine.state.nodes.names)
    except PluginError as broken:
        return PlacementAnswer(pod.full_name, pod.scheduler_name, (), (), str(broken))
    if judged.problem is not None:
        return PlacementAnswer(pod.full_name, pod.scheduler_name, (), refused, str(judged.problem))
    names, live = engine.state.nodes.names, engine.state.nodes.live
    if ranked := _ranked(judged, names):
        return PlacementAnswer(pod.full_name, pod.scheduler_name, ranked, refused, "")
    if not live or not judged.profile.post_filter:
        return PlacementAnswer(
            pod.full_name, pod.scheduler_name, (), refused, fit_error(judged, live)
        )
    found = post_filter(judged)
    message = fit_error(judged, live, ", ".join(found.status.reasons))
    room = _room(found)
    return PlacementAnswer(pod.full_name, pod.scheduler_name, (), refused, message, room)


def _room(found: PostFilterResult) -> Room | None:
    if not found.nominated:
        return None
    if not isinstance(found.preemption, Preemption):
        return Room(found.nominated, (), 0, "")
    victims = tuple(each.full_name for each in found.preemption.victims)
    candidates = len(found.preemption.candidates)
    return Room(found.nominated, victims, candidates, found.preemption.criterion)


def _ranked(judged: Judgement, names: list[str]) -> tuple[Ranked, ...]:
    rows = np.flatnonzero(judged.keys == KEY_PASSES)
    totals = judged.totals[rows]
    parts = [(each.column.plugin, weighted(each, rows)) for each in judged.scores]
    found = []
    for place in np.argsort(-totals, kind="stable").tolist():
        total = int(totals[place])
        scores = {plugin: int(values[place]) for plugin, values in parts}
        rank = 1 + int(np.count_nonzero(totals > total))
        found.append(Ranked(names[rows[place]], rank, total, scores))
    return tuple(found)


def _refused(judged: Judgement, names: list[str]) -> tuple[Refused, ...]:
    if judged.refusal is not None:
        plugin, status = judged.refusal
        alive = tuple(names[row] for row in np.flatnonzero(judged.keys != KEY_NO_NODE))
        return (Refused(plugin, str(status.code), status.reasons, alive),)
    found = []
    for key in sorted(judged.counts):
        if key in (KEY_PASSES, KEY_NO_NODE, KEY_NOT_EVALUATED):
            continue
        verdict = judged.verdict(key)
        nodes = tuple(names[row] for row in np.flatnonzero(judged.keys == key))
        found.append(Refused(verdict.plugin, str(verdict.code), verdict.reasons, nodes))
    return tuple(found)
