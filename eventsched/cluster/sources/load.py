"""Reads the source of a simulated cluster: openb lists, manifests, or a generated load."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from eventsched.cluster.sources import generated, manifests, openb
from eventsched.cluster.sources.arrivals import GeneratedPods, TracePod
from eventsched.cluster.sources.node_churn import NodeChurn
from eventsched.cluster.sources.rollouts import Rollouts
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records import SamplesTaken

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Nodes, the pods that are on them from the start, and those that arrive. ``objects`` of other
    types exist from the start. ``digests`` identify, by name, the files that it was read from;
    ``together`` and ``limited`` return variants."""

    nodes: Sequence[Node]
    arrivals: Sequence[TracePod]
    bound: Sequence[Pod] = ()
    objects: Sequence[AnyObject] = ()
    warnings: tuple[str, ...] = ()
    digests: dict[str, str] | None = None
    samples: Sequence[SamplesTaken] = ()
    churn: NodeChurn | None = None
    rollouts: Rollouts | None = None

    def together(self) -> "Source":
        """A variant in which all pods arrive at 0, in their order, and do not end."""
        return self._variant(
            "together", [TracePod(arrival.pod, claims=arrival.claims) for arrival in self.arrivals]
        )

    def limited(self, number: int) -> "Source":
        """A variant with the first ``number`` pods only."""
        return self._variant(f"limit {number}", self.arrivals[:number])

    def of_profiles(self, profiles: Collection[str]) -> "Source":
        """Without the pending pods of other schedulers, with a warning about them. Raises
        InputError if no pending pod is left."""
        others = [
            arrival.pod for arrival in self.arrivals if arrival.pod.scheduler_name not in profiles
        ]
        if not others:
            return self
        ours = [arrival for arrival in self.arrivals if arrival.pod.scheduler_name in profiles]
        first = others[0]
        if not ours:
            raise InputError(
                f"pod {first.full_name}: spec.schedulerName",
                f"no profile is named {first.scheduler_name!r}, and no pod is of any other",
                near_names.offer(
                    first.scheduler_name, profiles,
                    "add a profile of that schedulerName to --config, or change the pods",
                ),
            )  # fmt: skip
        warning = (
            f"pending pods of schedulers without a profile here were left out: {len(others)}, "
            f"such as {first.full_name} ({first.scheduler_name})"
        )
        return replace(self, arrivals=ours, warnings=(*self.warnings, warning))

    def keeping(self, annotations: KeptAnnotations) -> "Source":
        """A variant in which all objects have only these annotations."""

        def stripped(arrival: TracePod) -> TracePod:
            return replace(
                arrival,
                pod=annotations.stripped(arrival.pod),
                claims=tuple(annotations.stripped(claim) for claim in arrival.claims),
            )

        arrivals = self.arrivals
        return replace(
            self,
            nodes=[annotations.stripped(node) for node in self.nodes],
            arrivals=(
                arrivals.changed(stripped)
                if isinstance(arrivals, GeneratedPods)
                else [stripped(arrival) for arrival in arrivals]
            ),
            bound=[annotations.stripped(pod) for pod in self.bound],
            objects=[annotations.stripped(item) for item in self.objects],
        )

    def check_pod(self, full_name: str) -> None:
        """Raises InputError for a pod that will not arrive."""
        names = [arrival.pod.full_name for arrival in self.arrivals]
        for pod in self.bound:
            if pod.full_name == full_name:
                raise InputError(
                    f"pod {full_name}",
                    f"was on {pod.node_name} before the start",
                    "name a pod that is pending",
                )
        if full_name not in names:
            example = f" such as {names[0]}" if names else ""
            raise InputError(
                f"pod {full_name}",
                "is not among the pods that arrive",
                f"name one as namespace/name{example}",
            )

    def _variant(self, name: str, arrivals: Sequence[TracePod]) -> "Source":
        return replace(self, arrivals=arrivals, digests={**(self.digests or {}), "variant": name})


