"""Where a simulated cluster comes from: openb lists, manifests, or a generator."""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from eventsched.cluster.sources import generated, manifests, openb
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records import SamplesTaken

T = TypeVar("T")


@dataclass(frozen=True)
class Source:
    """Nodes, the pods that are on them from the start, and those that arrive; ``objects`` of other
    types are there from the start too. ``digests`` tell, by name, what it was made from;
    ``together`` and ``limited`` give variants."""

    nodes: Sequence[Node]
    arrivals: Sequence[TracePod]
    bound: Sequence[Pod] = ()
    objects: Sequence[AnyObject] = ()
    warnings: tuple[str, ...] = ()
    digests: dict[str, str] | None = None
    samples: Sequence[SamplesTaken] = ()

    def together(self) -> "Source":
        """All pods arrive at 0 in their order, and stay."""
        return self._varied(
            "together", [TracePod(each.pod, claims=each.claims) for each in self.arrivals]
        )

    def limited(self, number: int) -> "Source":
        """The first so many pods only."""
        return self._varied(f"limit {number}", self.arrivals[:number])

    def of_profiles(self, profiles: Container[str]) -> "Source":
        """Without the pending pods of other schedulers, which are warned about. Raises InputError
        where that leaves none of several."""
        ours = [each for each in self.arrivals if each.pod.scheduler_name in profiles]
        others = [each.pod for each in self.arrivals if each.pod.scheduler_name not in profiles]
        if not others:
            return self
        first = others[0]
        if not ours:
            raise InputError(
                f"pod {first.full_name}: spec.schedulerName",
                f"no profile is named {first.scheduler_name!r}, and no pod is of any other",
                "add a profile of that schedulerName to --config, or change the pods",
            )
        warning = (
            f"pending pods of schedulers that are no profile here were left out: {len(others)}, "
            f"such as {first.full_name} ({first.scheduler_name})"
        )
        return replace(self, arrivals=ours, warnings=(*self.warnings, warning))

    def keeping(self, annotations: KeptAnnotations) -> "Source":
        """With these annotations of all objects, and no others."""
        return replace(
            self,
            nodes=[annotations.seen(each) for each in self.nodes],
            arrivals=[
                replace(
                    each,
                    pod=annotations.seen(each.pod),
                    claims=tuple(annotations.seen(claim) for claim in each.claims),
                )
                for each in self.arrivals
            ],
            bound=[annotations.seen(each) for each in self.bound],
            objects=[annotations.seen(each) for each in self.objects],
        )

    def check_pod(self, full_name: str) -> None:
        """Raises InputError for a pod that will not arrive."""
        names = [each.pod.full_name for each in self.arrivals]
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

    def _varied(self, how: str, arrivals: Sequence[TracePod]) -> "Source":
        return replace(self, arrivals=arrivals, digests={**(self.digests or {}), "variant": how})


def read(
    *,
    nodes: Path | None,
    pods: Path | None,
    objects: Sequence[Path],
    generate: str | None,
) -> Source:
    """The source that the options name. Raises InputError where they name none, or several."""
    ways = [bool(nodes or pods), bool(objects), generate is not None]
    if sum(ways) != 1:
        raise InputError(
            "options",
            "no cluster is named" if not any(ways) else "more than one cluster is named",
            "give --nodes and --pods, or --manifests, or --generate",
        )
    if generate is not None:
        load = generated.parse(generate)
        return Source(load.nodes(), load.pods(), digests={"generate": str(load)})
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
    found = manifests.read_all(paths)
    nodes = _distinct("node", [(node.name, node) for each in found for node in each.nodes], paths)
    pods = _distinct("pod", [(pod.uid, pod) for each in found for pod in each.pods], paths)
    others = _distinct(
        "", [(other.title, other) for each in found for other in each.objects], paths
    )
    samples = _distinct(
        "samples", [(taken.source, taken) for each in found for taken in each.samples], paths
    )
    if not nodes:
        raise InputError(
            ", ".join(str(path) for path in paths), "no Node is there", "add the nodes to the files"
        )
    warnings = [warning for each in found for warning in each.warnings]
    known = {node.name for node in nodes}
    lost = [pod for pod in pods if pod.node_name and pod.node_name not in known]
    if lost:
        warnings.append(
            f"{len(lost)} bound pods are on nodes that are not there, such as "
            f"{lost[0].full_name} on {lost[0].node_name}: they take no room"
        )
    pending = [pod for pod in pods if not pod.node_name and not pod.deleting]
    leaving = sum(pod.deleting and not pod.node_name for pod in pods)
    if leaving:
        warnings.append(f"{leaving} pending pods are being deleted and left out")
    pending.sort(key=lambda pod: pod.created_at)
    there = {other.title for other in others}
    made = {
        uid: tuple(claim for claim in claims if claim.title not in there)
        for each in found
        for uid, claims in each.claims.items()
    }
    return Source(
        nodes,
        [TracePod(pod, claims=made.get(pod.uid, ())) for pod in pending],
        [pod for pod in pods if pod.node_name],
        others,
        tuple(warnings),
        {path.name: _digest(path) for path in paths},
        samples,
    )


def _distinct(what: str, named: list[tuple[str, T]], paths: Sequence[Path]) -> list[T]:
    found: dict[str, T] = {}
    for name, each in named:
        if name in found:
            raise InputError(
                ", ".join(str(path) for path in paths),
                f"{what} {name} is there twice".lstrip(),
                "name each object in one file only",
            )
        found[name] = each
    return list(found.values())


def _is_csv(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(".csv")


def _digest(path: Path) -> str:
    return blake2b(path.read_bytes(), digest_size=16).hexdigest()
