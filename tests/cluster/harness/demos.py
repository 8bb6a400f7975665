"""The examples of the gallery on a control plane: each with its own configuration and manifests, as
``examples/NAME`` has them."""

from pathlib import Path
from typing import Any

import yaml

from eventsched.domain.records import NodeAdded, NodeUpdated, PodDecided
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import ROOT, Scheduler, Schedulers, run

DEFAULT = "default-scheduler"
"""The schedulerName of the examples' pods, which is that of pods that say nothing."""
NO_VICTIMS = "No preemption victims found for incoming pod."
NOT_HELPFUL = "Preemption is not helpful for scheduling."


def example(name: str, **renamed: str) -> Object:
    """The configuration of an example, with plugins under other names."""
    text = _path(name, "config").read_text()
    for old, new in renamed.items():
        text = text.replace(f"name: {old}", f"name: {new}")
    found: Object = yaml.safe_load(text)
    return found


def unplaceable(nodes: int, reasons: str, preemption: str) -> str:
    """What an Event says about a pod that no node takes, none of them for want of pods to evict."""
    found = f"0/{nodes} nodes are available"
    return f"{found}: {reasons}. no new claims to deallocate, preemption: {found}: {preemption}"


def sees(scheduler: Scheduler, name: str) -> None:
    """Waits until the scheduler knows a node: a pod that is created after it may be seen before.
    Raises TimeoutError."""

    def is_seen() -> bool:
        return name in [each.node.name for each in scheduler.log().of(NodeAdded)]

    wait_for(is_seen, f"{name} is seen")


class Demo:
    """An example's objects in a namespace, and the scheduler that it is shown with."""

    def __init__(
        self, plane: ControlPlane, schedulers: Schedulers, namespace: str, name: str
    ) -> None:
        self.pods = Pods(plane.admin, namespace)
        self.name, self._schedulers = name, schedulers
        self._started: Scheduler | None = None

    @property
    def scheduler(self) -> Scheduler:
        """The one that was started."""
        assert self._started is not None
        return self._started

    def start(self, config: Object | None = None, **options: Any) -> Scheduler:
        """Starts the scheduler, by default with the example's configuration; ``options`` are more
        of Scheduler's."""
        self._started = self._schedulers.start(config=config or example(self.name), **options)
        return self._started

    def create(self, *kinds: str) -> list[Object]:
        """Creates what is in the example's files, such as ``nodes``, in their order."""
        texts = [_path(self.name, kind).read_text() for kind in kinds]
        return [self.pods.create(each) for text in texts for each in yaml.safe_load_all(text)]

    def pod(self, name: str, **more: Any) -> Object:
        """One more pod for the same scheduler."""
        return self.pods.create(pod(name, scheduler=DEFAULT, **more))

    def label(self, node: str, key: str, value: str) -> None:
        """Sets a node's label, and waits until the scheduler has seen it: a pod that is created
        afterwards may come before. Raises TimeoutError."""
        self.pods.client.patch("Node", node, {"metadata": {"labels": {key: value}}})

        def is_seen() -> bool:
            seen = [each.node for each in self.scheduler.log().of(NodeUpdated)]
            return any(each.name == node and each.labels.get(key) == value for each in seen)

        wait_for(is_seen, f"{node} is seen with {key}={value}")

    def decisions(self, name: str) -> list[PodDecided]:
        """The attempts to place a pod that is there."""
        return self.scheduler.log().decisions(self.pods.get(name)["metadata"]["uid"])

    def wait_failed(self, name: str, note: str) -> None:
        """Waits for an Event FailedScheduling with that note. Raises TimeoutError."""

        def is_there() -> bool:
            return note in [each["note"] for each in self.pods.events(name, "FailedScheduling")]

        wait_for(is_there, f"the Event of {name} says: {note}")

    def explained(self, name: str) -> str:
        """What ``eventsched explain`` says about a pod."""
        where = (f"--database={self.scheduler.database}", f"--stream={self.scheduler.stream}")
        return run("explain", f"{self.pods.namespace}/{name}", *where)


def _path(name: str, kind: str) -> Path:
    return ROOT / "examples" / name / f"{kind}.yaml"
