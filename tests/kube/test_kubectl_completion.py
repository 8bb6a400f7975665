"""What ``kubectl_complete-eventsched`` offers, also through kubectl itself."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from eventsched.kubectl_plugin.completion_entry import offer_lines
from eventsched.kubectl_plugin.plugin_commands import parser
from eventsched.kubectl_plugin.word_completion import completion_of

NAMES = {
    "/api/v1/namespaces/shop/pods": ["web-1", "web-2", "worker"],
    "/api/v1/namespaces/other/pods": ["db-0"],
    "/api/v1/nodes": ["node-1", "node-2"],
    "/api/v1/namespaces": ["other", "shop"],
    "/api/v1/namespaces/shop/serviceaccounts": ["default", "viewer"],
    "/api/v1/services": ["eventsched"],
    "/apis/apps/v1/namespaces/shop/deployments": ["api", "web"],
    "/apis/apps/v1/namespaces/other/statefulsets": ["db"],
    "/apis/batch/v1/namespaces/shop/jobs": ["night", "noon"],
}
GROUP, OLD_GROUP = "scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name"
METADATA: dict[str, dict[str, dict[str, str]]] = {
    "web-1": {"labels": {GROUP: "train"}, "annotations": {GROUP: "hidden"}},
    "web-2": {"labels": {"app": "web"}, "annotations": {OLD_GROUP: "taste"}},
    "db-0": {"labels": {GROUP: ""}, "annotations": {}},
}
"""The labels and annotations of some pods."""
END = ":4"


class NamesApi(BaseHTTPRequestHandler):
    """Lists names, a page of two at a time."""

    asked: list[tuple[str, str]] = []

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append((url.path, self.headers["Accept"]))
        if url.path == "/version":
            self._answer(200, {"gitVersion": "v1.34.0"})
        elif url.path not in NAMES:
            self._answer(403, {"kind": "Status", "message": "forbidden"})
        else:
            begin = int(query.get("continue", "0"))
            names = NAMES[url.path]
            known = {"namespace": "kube-system"}
            items = [{"metadata": {"name": name, **known, **METADATA.get(name, {})}}
                     for name in names[begin : begin + 2]]  # fmt: skip
            more = {"continue": str(begin + 2)} if names[begin + 2 :] else {}
            self._answer(200, {"items": items, "metadata": more})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: pytest shows what fails."""


