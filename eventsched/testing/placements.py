"""The node of a pod in a cluster that a test holds as text."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from eventsched.runtime.assembly import assemble
from eventsched.runtime.queries.placement_query import PlacementAnswer, ask, read


class PlacedPod(NamedTuple):
    """What the scheduler decides about a pod: the ``nodes`` with the largest total (one of them is
    drawn; none if no node can take it), and the ``refusals`` of the other nodes as pairs of plugin
    and reasons."""

    nodes: frozenset[str]
    refusals: frozenset[tuple[str, str]]


def placement(
    cluster: str, pod: str, configuration: str = "", plugin_files: Iterable[Path] = ()
) -> PlacedPod:
    """Decides about a pod of a cluster (YAML or JSON of its objects, the pod among them).
    ``configuration`` is a KubeSchedulerConfiguration, by default kube-scheduler's defaults. Raises
    InputError."""
    with TemporaryDirectory(prefix="eventsched-case-") as folder:
        objects, config = Path(folder) / "cluster.yaml", Path(folder) / "configuration.yaml"
        objects.write_text(cluster, encoding="utf-8")
        config.write_text(configuration, encoding="utf-8")
        assembly = assemble(config if configuration else None, plugin_files)
        [answer] = ask(read([objects], pod), assembly)
    return placement_of(answer)


def placement_of(answer: PlacementAnswer) -> PlacedPod:
    """An answer without its numbers, which depend on the size of the cluster."""
    return PlacedPod(
        frozenset(ranked.node for ranked in answer.best),
        frozenset((refused.plugin, "; ".join(refused.reasons)) for refused in answer.refused),
    )
