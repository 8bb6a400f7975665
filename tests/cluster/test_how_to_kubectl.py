"""docs/how-to/ask-with-kubectl.md: ``kubectl eventsched`` through a real API server's proxy, by
users with different rights."""

import itertools
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psycopg
import pytest
import yaml

from eventsched.cli.main import main as eventsched
from eventsched.kubectl_plugin.plugin_commands import main, parser
from tests.api.test_serve import serving
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.plane import ControlPlane
from tests.databases import ROOT
from tests.databases import Server as DatabaseServer
from tests.deploy.chart import CHART, made_of
from tests.postgres.histories import TIGHT, odd_and_tight

RBAC = "rbac.authorization.k8s.io"
SYSTEM = "kube-system"
PAGE = ROOT / "docs" / "how-to/ask-with-kubectl.md"
PROXIED = "https:eventsched:api"
NODE = "node-00003"
WANTED = """
apiVersion: v1
kind: Pod
metadata: {name: wanted}
spec: {schedulerName: default-scheduler, containers: [{name: a, image: b}]}
"""


class Printed(NamedTuple):
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


class TerminalText(StringIO):
    """Text that is printed on a terminal."""

    def isatty(self) -> bool:
        return True


def run(*words: str, shown: type[StringIO] = StringIO) -> Printed:
    with redirect_stdout(shown()) as out, redirect_stderr(StringIO()) as err:
        code = main([*words, "--stream", TIGHT])
    return Printed(code, out.getvalue(), err.getvalue())


def logged(database: str, *words: str, shown: type[StringIO] = StringIO) -> str:
    """What the command prints that reads the database."""
    with redirect_stdout(shown()) as out:
        assert eventsched([*words, "--stream", TIGHT, "--database", database]) == 0
    return out.getvalue()


def refused_pod(database: str) -> tuple[str, str]:
    """The name of a pod that no node could take, and the number of that attempt."""
    with psycopg.connect(database) as connection:
        row = connection.execute(
            "SELECT pod, attempt FROM eventsched.decisions WHERE stream = %s"
            " AND namespace = 'default' AND outcome = 'unschedulable' ORDER BY seq LIMIT 1",
            [TIGHT],
        ).fetchone()
    assert row is not None
    return str(row[0]), str(row[1])


def own_address() -> str:
    """An address of this machine that a pod may have: not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking, suppress(OSError):
        asking.connect(("192.0.2.1", 9))  # sends nothing
        return str(asking.getsockname()[0])
    return pytest.skip("this machine has no address except loopback")


@pytest.fixture(scope="module")
def database(one_server: DatabaseServer) -> Iterator[str]:
    """A log whose pods are in the namespace ``default``."""
    with one_server.fresh(odd_and_tight) as url:
        yield url


@pytest.fixture(scope="module")
def url(_plane: ControlPlane, database: str) -> Iterator[str]:
    """The API over it, for users of the control plane."""
    words = ("--database", database, "--bind-address", own_address(), "--authorization",
             "delegated", "--kubeconfig", str(_plane.kubeconfig))  # fmt: skip
    with serving(*words) as url:
        yield url


def publish(plane: ControlPlane, namespace: str, url: str, name: str = "eventsched") -> None:
    """A Service of the API, as the chart makes it; its pod has the address of this machine."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    plane.admin.create(pod(name), namespace)
    status = {"podIP": host, "podIPs": [{"ip": host}], "phase": "Running"}
    plane.admin.patch("Pod", name, {"status": status}, namespace, subresource="status")
    metadata = {"name": name, "labels": {"app.kubernetes.io/name": "eventsched"}}
    ports = [{"name": "https", "port": 10259}, {"name": "api", "port": 8787}]
    spec = {"clusterIP": "None", "ports": ports}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    plane.admin.create(service, namespace)
    target = {"kind": "Pod", "name": name, "namespace": namespace}
    subset = {"addresses": [{"ip": host, "targetRef": target}],
              "ports": [{"name": "api", "port": port}]}  # fmt: skip
    plane.admin.create(
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": [subset]},
        namespace,
    )


def grant(plane: ControlPlane, namespace: str, account: str, rule: Object, home: str) -> None:
    """Lets a service account of a namespace do something in another; returns when the API server
    knows."""
    name = f"{account}-{rule['verbs'][0]}"
    made = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name}}
    plane.admin.create({**made, "kind": "Role", "rules": [rule]}, namespace)
    role = {"apiGroup": RBAC, "kind": "Role", "name": name}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": home}
    binding = {**made, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}
    plane.admin.create(binding, namespace)
    asked = {
        "namespace": namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": rule["resources"][0].partition("/")[0],
        "subresource": rule["resources"][0].partition("/")[2],
        "name": (rule.get("resourceNames") or [""])[0],
    }
    who = f"system:serviceaccount:{home}:{account}"
    wait_for(lambda: plane.admin.is_allowed(who, resourceAttributes=asked), f"{name} is in force")


def role_of_page() -> Object:
    """The Role that the page has for users."""
    role: Object = yaml.safe_load(PAGE.read_text().split("```yaml\n")[1].partition("```")[0])
    return role


