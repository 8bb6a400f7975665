"""A control plane and two real nodes on this machine.

    with RealCluster.running() as cluster:
        cluster.plane.kubectl("apply", "-k", "deploy/overlays/trial")

Both nodes have a kubelet, a kube-proxy and a containerd of their own, in namespaces of their own,
and a link to the machine and to each other. The API server runs on the machine, at ``nodes.HOST``.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.harness.binaries import Programs, find, node_programs
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.kubelet.harness import cache, containerd, images
from tests.kubelet.harness.name_server import NameServer
from tests.kubelet.harness.nodes import HOST, PLACES, Node
from tests.kubelet.harness.sweeper import Sweeper, sweep

_USERS = {"system:kube-proxy": (), **{f"system:node:{p.name}": ("system:nodes",) for p in PLACES}}
READY_LIMIT = 180.0
"""Seconds until both nodes are ready."""


class RealCluster:
    """``plane`` is the control plane, ``nodes`` are the two nodes."""

    def __init__(self, plane: ControlPlane, nodes: list[Node]) -> None:
        self.plane, self.nodes = plane, nodes

    @classmethod
    @contextmanager
    def running(cls) -> Iterator["RealCluster"]:
        """One, with what it needs built first. Only one at a time: others wait."""
        with ExitStack() as stack:
            lock = stack.enter_context(cache.locked())
            sweep()
            stack.enter_context(Sweeper(lock))
            programs, of_nodes = find(), node_programs()
            root = containerd.filled([images.archive(source) for source in images.sources()])
            plane = ControlPlane(programs, users=_USERS, address=HOST)
            stack.callback(plane.close)
            made = cls._started(plane, of_nodes, root)
            stack.enter_context(NameServer(plane.client(ADMIN, timeout=5.0), HOST))
            yield made

    @classmethod
    def _started(cls, plane: ControlPlane, programs: Programs, root: Path) -> "RealCluster":
        nodes = [Node(plane, programs, place, root) for place in PLACES]
        for node in nodes:
            node.start()
        _connect(*nodes)
        plane.start()
        plane.start_controller_manager()
        plane.start_kube_scheduler()
        for node in nodes:
            node.wait_prepared()
            node.go()
        made = cls(plane, nodes)
        wait_for(made._are_ready, "both nodes are ready", READY_LIMIT)
        return made

    def node(self, name: str) -> Node:
        """The node of that name."""
        (found,) = (node for node in self.nodes if node.name == name)
        return found

    def _are_ready(self) -> bool:
        ready = {
            node["metadata"]["name"]
            for node in self.plane.admin.list("Node")
            for condition in node["status"].get("conditions", ())
            if (condition["type"], condition["status"]) == ("Ready", "True")
        }
        return ready == {node.name for node in self.nodes}


def _connect(first: Node, second: Node) -> None:
    """Gives each node a link to the machine (eth0), and both a link to each other (eth1)."""
    _ip(f"link add eth1 netns {first.pid} type veth peer name eth1 netns {second.pid}")
    for node in (first, second):
        place = node.place
        _ip(f"link add {place.link} type veth peer name eth0 netns {node.pid}")
        _ip(f"address add {HOST}/32 dev {place.link}")
        _ip(f"link set {place.link} up")
        _ip(f"route add {place.address} dev {place.link} src {HOST}")
    for node in (first, second):
        # The link goes up once the node has configured its end.
        place = node.place
        _ip(f"route add {place.pods} via {place.address} dev {place.link} src {HOST} onlink")


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True, capture_output=True, timeout=60)
