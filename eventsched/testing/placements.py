"""The node of a pod in a cluster that a test holds as text."""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from eventsched.runtime.assembly import assemble
from eventsched.runtime.queries.placed_pod import PlacedPod, placement_of
from eventsched.runtime.queries.placement_query import ask, read


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
