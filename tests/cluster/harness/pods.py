"""What tests ask an API server about the pods of a namespace."""

from collections.abc import Callable

from tests.cluster.harness.client import Client, Object, wait_for
from tests.waiting import LIMIT

EVENT = "events.k8s.io/v1/Event"
DECISION = "eventsched.io/decision"


class Pods:
    """The pods of a namespace."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace

    def create(self, manifest: Object) -> Object:
        """A pod, or whatever makes pods."""
        return self.client.create(manifest, self.namespace)

    def get(self, name: str) -> Object:
        """A pod."""
        return self.client.get("Pod", name, self.namespace)

    def delete(self, name: str) -> None:
        """Deletes a pod at once, and waits until it is gone."""
        self.client.delete("Pod", name, self.namespace, grace=0)
        wait_for(lambda: self.client.find("Pod", name, self.namespace) is None, f"{name} is gone")

    def all(self, **labels: str) -> list[Object]:
        """Those with these labels, but those that are being deleted."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self.client.list("Pod", self.namespace, labelSelector=selector)
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def nodes(self, **labels: str) -> dict[str, str]:
        """Name → node, "" where a pod has none."""
        found = self.all(**labels)
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in found}

    def node(self, name: str, within: float = LIMIT) -> str:
        """The node of a pod, once it has one. Raises TimeoutError."""
        what = f"{name} is on a node"
        return wait_for(lambda: str(self.get(name)["spec"].get("nodeName", "")), what, within, 0.02)

    def wait(
        self, condition: Callable[[list[Object]], bool], what: str, within: float = LIMIT
    ) -> list[Object]:
        """All pods, once the condition is true of them. Raises TimeoutError."""

        def found() -> list[Object] | None:
            there = self.all()
            return there if condition(there) else None

        return wait_for(found, what, within)

    def wait_running(self, count: int, within: float = LIMIT) -> list[Object]:
        """The pods, once the number is reached and all run. Raises TimeoutError."""

        def run(pods: list[Object]) -> bool:
            return len(pods) == count and all(phase(each) == "Running" for each in pods)

        return self.wait(run, f"{count} pods run", within)

    def wait_condition(self, name: str, within: float = LIMIT) -> Object:
        """A pod's condition PodScheduled, once it has it. Raises TimeoutError."""
        what = f"{name} has the condition PodScheduled"
        return wait_for(lambda: condition(self.get(name), "PodScheduled"), what, within, 0.02)

    def events(self, name: str, reason: str = "") -> list[Object]:
        """The Events about a pod, the oldest first."""
        found = self.client.list(EVENT, self.namespace)
        chosen = [
            each
            for each in found
            if each["regarding"]["name"] == name and reason in ("", each["reason"])
        ]
        return sorted(chosen, key=lambda each: str(each["eventTime"]))

    def wait_event(self, name: str, reason: str, within: float = LIMIT) -> Object:
        """The first Event about a pod for a reason. Raises TimeoutError."""
        return wait_for(lambda: self.events(name, reason), f"{reason} of {name}", within)[0]


def phase(pod: Object) -> str:
    """``Pending``, ``Running``…"""
    return str(pod["status"]["phase"])


def condition(pod: Object, kind: str) -> Object | None:
    """A pod's condition of that type."""
    conditions = pod["status"].get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), None)


def decision(found: Object) -> str:
    """The decision that a pod or an Event names, "" where it names none."""
    return str(found["metadata"].get("annotations", {}).get(DECISION, ""))
