"""Nodes and pods for tests, with defaults for everything that a test does not name.

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
    """A node with 4 cpu, 8 GiB and room for 110 pods. ``extra`` are further resources, ``fields``
    further fields of Node (labels, annotations, taints…)."""
    room = {CPU: cpu, MEMORY: memory, PODS: pods, **(extra or {})}
    return Node(name=name, allocatable=room, **fields)


def make_pod(name: str = "p1", *, cpu: int = 1000, memory: int = 2 * GIB,
             ports: Iterable[int] = (), spec: Mapping[str, Any] | None = None,
             **fields: Any) -> Pod:  # fmt: skip
    """A pod with one container that requests 1 cpu and 2 GiB. ``spec`` are further fields of
    PodSpec, ``fields`` further fields of Pod (labels, annotations, priority…)."""
    requests = {name: amount for name, amount in ((CPU, cpu), (MEMORY, memory)) if amount}
    container = Container(requests=requests, ports=tuple(HostPort(port=p) for p in ports))
    made = PodSpec(containers=(container,), **(spec or {}))
    return Pod(**{"uid": name, "name": name, "spec": made, **fields})


def added(*objects: Node | Pod) -> list[Stimulus]:
    """The stimuli that add these nodes and pods."""
    return [
        records.NodeAdded(node=new) if isinstance(new, Node) else records.PodAdded(pod=new)
        for new in objects
    ]
