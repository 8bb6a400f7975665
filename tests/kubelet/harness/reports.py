"""What a failed test shows of the cluster."""

from collections.abc import Iterator
from contextlib import suppress
from subprocess import CalledProcessError, TimeoutExpired

from tests.kubelet.harness.installation import LABELS
from tests.kubelet.harness.real_cluster import RealCluster

_ASKED = {
    "pods": ("get", "pods", "--all-namespaces", "--output=wide"),
    "events": ("get", "events", "--all-namespaces", "--sort-by=.metadata.creationTimestamp"),
    "logs of eventsched": (
        "logs", f"--selector={LABELS}", "--namespace=eventsched", "--all-containers", "--prefix",
        "--tail=40",
    ),
}  # fmt: skip


def sections(cluster: RealCluster) -> Iterator[tuple[str, str]]:
    """Titles and texts."""
    for title, command in _ASKED.items():
        with suppress(CalledProcessError, TimeoutExpired):
            yield title, "\n".join(cluster.plane.kubectl(*command).splitlines()[-60:])
    for name, text in cluster.plane.logs(12).items():
        yield f"log of {name}", text
