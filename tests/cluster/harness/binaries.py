"""Sources of the programs of a control plane, and of Helm, the first of these that there is:

- EVENTSCHED_CONTROLPLANE: a folder with ready programs;
- KUBEBUILDER_ASSETS: envtest's folder (etcd, kube-apiserver, kubectl; no kwok, no controllers);
- for Helm alone: PATH;
- the cache, ``~/.cache/eventsched/controlplane``, into which Go builds them from the modules that
  ``controlplane/`` names. That takes some six minutes on two cores, once; Helm, which is built and
  cached by itself, three.

``python -m tests.cluster.harness.binaries`` builds a control plane if it is missing, and prints
its folder; with ``helm`` behind it, the same of Helm.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import until

MODULES = Path(__file__).parent / "controlplane"
GO = "1.26"
VERSION = "v1.36.3"
"""Kubernetes' version in controlplane/go.mod: stamped into the programs, as kube-apiserver refuses
to negotiate without."""

_STAMP = f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"
_Builds = Sequence[tuple[Path, str, Sequence[str]]]
"""A module, flags of the linker, and packages that are programs."""
_BUILDS: _Builds = (
    (
        MODULES,
        _STAMP,
        (
            "k8s.io/kubernetes/cmd/kube-apiserver",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-scheduler",
            "go.etcd.io/etcd/server/v3",
        ),
    ),
    (MODULES / "kwok", "-s -w", ("sigs.k8s.io/kwok/cmd/kwok",)),
)
_NODE: _Builds = (
    (
        MODULES / "kubelet",
        _STAMP,
        ("k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kube-proxy"),
    ),
)
_HELM: _Builds = ((MODULES / "helm", "-s -w", ("helm.sh/helm/v4/cmd/helm",)),)
_PROMETHEUS: _Builds = (
    (
        MODULES / "prometheus",
        "-s -w",
        # Of the service discoveries only that of Kubernetes.
        (
            "-tags=remove_all_sd,enable_kubernetes_sd",
            "github.com/prometheus/prometheus/cmd/prometheus",
        ),
    ),
)
BUILD_LIMIT = 3600.0
"""Seconds that a build may take."""
_OTHER_NAMES = {"etcd": "server"}  # what Go calls etcd's program


class MissingProgramError(Exception):
    """A program is not to be had here; the text says what would help."""


@dataclass(frozen=True)
class Programs:
    """A folder of programs."""

    folder: Path

    def path(self, name: str) -> Path:
        """The program, such as ``kube-scheduler``. Raises MissingProgramError."""
        for each in (name, _OTHER_NAMES.get(name, name)):
            if (self.folder / each).is_file():
                return self.folder / each
        raise MissingProgramError(f"no {name} in {self.folder}")


def find(build: bool = True) -> Programs:
    """The programs, built where need be and ``build`` says so. Raises MissingProgramError."""
    for variable in ("EVENTSCHED_CONTROLPLANE", "KUBEBUILDER_ASSETS"):
        if given := os.environ.get(variable):
            found = Programs(Path(given))
            try:
                found.path("etcd"), found.path("kube-apiserver")
            except MissingProgramError as missing:
                raise MissingProgramError(f"{variable}: {missing}") from missing
            return found
    go = _go_version()
    if go is None:
        raise MissingProgramError(
            f"no control plane: install Go {GO} or newer, or let EVENTSCHED_CONTROLPLANE or"
            " KUBEBUILDER_ASSETS name a folder with etcd and kube-apiserver"
        )
    folder = _built("a control plane", _BUILDS, go, build)
    if folder is None:
        raise MissingProgramError("no control plane: build it with `make controlplane`")
    return Programs(folder)


def helm(build: bool = True) -> Path:
    """The program, built where need be and ``build`` says so. Raises MissingProgramError."""
    if given := os.environ.get("EVENTSCHED_CONTROLPLANE"):
        with suppress(MissingProgramError):
            return Programs(Path(given)).path("helm")
    if there := shutil.which("helm"):
        return Path(there)
    go = _go_version()
    if go is None:
        raise MissingProgramError(f"no helm: install it, or Go {GO} or newer")
    folder = _built("Helm", _HELM, go, build)
    if folder is None:
        raise MissingProgramError("no helm: install it, or build it with `make helm`")
    return Programs(folder).path("helm")


def node_programs(build: bool = True) -> Programs:
    """kubelet and kube-proxy, built where need be and ``build`` says so. Raises
    MissingProgramError."""
    if given := os.environ.get("EVENTSCHED_CONTROLPLANE"):
        found = Programs(Path(given))
        with suppress(MissingProgramError):
            found.path("kubelet"), found.path("kube-proxy")
            return found
    go = _go_version()
    if go is None:
        raise MissingProgramError(f"no kubelet: install Go {GO} or newer")
    folder = _built("kubelet and kube-proxy", _NODE, go, build)
    if folder is None:
        raise MissingProgramError("no kubelet: build it with `make test-kubelet`")
    return Programs(folder)


def prometheus(build: bool = True) -> Path:
    """Prometheus with its discovery of Kubernetes, which Debian's lacks; built where need be and
    ``build`` says so. Raises MissingProgramError."""
    go = _go_version()
    if go is None:
        raise MissingProgramError(f"no prometheus: install Go {GO} or newer")
    folder = _built("Prometheus", _PROMETHEUS, go, build)
    if folder is None:
        raise MissingProgramError("no prometheus: build it with `make test-kubelet`")
    return Programs(folder).path("prometheus")


def _built(what: str, builds: _Builds, go: str, build: bool) -> Path | None:
    """The folder in the cache; None if it does not exist and must not be built."""
    folder = _cache() / _digest(go, builds)
    if not folder.exists():
        if not build:
            return None
        with _locked():
            if not folder.exists():  # another process may have built it meanwhile
                _build(what, builds, folder)
    return folder


def _go_version() -> str | None:
    if shutil.which("go") is None:
        return None
    asked = subprocess.run(
        ["go", "env", "GOVERSION"],
        cwd=MODULES,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    return asked.stdout.strip() or None


def _digest(go: str, builds: _Builds) -> str:
    """Of everything that decides what is built."""
    digest = hashlib.sha256(go.encode())
    for module, flags, packages in builds:
        for name in ("go.mod", "go.sum"):
            digest.update((module / name).read_bytes())
        digest.update(" ".join([flags, *packages]).encode())
    return digest.hexdigest()[:16]


def _cache() -> Path:
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return place / "eventsched" / "controlplane"


@contextmanager
def _locked() -> Iterator[None]:
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        until(lambda: _taken(lock.fileno()), "the other build is done", BUILD_LIMIT, every=0.5)
        yield


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _build(what: str, builds: _Builds, folder: Path) -> None:
    """Builds beside the folder, so that there is never half of it."""
    print(f"Building {what} (some minutes, once)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, ignore_cleanup_errors=True) as made:
        for module, flags, packages in builds:
            built = subprocess.run(
                ["go", "build", "-trimpath", "-ldflags", flags, "-o", f"{made}/bin/", *packages],
                cwd=module,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=BUILD_LIMIT,
            )
            if built.returncode:
                said = built.stderr[-2000:]
                raise MissingProgramError(f"{what} does not build:\n{said}")
        for name, other in _OTHER_NAMES.items():
            if Path(made, "bin", other).exists():
                Path(made, "bin", other).rename(Path(made, "bin", name))
        Path(made, "bin").rename(folder)


if __name__ == "__main__":
    try:
        print(helm() if sys.argv[1:] == ["helm"] else find().folder)
    except MissingProgramError as missing:
        sys.exit(str(missing))
