"""Nodes and pods for tests: what is beside the point is filled in.

Times are microseconds, cpu millicores, memory bytes. A pod's uid is its name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from eventsched.domain import records
from eventsched.domain.objects import CPU, MEMORY, PODS, Container, HostPort, Node, Pod, PodSpec
from eventsched.domain.records import Stimulus

GIB = 1024**3


def make_node(name: str = "n1", *, cpu: int = 4000, memory: int = 8 * GIB, pods: int = 110,
              extra: Mapping[str, int] | None = None, **fields: Any) -> Node:  # fmt: skip
    """A node with 4 cpu, 8 GiB and room for 110 pods; ``extra`` are further resources, ``fields``
    what else a Node has (labels, annotations, taints…)."""
    room = {CPU: cpu, MEMORY: memory, PODS: pods, **(extra or {})}
    return Node(name=name, allocatable=room, **fields)


def make_pod(name: str = "p1", *, cpu: int = 1000, memory: int = 2 * GIB,
             ports: Iterable[int] = (), spec: Mapping[str, Any] | None = None,
             **fields: Any) -> Pod:  # fmt: skip
    """A pod of one container that requests 1 cpu and 2 GiB; ``spec`` are further fields of its
    PodSpec, ``fields`` what else a Pod has (labels, annotations, priority…)."""
    requests = {name: amount for name, amount in ((CPU, cpu), (MEMORY, memory)) if amount}
    container = Container(requests=requests, ports=tuple(HostPort(port=p) for p in ports))
    made = PodSpec(containers=(container,), **(spec or {}))
    return Pod(**{"uid": name, "name": name, "spec": made, **fields})


def added(*objects: Node | Pod) -> list[Stimulus]:
    """The stimuli that bring nodes and pods in."""
    return [
        records.NodeAdded(node=each) if isinstance(each, Node) else records.PodAdded(pod=each)
        for each in objects
    ]
