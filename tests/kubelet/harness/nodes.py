"""A node: its folder, its configuration files and its place in the network."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness.binaries import Programs
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.servers import Server
from tests.kubelet.harness import cache, containerd, images, requirements, sweeper
from tests.waiting import until

HOST = "10.77.0.254"
"""The machine, for its nodes: the API server's address."""
RUN = "run"
"""The folder in the cache that a run has for itself."""
_SOCKET = "/run/containerd.sock"
_INIT = Path(__file__).with_name("node_init.py")
_SPACES = ("--pid", "--mount", "--net", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc")
_MOUNTED = {"run": "/run", "lib": "/var/lib", "log": "/var/log"}
"""Folders of a node's own, and where it sees them."""


@dataclass(frozen=True)
class Place:
    """Where a node is: one of two, each with a link to the machine and one to the other."""

    name: str
    number: int

    @property
    def address(self) -> str:
        """The node's."""
        return f"10.77.0.{self.number}"

    @property
    def pods(self) -> str:
        """The addresses of its pods."""
        return f"10.244.{self.number}.0/24"

    @property
    def link(self) -> str:
        """The machine's end of the link."""
        return f"{sweeper.LINKS}{self.number}"


PLACES = (Place("node-a", 1), Place("node-b", 2))


class Node:
    """One node of a cluster; ``server`` is its first process, seen from outside."""

    def __init__(self, plane: ControlPlane, programs: Programs, place: Place, root: Path) -> None:
        """``root`` is a filled containerd folder, which is copied."""
        self.place = place
        self.folder = cache.place() / RUN / place.name
        for name in _MOUNTED:
            (self.folder / name).mkdir(parents=True)
        for name in ("kubelet", "volume", "postgres", "archive"):
            (self.folder / "lib" / name).mkdir()
        root_of_node = self.folder / "lib" / "containerd"
        containerd.copy(root, root_of_node)
        self._plane, self._programs = plane, programs
        spec = self.folder / "spec.json"
        spec.write_text(json.dumps(self._spec()))
        command = ["unshare", *_SPACES, sys.executable, "-I", str(_INIT), str(spec)]
        self.server: Server = plane.server(place.name, command)

    @property
    def name(self) -> str:
        """The node's."""
        return self.place.name

    def start(self) -> None:
        """Starts the first process, which waits for its links."""
        self.server.start()
        until(self._children, f"{self.name} has a first process", 30)

    def wait_prepared(self) -> None:
        """Waits until containerd answers. Raises TimeoutError."""
        self.server.until((self.folder / "prepared").exists, "prepared", 120)

    def go(self) -> None:
        """Lets kubelet and kube-proxy start: there is an API server."""
        (self.folder / "go").touch()

    @property
    def pid(self) -> int:
        """Its first process, as the machine numbers it."""
        return self._children()[0]

    def run(self, *command: str, within: float = 60.0) -> str:
        """What a command prints that runs in the node's namespaces. Raises CalledProcessError."""
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--uts", *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=within,
        )
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        return done.stdout

    def ctr(self, *arguments: str) -> str:
        """What containerd's own client prints of the node's containers."""
        return self.run("ctr", f"--address={_SOCKET}", "--namespace=k8s.io", *arguments)

    def _children(self) -> list[int]:
        pid = self.server.pid
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]

    def _spec(self) -> dict[str, Any]:
        etc = self.folder / "etc"
        (etc / "cni").mkdir(parents=True)
        (etc / "containerd.toml").write_text(self._containerd(etc / "cni"))
        (etc / "cni" / "10-bridge.conflist").write_text(json.dumps(self._cni()))
        (etc / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()))
        return {
            "name": self.name,
            "mounts": {str(self.folder / name): path for name, path in _MOUNTED.items()},
            "links": ["eth0", "eth1"],
            "network": self._network(),
            # kube-proxy sees the traffic between pods of one node, too.
            "settings": {"net.ipv4.ip_forward": "1", "net.bridge.bridge-nf-call-iptables": "1"},
            "cgroup": self._cgroup,
            "socket": _SOCKET,
            "logs": str(self._plane.folder),
            "prepared": str(self.folder / "prepared"),
            "go": str(self.folder / "go"),
            "programs": self._commands(etc),
        }

    @property
    def _cgroup(self) -> str:
        return f"{sweeper.CGROUP}/{self.name}"

    def _network(self) -> list[list[str]]:
        (other,) = (place for place in PLACES if place is not self.place)
        commands = (
            "link set lo up",
            f"address add {self.place.address}/32 dev eth0",
            "link set eth0 up",
            "link set eth1 up",
            f"route add {HOST} dev eth0 src {self.place.address}",
            f"route add default via {HOST} dev eth0 src {self.place.address}",
            f"route add {other.address} dev eth1 src {self.place.address}",
            f"route add {other.pods} via {other.address} dev eth1 src {self.place.address}",
        )
        return [["ip", *command.split()] for command in commands]

    def _commands(self, etc: Path) -> dict[str, list[str]]:
        return {
            "containerd": ["containerd", f"--config={etc}/containerd.toml"],
            "kube-proxy": [
                str(self._programs.path("kube-proxy")),
                f"--kubeconfig={self._kubeconfig('proxy', 'system:kube-proxy')}",
                f"--hostname-override={self.name}",
                "--proxy-mode=iptables",
                # The limits of the machine's connection tracking are not a node's to change.
                "--conntrack-max-per-core=0",
                "--conntrack-tcp-timeout-established=0",
                "--conntrack-tcp-timeout-close-wait=0",
            ],
            "kubelet": [
                str(self._programs.path("kubelet")),
                f"--config={etc}/kubelet.yaml",
                f"--kubeconfig={self._kubeconfig('kubelet', f'system:node:{self.name}')}",
                f"--hostname-override={self.name}",
                f"--node-ip={self.place.address}",
                f"--node-labels=topology.kubernetes.io/zone=zone-{self.place.number}",
                "--root-dir=/var/lib/kubelet",
                "--cert-dir=/var/lib/kubelet/pki",
            ],
        }

    def _kubeconfig(self, program: str, user: str) -> Path:
        name = f"{self.name}-{program}"
        return self._plane.write_kubeconfig(name, {"token": self._plane.token(user)})

    def _containerd(self, networks: Path) -> str:
        plugins = requirements.cni_folder()
        return (
            containerd.settings("/var/lib/containerd", "/run/containerd", _SOCKET)
            + f"""\
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  # Without CAP_SYS_RESOURCE runc cannot lower it: "can't get final child's PID from pipe".
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
"""
        )

    def _cni(self) -> Mapping[str, Any]:
        ipam = {
            "type": "host-local",
            "ranges": [[{"subnet": self.place.pods}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True}
        return {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {**bridge, "ipam": ipam},
                {"type": "portmap", "capabilities": {"portMappings": True}},
            ],
        }

    def _kubelet(self) -> Mapping[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self.place.address,
            # Only this machine reaches its network.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._cgroup}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "containerRuntimeEndpoint": f"unix://{_SOCKET}",
            "resolvConf": "",
            "clusterDNS": [HOST],
            "clusterDomain": "cluster.local",
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "enforceNodeAllocatable": [],
        }