def user(plane: ControlPlane, home: str, name: str, *, may_ask: bool) -> Path:
    """A kubeconfig of a new user, who may ask the API through the proxy or not."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    plane.admin.create(account, home)
    if may_ask:
        grant(plane, home, name, role_of_page()["rules"][0], home)
    return plane.write_kubeconfig(name, {"token": plane.service_account_token(home, name)})


def test_each_user_sees_what_the_own_rights_show(
    plane: ControlPlane, namespace: str, url: str, database: str, tmp_path: Path
) -> None:
    publish(plane, namespace, url)
    given = ("--service", f"{namespace}/eventsched")
    admin = (f"--kubeconfig={plane.kubeconfig}", *given)
    dev = (f"--kubeconfig={user(plane, namespace, 'dev', may_ask=True)}", *given)
    listing = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    grant(plane, "default", "dev", listing, namespace)
    guest = (f"--kubeconfig={user(plane, namespace, 'guest', may_ask=True)}", *given)
    stranger = (f"--kubeconfig={user(plane, namespace, 'stranger', may_ask=False)}", *given)

    # What the commands print that read the database.
    name, number = refused_pod(database)
    at = ("--attempt", number)
    story = logged(database, "explain", f"default/{name}", *at)
    for who in (admin, dev):
        assert run("explain", name, *at, *who) == (0, story, "")
    remedies = logged(database, "explain", f"default/{name}", "--why-not", NODE, *at)
    found = run("why-not", name, NODE, *at, *admin)
    assert found.code == 0
    assert found.out.partition("Decided again")[0] == remedies.partition("Decided again")[0] != ""
    assert run("queue", *admin) == (0, logged(database, "queue"), "")
    assert run("queue", "-o", "wide", *admin).out == logged(database, "queue", "-o", "wide")
    (tmp_path / "pod.yaml").write_text(WANTED)
    trial = logged(database, "try", "-f", str(tmp_path / "pod.yaml"))
    assert run("try", "-f", str(tmp_path / "pod.yaml"), *admin) == (0, trial, "")
    (tmp_path / "huge.yaml").write_text(WANTED.replace(
        "image: b", "image: b, resources: {requests: {cpu: 999}}"))  # fmt: skip
    assert run("try", "-f", str(tmp_path / "huge.yaml"), *admin).code == 1

    listed = run("log", name, "-o", "json", *dev)
    assert (listed.code, listed.err) == (0, "")
    decided = [json.loads(line) for line in listed.out.splitlines()]
    assert decided == sorted(decided, key=lambda each: each["position"]) != []
    assert {each["pod"] for each in decided} == {name}

    refused = run("why-not", name, NODE, *dev)
    assert (refused.code, "is about every namespace" in refused.err) == (2, True)
    refused = run("explain", name, "-n", "default", *guest)
    assert (refused.code, "may not list pods in" in refused.err) == (2, True)
    refused = run("log", "-n", "default", *guest)
    assert (refused.code, "may not list pods in" in refused.err) == (2, True)
    refused = run("explain", name, *stranger)
    assert (refused.code, f'resourceNames: ["{PROXIED}"]' in refused.err) == (2, True)


def test_a_terminal_shows_bars_and_colours_as_of_eventsched(
    plane: ControlPlane, namespace: str, url: str, database: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for variable, value in {"COLUMNS": "130", "TERM": "xterm", "EVENTSCHED_PAGER": ""}.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    publish(plane, namespace, url)
    admin = (f"--kubeconfig={plane.kubeconfig}", "--service", f"{namespace}/eventsched")
    with psycopg.connect(database) as connection:
        placed = connection.execute(
            "SELECT pod FROM eventsched.decisions WHERE stream = %s AND runner_up IS NOT NULL",
            [TIGHT],
        ).fetchone()
    assert placed is not None
    (tmp_path / "pod.yaml").write_text(WANTED)
    trial = ("try", "-f", str(tmp_path / "pod.yaml"))
    for words in (("explain", f"default/{placed[0]}"), ("queue", "--at", "200"), trial):
        text = logged(database, *words, shown=TerminalText)
        assert run(*words, *admin, shown=TerminalText) == (0, text, "")
        assert ("█" in text) is (words[0] == "explain")
        assert "\x1b[" in text


def of_chart(namespace: str, *accounts: str) -> list[Object]:
    """The Role and its binding that the chart makes if ``api.users`` names service accounts."""
    users = [{"kind": "ServiceAccount", "name": account} for account in accounts]
    given = {"api": {"enabled": True, "users": users}}
    objects = made_of(CHART, "eventsched", given, namespace=namespace)
    found = [each for each in objects if each["metadata"]["name"] == "eventsched-api-user"]
    assert sorted(each["kind"] for each in found) == ["Role", "RoleBinding"]
    return found


def rights(client: Client, namespace: str) -> set[tuple[str, str, str, str]]:
    """What a user may do in a namespace: verb, group, resource, name ("" means any)."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    answer = client.call("POST", path, {**review, "spec": {"namespace": namespace}})
    return {
        (verb, group, resource, name)
        for rule in answer.body["status"]["resourceRules"]
        for verb, group, resource, name in itertools.product(
            rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames") or [""]
        )
    }