def write_kubeconfig(folder: Path, server: str) -> Path:
    context = {"cluster": "c", "user": "u", "namespace": "shop"}
    config = {
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "contexts": [{"name": "here", "context": context}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }  # fmt: skip
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    return folder / "kubeconfig"


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A kubeconfig of namespace ``shop``, as kubectl finds it."""
    monkeypatch.setattr(NamesApi, "asked", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), NamesApi) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        path = write_kubeconfig(tmp_path, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield path
        server.shutdown()


def names(*words: str) -> list[str]:
    """The offered words, without what is said about them."""
    *offered, directive = offer_lines(words)
    assert directive == END
    return [each.partition("\t")[0] for each in offered]


def test_commands_options_and_choices() -> None:
    """They need no cluster."""
    commands = ["explain", "why-not", "queue", "try", "log"]
    assert names("") == commands
    assert offer_lines(["qu"]) == ["queue\tshow which pods wait, in which order, and what for", END]
    assert names("queue", "--que") == ["--queue"]
    assert names("queue", "--queue", "") == ["active", "backoff", "unschedulable", "gated"]
    assert names("queue", "--queue=b") == ["--queue=backoff"]
    assert names("log", "-o", "wi") == ["wide"]
    assert names("log", "--limit", "") == []
    assert names("queue", "one-too-many", "") == []
    assert names("no-such-command", "") == []
    assert offer_lines(["try", "-f", "job"]) == [":0"]
    assert offer_lines(["explain", "--kubeconfig", ""]) == [":0"]


def test_what_the_options_say() -> None:
    words = ("explain", "-n", "shop", "--full", "--context=here", "web", "--node", "n")
    wanted = completion_of(parser(), words)
    assert (wanted.word, wanted.kind) == ("n", "nodes")
    options = wanted.options
    assert (options.namespace, options.context, options.full) == ("shop", "here", False)
    assert (options.pod, options.stream) == ("web", None)


def test_names_of_the_cluster(kubeconfig: Path) -> None:
    assert names("explain", "") == ["web-1", "web-2", "worker"]
    assert names("explain", "-n", "other", "") == ["db-0"]
    assert names("why-not", "other/") == ["other/db-0"]
    assert names("why-not", "web-1", "node-") == ["node-1", "node-2"]
    assert names("explain", "web-1", "--node=node-2") == ["--node=node-2"]
    assert names("log", "--namespace", "sh") == ["shop"]
    assert names("queue", "--context", "") == ["here"]
    assert names("queue", "--service-account", "v") == ["viewer"]
    assert names("queue", "--service", "") == ["kube-system/eventsched"]
    listed = [accept for path, accept in NamesApi.asked if path != "/version"]
    assert all("PartialObjectMetadataList" in accept for accept in listed)


def test_workloads_of_the_cluster(kubeconfig: Path) -> None:
    assert names("explain", "deploy/") == ["deploy/api", "deploy/web"]
    assert names("explain", "deployments.apps/w") == ["deployments.apps/web"]
    assert names("explain", "jo") == ["job/night", "job/noon"]
    assert names("explain", "pod/web") == ["pod/web-1", "pod/web-2"]
    assert names("explain", "other/sts/") == ["other/sts/db"]
    assert names("explain", "other/s") == ["other/sts/db"]
    assert names("explain", "-n", "other", "sts/") == ["sts/db"]
    assert names("explain", "rs/") == names("explain", "x/y/z/") == []
    assert names("why-not", "deploy/") == []  # a question about a pod
    assert "/api/v1/namespaces/shop/pods" not in _asked_for("deploy/w")


def test_pod_groups_of_the_cluster(kubeconfig: Path) -> None:
    """Those that pods name in labels and annotations, as Coscheduling reads them."""
    assert names("explain", "group/") == ["group/taste", "group/train"]
    assert names("explain", "gr") == ["group/taste", "group/train"]
    assert names("explain", "shop/pg/tr") == ["shop/pg/train"]
    assert names("explain", "other/group/") == []
    assert names("why-not", "group/") == []


def _asked_for(word: str) -> list[str]:
    NamesApi.asked.clear()
    names("explain", word)
    return [path for path, _ in NamesApi.asked]


def test_what_may_not_be_listed_or_is_down_offers_nothing(kubeconfig: Path, tmp_path: Path) -> None:
    assert names("explain", "-n", "secret", "") == []
    down = write_kubeconfig(tmp_path, "http://127.0.0.1:1")
    assert names("explain", "--kubeconfig", str(down), "") == []
    assert names("explain", "--kubeconfig", "nowhere", "") == []


@pytest.mark.process
def test_kubectl_completes_the_plugin(kubeconfig: Path, tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    for name, module in (("kubectl_complete", "completion_entry"), ("kubectl", "plugin_entry")):
        program = tmp_path / f"{name}-eventsched"
        program.write_text(
            f"#!{sys.executable}\nfrom eventsched.kubectl_plugin.{module} import main\nmain()\n"
        )
        program.chmod(0o755)
    done = subprocess.run(
        ["kubectl", "__complete", "eventsched", "explain", "web-1", "--node", "n"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    if "kubectl_complete-eventsched" not in done.stderr:
        pytest.skip("this kubectl does not complete plugins: it is older than 1.26")
    assert done.stdout == "node-1\nnode-2\n:4\n"


@pytest.mark.process
def test_a_kubeconfig_that_prints_and_reads_disturbs_nothing(tmp_path: Path) -> None:
    """Its exec plugin asks for a password, as some do."""
    asking = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh",
              "interactiveMode": "IfAvailable",
              "args": ["-c", "echo code:; echo code: >&2; read answer; exit 1"]}  # fmt: skip
    config = yaml.safe_load(write_kubeconfig(tmp_path, "http://127.0.0.1:1").read_text())
    config["users"][0]["user"] = {"exec": asking}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
    done = subprocess.run(
        [sys.executable, "-c",
         "from eventsched.kubectl_plugin.completion_entry import main; main()", "explain", ""],
        env={**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")},
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (":4\n", "")
