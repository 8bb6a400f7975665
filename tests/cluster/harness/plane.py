"""A control plane of its own for a test: etcd and kube-apiserver on loopback, and whatever else the
test starts beside them.

    with ControlPlane() as plane:
        plane.admin.create(pod("web"), "default")

Everything lies in one folder under the system's temporary one, and is gone afterwards, also when
the test is killed (see ``guard``). EVENTSCHED_CLUSTER_LOGS names a folder that keeps the logs.
"""

import base64
import fcntl
import json
import os
import random
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml

from tests.cluster.harness import commands, leftovers
from tests.cluster.harness.binaries import MissingProgramError, Programs, find
from tests.cluster.harness.certificates import Authority
from tests.cluster.harness.client import ApiError, Client, Object
from tests.cluster.harness.commands import LOOPBACK, REAL_PORT, Files
from tests.cluster.harness.guard import Guard
from tests.cluster.harness.servers import Server

ADMIN = "admin"
USERS: Mapping[str, Sequence[str]] = {
    ADMIN: ("system:masters",),
    "system:kube-scheduler": (),
    "nobody": (),
}
"""Users with a token, and their groups. Others: ``users=``, client certificates, or tokens of
service accounts."""


class ControlPlane:
    """One control plane. Servers are attributes: ``plane.apiserver.pause()``."""

    def __init__(
        self,
        programs: Programs | None = None,
        *,
        flags: Sequence[str] = (),
        users: Mapping[str, Sequence[str]] | None = None,
        address: str = LOOPBACK,
    ) -> None:
        """``flags`` are more of kube-apiserver's, and win. At another ``address`` than loopback it
        is for real nodes (``commands.apiserver``). Raises MissingProgramError."""
        self.programs = programs or find()
        self.folder = Path(tempfile.mkdtemp(prefix="eventsched-plane-"))
        self.servers: list[Server] = []
        self._guard = Guard(self.folder)
        self._marks: dict[Path, int] = {}
        self._namespaces: list[str] = []
        self.authority = Authority(self.folder)
        self._address = address
        also = [] if address == LOOPBACK else [address, commands.SERVICE_IP]
        self.files = Files(
            self.folder,
            self.authority.certificate,
            *self.authority.serving(also=also),
            *self.authority.key("service-accounts"),
            self.folder / "tokens.csv",
        )
        self._tokens = {user: secrets.token_hex(16) for user in {**USERS, **(users or {})}}
        self._write_tokens({**USERS, **(users or {})})
        self._flags = list(flags)
        self._place()

    def _place(self) -> None:
        """Gives the servers ports that are free."""
        etcd, peer, api = free_ports(3)
        if self._address != LOOPBACK:
            api = REAL_PORT
        self.etcd_url = f"http://127.0.0.1:{etcd}"
        self.url = f"https://{self._address}:{api}"
        self.servers.clear()
        with_etcd = commands.etcd(self.programs, self.files, self.etcd_url, peer)
        self.etcd = self.server("etcd", with_etcd)
        with_api = commands.apiserver(self.programs, self.files, self.etcd_url, api, self._address)
        self.apiserver = self.server("kube-apiserver", [*with_api, *self._flags])
        self.admin = self.client(ADMIN)
        self.kubeconfig = self.write_kubeconfig("admin", {"token": self._tokens[ADMIN]})

    def start(self) -> Self:
        """Starts both servers and waits until the API server is ready. Raises TimeoutError."""
        for attempt in range(3):
            self.etcd.start()
            self.apiserver.start()
            try:
                self.wait_ready()
            except TimeoutError:
                said = self.etcd.tail() + self.apiserver.tail()
                if "address already in use" not in said or attempt == 2:
                    raise
                self.etcd.kill()
                self.apiserver.kill()
                self._place()
            else:
                return self
        raise AssertionError

    def wait_ready(self, within: float = 300.0) -> None:
        """Waits until the API server says that it is ready. Raises TimeoutError."""
        self.apiserver.until(self._is_ready, "ready", within)

    def _is_ready(self) -> bool:
        with suppress(OSError, ApiError):
            return self.admin.call("GET", "/readyz").status == 200
        return False

    def close(self) -> None:
        """Ends everything and removes the folder."""
        for each in reversed(self.servers):
            each.kill()
        self.admin.close()
        if kept := os.environ.get("EVENTSCHED_CLUSTER_LOGS"):
            Path(kept, self.folder.name).mkdir(parents=True, exist_ok=True)
            for log in self.folder.glob("*.log"):
                shutil.copy(log, Path(kept, self.folder.name))
        self._guard.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    # Users

    def client(self, user: str, timeout: float = 60.0) -> Client:
        """A client with a user's token; close it."""
        return Client(self.url, self.tls(), self._tokens[user], timeout)

    def tls(self) -> ssl.SSLContext:
        """That trusts this plane's servers."""
        return ssl.create_default_context(cafile=str(self.authority.certificate))

    def token(self, user: str) -> str:
        """A user's token, that never expires."""
        return self._tokens[user]

    def service_account_token(self, namespace: str, name: str, seconds: int = 3600) -> str:
        """A token as a pod of that service account gets it, at least 600 seconds long. The account
        has to be there; what it may do, its roles say."""
        path = self.admin.path("ServiceAccount", name, namespace, "token")
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = self.admin.call("POST", path, asked)
        if answer.status >= 300:
            raise ApiError(answer)
        return str(answer.body["status"]["token"])

    def write_kubeconfig(self, name: str, user: Object, url: str | None = None) -> Path:
        """A kubeconfig file for a user of the format's ``user`` section, such as ``{"token": …}``;
        ``url`` is a proxy's. Its context has the same name."""
        path = self.folder / f"{name}.kubeconfig"
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "plane",
                    "cluster": {
                        "server": url or self.url,
                        "certificate-authority": str(self.authority.certificate),
                    },
                }
            ],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": name, "context": {"cluster": "plane", "user": name}}],
            "current-context": name,
        }
        path.touch(0o600)
        path.write_text(yaml.safe_dump(content))
        return path

    def certificate_kubeconfig(
        self, user: str, groups: Sequence[str] = (), seconds: int = 3600
    ) -> Path:
        """A kubeconfig file with a new client certificate, for any user; expired when ``seconds``
        is negative."""
        certificate, key = self.authority.client(user, groups, seconds)
        given = {"client-certificate": str(certificate), "client-key": str(key)}
        return self.write_kubeconfig(certificate.stem, given)

    # More servers

    def server(
        self,
        name: str,
        command: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        keep: bool = False,
    ) -> Server:
        """Any program beside the plane's, not started yet: it ends with the plane, and its log is
        shown when a test fails."""
        log = self.folder / f"{name}.log"
        made = Server(name, command, log, self._guard, environment=environment, keep=keep)
        self.servers.append(made)
        return made

    def start_controller_manager(self, *flags: str) -> Server:
        """kube-controller-manager with nearly all controllers. Raises MissingProgramError."""
        command = commands.controller_manager(self.programs, self.files, self.kubeconfig)
        return self._started("kube-controller-manager", [*command, *flags])

    def start_kwok(self, stages: Sequence[str | Path] = ("nodes", "pods"), *flags: str) -> Server:
        """kwok, which plays the kubelets of all nodes. Stages are files, or names of those in
        ``stages/``. Started again when it dies, as it does now and then. Raises
        MissingProgramError."""
        command = commands.kwok(self.programs, self.kubeconfig, stages)
        return self._started("kwok", [*command, *flags], keep=True)

    def start_kube_scheduler(self, config: Object | None = None, *flags: str) -> Server:
        """kube-scheduler with a KubeSchedulerConfiguration (its clientConnection and leader
        election are filled in), without limits on its client. Raises MissingProgramError."""
        content: dict[str, Any] = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            **(config or {}),
        }
        content["leaderElection"] = {"leaderElect": False}
        content["clientConnection"] = {
            "kubeconfig": str(self.kubeconfig),
            "qps": 5000,
            "burst": 5000,
            **content.get("clientConnection", {}),
        }
        file = self.folder / "kube-scheduler.json"
        file.write_text(json.dumps(content))
        command = commands.scheduler(self.programs, file)
        return self._started("kube-scheduler", [*command, *flags])

    def _started(self, name: str, command: Sequence[str | Path], keep: bool = False) -> Server:
        server = self.server(name, command, keep=keep)
        server.start()
        return server

    def discard(self, server: Server) -> None:
        """Ends a server for good."""
        server.kill()
        self.servers.remove(server)

    # What tests need of a cluster

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What kubectl prints, as the administrator; ``given`` is its input. Raises
        MissingProgramError, CalledProcessError."""
        program = shutil.which("kubectl")
        with suppress(MissingProgramError):
            program = str(self.programs.path("kubectl"))
        if program is None:
            raise MissingProgramError("no kubectl")
        command = [program, f"--kubeconfig={self.kubeconfig}", *arguments]
        done = subprocess.run(
            command, input=given, capture_output=True, text=True, check=False, timeout=180
        )
        if done.returncode:
            failed = subprocess.CalledProcessError(
                done.returncode, command, done.stdout, done.stderr
            )
            failed.add_note(done.stderr)
            raise failed
        return done.stdout

    @contextmanager
    def namespace(self, prefix: str = "test") -> Iterator[str]:
        """A namespace with a name of its own; ``sweep`` empties it."""
        made = self.admin.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": f"{prefix}-"}}
        )
        name = str(made["metadata"]["name"])
        self._namespaces.append(name)
        yield name

    def sweep(self) -> None:
        """Removes what tests leave behind: nodes, volumes, and everything in the default namespace
        and in those that were made here. The namespaces stay, unless a controller manager runs."""
        leftovers.remove(self.admin, self._namespaces)
        self._namespaces.clear()

    def revision(self) -> int:
        """The cluster's current resourceVersion."""
        return int(self.admin.listing("Namespace", limit=1)["metadata"]["resourceVersion"])

    def forget_history(self) -> None:
        """Compacts etcd and starts the API server with an empty cache: a client that resumes a
        watch or continues a list from an earlier resourceVersion gets 410."""
        revision = self.revision()
        self.apiserver.kill()
        asked = {"revision": str(revision), "physical": True}
        self._etcd_call("/v3/kv/compaction", asked)
        self.apiserver.start()
        self.wait_ready()

    def _etcd_call(self, path: str, body: Object) -> Object:
        request = urllib.request.Request(
            f"{self.etcd_url}{path}", json.dumps(body).encode(), method="POST"
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            answer: Object = json.load(response)
        return answer

    def store(self, key: str, value: bytes) -> None:
        """Writes raw bytes into etcd past the API server, such as an object that does not decode:
        ``/registry/pods/default/web``."""
        body = {
            "key": base64.b64encode(key.encode()).decode(),
            "value": base64.b64encode(value).decode(),
        }
        self._etcd_call("/v3/kv/put", body)

    # Logs

    def mark_logs(self) -> None:
        """Makes ``logs`` return only lines from here on."""
        self._marks = {log: log.stat().st_size for log in self.folder.glob("*.log")}

    def logs(self, lines: int = 40) -> dict[str, str]:
        """The last lines of each log since the mark, without the empty ones."""
        found = {}
        for log in sorted(self.folder.glob("*.log")):
            with log.open("rb") as file:
                file.seek(self._marks.get(log, 0))
                said = file.read().decode(errors="replace").splitlines()
            if said:
                found[log.stem] = "\n".join(said[-lines:])
        return found

    def _write_tokens(self, users: Mapping[str, Sequence[str]]) -> None:
        self.files.tokens.touch(0o600)
        self.files.tokens.write_text(
            "".join(
                f'{self._tokens[user]},{user},{user},"{",".join(groups)}"\n'
                for user, groups in users.items()
            )
        )


def free_ports(count: int) -> list[int]:
    """Unused ports of loopback. They lie below those that the system gives to
    outgoing connections, and no other process of these tests gets them as long as this one lives,
    so that a server which stops for a while finds its port free again."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            if port not in _given and _is_reserved(port):
                found.append(port)
                _given.add(port)
    return found


_given: set[int] = set()
_PORTS = Path(tempfile.gettempdir()) / f"eventsched-test-ports-{os.getuid()}"


@cache
def _ports() -> int:
    """A file in which a locked byte stands for a port that is in use."""
    return os.open(_PORTS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_reserved(port: int) -> bool:
    """Reserves a port for this process, as long as it lives; False where another one has it."""
    try:
        fcntl.lockf(_ports(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True