def test_a_user_of_the_chart_may_ask_the_api_and_nothing_more(
    plane: ControlPlane, namespace: str, url: str, database: str
) -> None:
    publish(plane, namespace, url)
    named, guest, _ = (
        user(plane, namespace, account, may_ask=False) for account in ("named", "guest", "other")
    )
    for made in of_chart(namespace, "named", "guest"):
        plane.admin.create(made, namespace)
    client, other = (
        Client(plane.url, plane.tls(), plane.service_account_token(namespace, account))
        for account in ("named", "other")
    )
    more = {
        (verb, "", "services/proxy", PROXIED) for verb in ("get", "create")
    } | {("list", "", "services", "")}  # fmt: skip
    wait_for(lambda: more <= rights(client, namespace), "the API server knows the role")
    assert rights(client, namespace) - rights(other, namespace) == more
    for elsewhere in ("default", SYSTEM):
        assert rights(client, elsewhere) == rights(other, elsewhere)

    # The API asks for the right to list pods, which the Role does not give.
    service = ("--service", f"{namespace}/eventsched")
    name, number = refused_pod(database)
    refused = run("explain", name, f"--kubeconfig={guest}", *service)
    assert (refused.code, "may not list pods in" in refused.err) == (2, True)
    words = (f"--kubeconfig={named}", *service)
    listing = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    grant(plane, "default", "named", listing, namespace)
    at = ("--attempt", number)
    story = logged(database, "explain", f"default/{name}", *at)
    assert run("explain", name, *at, *words) == (0, story, "")
    assert "is about every namespace" in run("why-not", name, NODE, *words).err

    services = plane.admin.path("Service", None, namespace)
    proxied = f"{services}/{PROXIED}/proxy/api/v1/streams"
    tried = [
        ("DELETE", proxied),
        ("PUT", proxied),
        ("GET", f"{services}/https:eventsched:https/proxy/metrics"),
        ("GET", f"{services}/eventsched:api/proxy/"),
        ("GET", f"{services}/eventsched"),
        ("GET", plane.admin.path("Pod", None, namespace)),
        ("GET", f"{plane.admin.path('Pod', None, namespace)}/eventsched/proxy/"),
        ("GET", plane.admin.path("Secret", None, namespace)),
        ("GET", plane.admin.path("Service", None, SYSTEM)),
    ]
    assert [client.call(*each).status for each in tried] == [403] * len(tried)
    client.close()
    other.close()


def test_the_commands_of_the_page_are_there() -> None:
    lines = [line.strip() for line in PAGE.read_text().splitlines()]
    commands = [line for line in lines if line.startswith("kubectl eventsched ")]
    words = [shlex.split(line, comments=True)[2:] for line in commands if "--help" not in line]
    asked = [parser().parse_args(each).command for each in words]
    assert asked == ["explain", "explain", "why-not", "queue", "try", "log"]


def test_which_service_gets_a_token(plane: ControlPlane, namespace: str, url: str) -> None:
    """One of kube-system, or one that the user names: another one that has the label gets none."""
    admin = f"--kubeconfig={plane.kubeconfig}"
    assert "has no Service" in run("queue", admin).err
    publish(plane, namespace, url)
    refused = run("queue", admin)
    assert refused.code == 2
    assert f"add --service {namespace}/eventsched, or set EVENTSCHED_SERVICE" in refused.err
    assert run("queue", admin, "--service", f"{namespace}/none").code == 2
    publish(plane, SYSTEM, url)
    try:
        assert run("queue", admin).code == 0
        words = [
            sys.executable,
            "-c",
            "from eventsched.kubectl_plugin.plugin_entry import main; main()",
        ]
        words += ["queue", admin, "--stream", TIGHT]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert (done.stdout, done.stderr) == (run("queue", admin).out, "")
    finally:
        for kind in ("Service", "Endpoints", "Pod"):
            with suppress(Exception):
                plane.admin.delete(kind, "eventsched", SYSTEM)


def test_a_client_certificate_asks_as_a_service_account(
    plane: ControlPlane, namespace: str, url: str, database: str
) -> None:
    """The certificate does not reach the API, so a token of an account is made, and it sees what
    the account may see."""
    publish(plane, namespace, url)
    user(plane, "default", "reader", may_ask=False)
    listing = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    grant(plane, "default", "reader", listing, "default")
    kubeconfig = plane.certificate_kubeconfig("root", ["system:masters"])
    words = (f"--kubeconfig={kubeconfig}", "--service", f"{namespace}/eventsched")
    name, _ = refused_pod(database)
    refused = run("explain", name, *words)
    assert (refused.code, "add --service-account NAME" in refused.err) == (2, True)
    reader = (*words, "--service-account", "reader")
    assert run("explain", name, *reader).code == 0
    assert "is about every namespace" in run("why-not", name, NODE, *reader).err
    refused = run("explain", name, *words, "--service-account", "none")
    assert (refused.code, "has no token" in refused.err) == (2, True)
