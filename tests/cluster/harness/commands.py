"""The command lines of a control plane's servers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.harness.binaries import Programs

Command = list[str | Path]
LOOPBACK = "127.0.0.1"
REAL_PORT = 6443
"""Of an API server for real nodes: the port that NetworkPolicies allow."""
SERVICE_IP = "10.0.0.1"
"""Of the Service ``kubernetes``."""
STAGES = Path(__file__).parent / "stages"


@dataclass(frozen=True)
class Files:
    """What the servers read."""

    folder: Path
    authority: Path
    certificate: Path
    key: Path
    signing: Path
    """The private key of service account tokens."""
    public: Path
    """Its public half."""
    tokens: Path


def etcd(programs: Programs, files: Files, url: str, peer: int) -> Command:
    """One member, that does not wait for the disk."""
    peers = f"http://127.0.0.1:{peer}"
    return [
        programs.path("etcd"),
        "--name=one",
        f"--data-dir={files.folder / 'etcd'}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=one={peers}",
        "--unsafe-no-fsync",
        # Bookmarks live from it.
        "--watch-progress-notify-interval=1s",
        "--quota-backend-bytes=8589934592",
        "--log-level=warn",
    ]


def apiserver(
    programs: Programs, files: Files, etcd_url: str, port: int, address: str = LOOPBACK
) -> Command:
    """With RBAC, tokens, client certificates and service accounts; only tests compact. At an
    address other than loopback it is for real nodes: it admits pods as a cluster does, and the
    Service ``kubernetes`` leads to it."""
    return [
        programs.path("kube-apiserver"),
        f"--etcd-servers={etcd_url}",
        "--etcd-compaction-interval=0",
        f"--bind-address={address}",
        f"--secure-port={port}",
        f"--tls-cert-file={files.certificate}",
        f"--tls-private-key-file={files.key}",
        f"--client-ca-file={files.authority}",
        f"--cert-dir={files.folder / 'certificates'}",
        f"--token-auth-file={files.tokens}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={files.public}",
        f"--service-account-signing-key-file={files.signing}",
        "--service-cluster-ip-range=10.0.0.0/24",
        *(_WITHOUT_KUBELETS if address == LOOPBACK else _WITH_KUBELETS),
        "--max-requests-inflight=3000",
        "--max-mutating-requests-inflight=1500",
    ]


_WITHOUT_KUBELETS = (
    "--authorization-mode=RBAC",
    "--endpoint-reconciler-type=none",
    # Pods of tests have no service account; their nodes are ready from the start.
    "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
)
_WITH_KUBELETS = (
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--kubelet-preferred-address-types=InternalIP",
)


def controller_manager(programs: Programs, files: Files, kubeconfig: Path) -> Command:
    """With nearly all controllers."""
    return [
        programs.path("kube-controller-manager"),
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={files.signing}",
        f"--root-ca-file={files.authority}",
        "--leader-elect=false",
        "--secure-port=0",
        "--controllers=*,-bootstrap-signer-controller,-token-cleaner-controller",
        "--kube-api-qps=1000",
        "--kube-api-burst=1000",
    ]


def kwok(programs: Programs, kubeconfig: Path, stages: Sequence[str | Path]) -> Command:
    """The kubelets of all nodes. A stage is a file, or the name of one in ``stages/``."""
    files = [STAGES / f"{each}.yaml" if isinstance(each, str) else each for each in stages]
    return [
        programs.path("kwok"),
        f"--kubeconfig={kubeconfig}",
        "--manage-all-nodes=true",
        "--node-ip=10.0.0.1",
        "--cidr=10.0.0.1/24",
        "--node-lease-duration-seconds=40",
        *[f"--config={each}" for each in files],
    ]


def scheduler(programs: Programs, config: Path) -> Command:
    """kube-scheduler, serving nothing."""
    return [programs.path("kube-scheduler"), f"--config={config}", "--secure-port=0"]