def read(
    *,
    nodes: Path | None,
    pods: Path | None,
    objects: Sequence[Path],
    generate: str | None,
) -> Source:
    """The source that the options name. Raises InputError if they name none or several."""
    options = [bool(nodes or pods), bool(objects), generate is not None]
    if sum(options) != 1:
        raise InputError(
            "options",
            "no cluster is named" if not any(options) else "more than one cluster is named",
            "give --nodes and --pods, or --manifests, or --generate",
        )
    if generate is not None:
        load = generated.parse(generate)
        digests = {"generate": str(load)}
        return Source(
            load.nodes(),
            load.pods(),
            churn=load.node_churn(),
            rollouts=load.pod_rollouts(),
            digests=digests,
        )
    if objects:
        return _from_manifests(objects)
    if nodes is None or pods is None:
        raise InputError(
            "options", "--nodes and --pods go together", "name a file for each of them"
        )
    if _is_csv(nodes) != _is_csv(pods):
        raise InputError(
            f"{nodes} and {pods}", "one is CSV and the other is not", "name two of a kind"
        )
    if not _is_csv(nodes):
        return _from_manifests([nodes, pods] if nodes != pods else [nodes])
    read_nodes, read_pods = openb.read_nodes(nodes), openb.read_pods(pods)
    digests = {path.name: _digest(path) for path in (nodes, pods)}
    return Source(read_nodes, read_pods, digests=digests)


def _from_manifests(paths: Sequence[Path]) -> Source:
    files = manifests.read_all(paths)
    nodes = _distinct("node", [(node.name, node) for file in files for node in file.nodes], paths)
    pods = _distinct("pod", [(pod.uid, pod) for file in files for pod in file.pods], paths)
    others = _distinct(
        "", [(other.title, other) for file in files for other in file.objects], paths
    )
    samples = _distinct(
        "samples", [(taken.source, taken) for file in files for taken in file.samples], paths
    )
    if not nodes:
        raise InputError(_listed(paths), "no Node is there", "add the nodes to the files")
    titles = {other.title for other in others}
    claims_by_uid = {
        uid: tuple(claim for claim in claims if claim.title not in titles)
        for file in files
        for uid, claims in file.claims.items()
    }
    pending = [pod for pod in pods if not pod.node_name and not pod.deleting]
    pending.sort(key=lambda pod: pod.created_at)
    return Source(
        nodes,
        [TracePod(pod, claims=claims_by_uid.get(pod.uid, ())) for pod in pending],
        [pod for pod in pods if pod.node_name],
        others,
        (*(warning for file in files for warning in file.warnings), *_warnings(nodes, pods)),
        {path.name: _digest(path) for path in paths},
        samples,
    )


def _warnings(nodes: Sequence[Node], pods: Sequence[Pod]) -> list[str]:
    """Warnings about pods that a simulation leaves out."""
    warnings = []
    known = {node.name for node in nodes}
    lost = [pod for pod in pods if pod.node_name and pod.node_name not in known]
    if lost:
        warnings.append(
            f"{len(lost)} bound pods are on nodes that are not there, such as "
            f"{lost[0].full_name} on {lost[0].node_name}: they take no room"
        )
    leaving = sum(pod.deleting and not pod.node_name for pod in pods)
    if leaving:
        warnings.append(f"{leaving} pending pods are being deleted and left out")
    return warnings


def _distinct(kind: str, named_items: list[tuple[str, T]], paths: Sequence[Path]) -> list[T]:
    """The items. Raises InputError if two have the same name."""
    items: dict[str, T] = {}
    for name, item in named_items:
        if name in items:
            raise InputError(
                _listed(paths),
                f"{kind} {name} is there twice".lstrip(),
                "name each object in one file only",
            )
        items[name] = item
    return list(items.values())


def _listed(paths: Sequence[Path]) -> str:
    return ", ".join(str(path) for path in paths)


def _is_csv(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".csv")


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
