"""What the machine needs for real nodes: ``python -m tests.kubelet.harness.requirements`` says what
is missing, and ends with exit code 1 then."""

import os
import shutil
import sys
from pathlib import Path

PACKAGES = {
    "buildah": "buildah",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "debootstrap": "debootstrap",
    "git": "git",
    "kubectl": "kubectl",
}
"""Programs, and the packages (of Debian, except for kubectl) that have them."""
CNI_FOLDERS = (Path("/opt/cni/bin"), Path("/usr/lib/cni"))
PLUGINS = ("bridge", "host-local", "portmap", "loopback")


def cni_folder() -> Path | None:
    """The folder with the network plugins."""
    for folder in CNI_FOLDERS:
        if all((folder / plugin).exists() for plugin in PLUGINS):
            return folder
    return None


def missing() -> str:
    """Why there can be no nodes here; empty if there can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if os.geteuid() != 0:
        return "it needs root, to make network namespaces and containers"
    packages = {package for name, package in PACKAGES.items() if shutil.which(name) is None}
    if cni_folder() is None:
        packages.add("containernetworking-plugins")
    if packages:
        return f"not installed: {', '.join(sorted(packages))}"
    if shutil.which("go") is None and not os.environ.get("EVENTSCHED_CONTROLPLANE"):
        return "it needs Go, to build kubelet and kube-proxy"
    return ""


if __name__ == "__main__":
    if why := missing():
        sys.exit(why)
