"""Values of the chart beyond the overlays: pods, profiles, settings, the database; and the test of
a release."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
import yaml

from eventsched.kubectl_plugin.service_proxy import ApiService
from eventsched.plugins import IN_TREE
from eventsched.process import settings
from eventsched.process.sections.api_settings import ApiSettings
from eventsched.process.settings import Settings
from eventsched.scheduling.config.checking import check
from eventsched.web.http.https_server import Options, serving

from .chart import CHART, notes, run, templated, values
from .rendering import Object, configuration, of_kind, pod_spec, the

pytestmark = pytest.mark.process

SCHEMA = json.loads((CHART / "values.schema.json").read_text())
OWN = {"database", "stream"}
"""Fields of EventschedConfiguration that follow from other values."""
PROFILES = [
    {
        "schedulerName": "one",
        "plugins": {"preFilter": {"enabled": [{"name": "CapacityScheduling"}]}},
    },
    {"schedulerName": "two", "percentageOfNodesToScore": 50},
]


def test_the_values_that_switch_tracing_on() -> None:
    """Those of docs/how-to/trace-attempts.md."""
    page = (CHART.parents[1] / "docs" / "how-to/trace-attempts.md").read_text()
    objects = templated(**yaml.safe_load(page.split("```yaml\n")[1].partition("```")[0]))
    (policy,) = of_kind(objects, "NetworkPolicy")
    ports = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    (container,) = pod_spec(objects)["containers"]
    variables = {each["name"]: each.get("value") for each in container["env"]}
    endpoint = variables["OTEL_EXPORTER_OTLP_ENDPOINT"]
    assert urlsplit(endpoint).port in ports
    parts = yaml.safe_load_all(configuration(objects))
    assert {"enabled": True} in [part.get("tracing") for part in parts]


def test_pods_by_values() -> None:
    """Each value is in the pods; labels by which the release selects its pods stay."""
    name = {"name": "ca", "mountPath": "/etc/ca"}
    objects = templated(
        scheduler={
            "imagePullPolicy": "Always",
            "imagePullSecrets": [{"name": "registry"}],
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
            ],
            "affinity": {"nodeAffinity": {}},
            "tolerations": [{"operator": "Exists"}],
            "strategy": {"type": "Recreate"},
            "terminationGracePeriodSeconds": 60,
            "podLabels": {"team": "a", "app.kubernetes.io/name": "other"},
            "podAnnotations": {"example.com/owner": "b"},
            "extraEnv": [{"name": "PGSSLROOTCERT", "value": "/etc/ca/ca.crt"}],
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
            "extraVolumeMounts": [name],
        }
    )
    deployment, spec = the(objects, "Deployment")["spec"], pod_spec(objects)
    labels = deployment["template"]["metadata"]["labels"]
    assert labels["team"] == "a"
    assert labels.items() > deployment["selector"]["matchLabels"].items()
    assert deployment["strategy"] == {"type": "Recreate"}
    assert deployment["template"]["metadata"]["annotations"]["example.com/owner"] == "b"
    (spread,) = spec["topologySpreadConstraints"]
    assert spread["labelSelector"] == deployment["selector"]
    (container,), (migration,) = spec["containers"], spec["initContainers"]
    assert {container["imagePullPolicy"], migration["imagePullPolicy"]} == {"Always"}
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["terminationGracePeriodSeconds"] == 60
    assert name in container["volumeMounts"]
    assert {"name": "ca", "configMap": {"name": "ca"}} in spec["volumes"]
    assert container["env"][-1] == {"name": "PGSSLROOTCERT", "value": "/etc/ca/ca.crt"}


def test_a_spread_constraint_keeps_its_own_selector() -> None:
    selector = {"matchLabels": {"app": "x"}}
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    given = {"topologySpreadConstraints": [{**spread, "labelSelector": selector}]}
    found = pod_spec(templated(scheduler=given))["topologySpreadConstraints"]
    assert found == [{**spread, "labelSelector": selector}]


def test_profiles_and_settings_by_values() -> None:
    """Both documents of the configuration are right, and the rights follow the profiles."""
    given = {
        "detail": "digest",
        "retention": {"detail": "168h"},
        "workBudget": 4_000_000,
        "serving": {"authorization": "off"},
        "keepAnnotations": ["example.com/team"],
    }
    objects = templated(profiles=PROFILES, settings=given)
    text = configuration(objects)
    checked = check(text, "eventsched.yaml", IN_TREE)
    assert checked.problems == ()
    assert [profile.name for profile in checked.profiles] == ["one", "two"]
    found = settings.load(text, "eventsched.yaml")
    assert (found.detail, found.retention.detail, found.work_budget) == (
        "digest", "168h", 4_000_000,
    )  # fmt: skip
    assert (found.serving.bind_address, found.serving.authorization) == ("0.0.0.0", "off")
    assert (found.stream, found.keep_annotations) == ("my-scheduler", ("example.com/team",))
    (role,) = of_kind(objects, "ClusterRole")
    assert [rule["resources"] for rule in role["rules"]] == [["elasticquotas"]]


def test_the_api_beside_the_scheduler() -> None:
    """Off by default. Its port is the same in the settings, the pod, the Service and the
    NetworkPolicy, and pods are replaced when it changes."""

    def ports(objects: list[Object]) -> list[list[int]]:
        (container,) = pod_spec(objects)["containers"]
        (service,) = of_kind(objects, "Service")
        return [
            [each["containerPort"] for each in container["ports"]],
            [each["port"] for each in service["spec"]["ports"]],
            [
                each["port"]
                for rule in the(objects, "NetworkPolicy")["spec"]["ingress"]
                for each in rule["ports"]
            ],
        ]

    def restart(objects: list[Object]) -> str:
        template = the(objects, "Deployment")["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/restart"])

    without, objects = templated(), templated(api={"enabled": True, "ui": True})
    assert ports(without) == [[10259]] * 3
    assert ports(objects) == [[10259, 8787]] * 3
    assert restart(without) != restart(objects)
    assert settings.load(configuration(without), "f").api == ApiSettings()
    assert settings.load(configuration(objects), "f").api == ApiSettings(8787, True, "delegated")
    shadow = {"shadow": {"enabled": True}, "api": {"authorization": "off"}}
    open_to_all = templated(api={"enabled": True}, settings=shadow)
    found = settings.load(configuration(open_to_all), "f")
    assert found.api == ApiSettings(8787, False, "off")


def test_who_may_reach_the_api_by_kubectl() -> None:
    """No user by default, and through the proxy to that port only. The rule is that of the how-to,
    and what the plugin asks for."""
    users = [
        {"kind": "Group", "name": "system:authenticated"},
        {"kind": "ServiceAccount", "name": "ci"},
        {"kind": "ServiceAccount", "name": "ci", "namespace": "build"},
    ]
    api = {"enabled": True}
    without, closed = templated(api={"users": users}), templated(api=api)
    objects = templated(api={**api, "users": users})
    assert api_users(without) == {}
    assert api_users(closed).keys() == {"Role"}
    found = api_users(objects)
    assert found["Role"] == api_users(closed)["Role"]
    service = ApiService("kube-system", "eventsched")
    assert found["Role"]["metadata"]["namespace"] == "kube-system"
    assert found["Role"]["rules"] == yaml.safe_load(_ROLE_OF_PAGE)["rules"]
    assert found["Role"]["rules"][0]["resourceNames"] == [service.proxied]
    binding = found["RoleBinding"]
    assert binding["roleRef"]["name"] == found["Role"]["metadata"]["name"]
    group = "rbac.authorization.k8s.io"
    assert binding["subjects"] == [
        {**users[0], "apiGroup": group},
        {**users[1], "namespace": "kube-system"},
        users[2],
    ]
    restarts = [
        the(each, "Deployment")["spec"]["template"]["metadata"]["annotations"]
        for each in (closed, objects)
    ]
    assert restarts[0] == restarts[1]  # no pod is replaced for a user


_ROLE_OF_PAGE = (
    (CHART.parents[1] / "docs/how-to/ask-with-kubectl.md")
    .read_text()
    .split("```yaml\n")[1]
    .partition("```")[0]
)


def api_users(objects: list[Object]) -> dict[str, Object]:
    """The Role of users of the API and its binding, by kind."""
    return {
        each["kind"]: each for each in objects if each["metadata"]["name"] == "eventsched-api-user"
    }


def test_the_schema_has_the_settings_of_the_product() -> None:
    """All of them with their sections, except those that follow from other values."""

    def names(part: type[msgspec.Struct]) -> set[str]:
        return {field.encode_name for field in msgspec.structs.fields(part)}

    described = SCHEMA["properties"]["settings"]["properties"]
    assert described.keys() == names(Settings) - OWN
    for field in msgspec.structs.fields(Settings):
        section = described.get(field.encode_name, {}).get("properties")
        if section is not None:
            own = {"port", "kubeconfig", "context"}
            assert section.keys() == names(field.type) - own, field.encode_name


def test_the_schema_describes_every_value() -> None:
    """What values.yaml has, and nothing else."""

    def compare(schema: Object, given: Any, path: str) -> None:
        if isinstance(given, dict) and schema.get("properties") and given:
            assert schema["properties"].keys() == given.keys(), path
            for key, value in given.items():
                compare(schema["properties"][key], value, f"{path}.{key}")

    compare(SCHEMA, values(), "")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"settings": {"detial": "digest"}}, "additional properties 'detial' not allowed"),
        ({"settings": {"retention": {"detail": "a week"}}}, "/settings/retention/detail"),
        ({"profiles": [{"plugins": {}}]}, "missing property 'schedulerName'"),
        ({"rbac": {"role": "admin"}}, "/rbac/role"),
        ({"database": {"migration": "yes"}}, "/database/migration"),
        ({"scheduler": {"extraEnv": {"A": "b"}}}, "/scheduler/extraEnv"),
        ({"profiles": PROFILES, "plugins": {"enabled": ["Priority"]}}, "profiles replaces plugins"),
        (
            {"database": {"embedded": {"enabled": True}}, "scheduler": {"replicaCount": 2}},
            "database.embedded is for one replica",
        ),
        (
            {"database": {"embedded": {"enabled": True}, "cloudNativePG": {"enabled": True}}},
            "are both enabled",
        ),
        ({"archive": {"enabled": True}}, "archive.existingClaim is missing"),
        (
            {"archive": {"enabled": True}, "database": {"embedded": {"enabled": True}}},
            "archive needs a database that its pod can reach",
        ),
        ({"archive": {"schedule": "daily"}}, "/archive/schedule"),
        ({"api": {"users": [{"kind": "Team", "name": "a"}]}}, "/api/users/0/kind"),
        ({"api": {"enabled": True, "port": 80}}, "additional properties 'port' not allowed"),
        (
            {"api": {"enabled": True}, "settings": {"shadow": {"enabled": True}}},
            "a shadow sends none",
        ),
        ({"archive": {"folder": "/"}}, "additional properties 'folder' not allowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_do_not_fit_are_refused(given: dict[str, Any], message: str) -> None:
    """Before anything is installed; the message says what is wrong."""
    with pytest.raises(AssertionError, match=message):
        templated(**given)


def test_a_secret_with_other_keys() -> None:
    """And no migration."""
    database = {"secret": "pg", "urlKey": "uri", "migrationUrlKey": "admin"}
    spec = pod_spec(templated(database=database))
    (volume,) = [each for each in spec["volumes"] if each["name"] == "database"]
    assert volume["secret"]["items"] == [{"key": "uri", "path": "url"}]
    reference = spec["initContainers"][0]["env"][0]["valueFrom"]["secretKeyRef"]
    assert reference == {"name": "pg", "key": "admin"}
    (container,) = spec["containers"]
    assert container["env"] == [
        {"name": "EVENTSCHED_DATABASE_FILE", "value": "/etc/eventsched/database/url"}
    ]
    assert "initContainers" not in pod_spec(templated(database={"migration": "none"}))
    (migration,) = pod_spec(templated(database={"migration": "one-user"}))["initContainers"]
    assert migration["args"] == ["db", "upgrade", "--pre", "--one-user"]


def test_a_cluster_of_cloudnativepg() -> None:
    """Off by default. Its owner is the scheduler's user, a failover loses nothing, and uninstalling
    leaves it."""
    assert of_kind(templated(), "Cluster") == []
    given = {"enabled": True, "storageClass": "fast", "spec": {"storage": {"size": "50Gi"}}}
    objects = templated(database={"cloudNativePG": given})
    cluster, spec = the(objects, "Cluster"), pod_spec(objects)
    assert cluster["apiVersion"] == "postgresql.cnpg.io/v1"
    assert cluster["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert cluster["spec"] == {
        "instances": 3,
        "storage": {"size": "50Gi", "storageClass": "fast"},
        "bootstrap": {"initdb": {"database": "eventsched", "owner": "eventsched"}},
        "postgresql": {"synchronous": {"method": "any", "number": 1, "dataDurability": "required"}},
    }
    secret = f"{cluster['metadata']['name']}-app"
    (volume,) = [each for each in spec["volumes"] if each["name"] == "database"]
    assert volume["secret"]["secretName"] == secret
    assert volume["secret"]["items"] == [{"key": "uri", "path": "url"}]
    (migration,) = spec["initContainers"]
    assert migration["args"] == ["db", "upgrade", "--pre", "--one-user"]
    assert migration["env"][0]["valueFrom"]["secretKeyRef"] == {"name": secret, "key": "uri"}
    single = templated(database={"cloudNativePG": {"enabled": True, "instances": 1}})
    assert "postgresql" not in the(single, "Cluster")["spec"]


def test_an_account_of_its_own_name() -> None:
    """Every binding is for it."""
    given = {"name": "schedulers", "annotations": {"a": "b"}}
    objects = templated(serviceAccount=given)
    assert the(objects, "ServiceAccount")["metadata"]["annotations"] == {"a": "b"}
    bindings = of_kind(objects, "RoleBinding") + of_kind(objects, "ClusterRoleBinding")
    assert {each["subjects"][0]["name"] for each in bindings} == {"schedulers"}
    assert pod_spec(objects)["serviceAccountName"] == "schedulers"
    objects = templated(serviceAccount={"create": False, "name": "there"}, rbac={"role": "none"})
    assert not of_kind(objects, "ServiceAccount") + of_kind(objects, "ClusterRoleBinding")
    assert the(objects, "RoleBinding")["subjects"][0]["name"] == "there"


@pytest.mark.parametrize(
    ("given", "third"),
    [
        ({}, "eventsched explain --stream my-scheduler"),
        ({"extender": {"enabled": True}}, "get ser"),
    ],
)
def test_the_notes_say_what_comes_next(tmp_path: Path, given: Object, third: str) -> None:
    """Three commands."""
    commands = [line.strip() for line in notes(tmp_path, **given).splitlines()[4:9:2]]
    assert commands[0] == ("kubectl -n kube-system rollout status deploy/eventsched --timeout=5m")
    assert commands[1] == "helm test eventsched -n kube-system"
    assert third in commands[2]


def release_test() -> Object:
    """The Pod of ``helm test``."""
    shown = run(
        "template", "eventsched", str(CHART), "--show-only=templates/tests/readiness.yaml",
        "--values=-", given={"scheduler": {"imagePullSecrets": [{"name": "registry"}]}},
    )  # fmt: skip
    found: Object = yaml.safe_load(shown)
    return found


def test_the_test_of_a_release_is_a_safe_pod() -> None:
    """It runs once, may do nothing to its machine, and no selector of the release matches it."""
    pod = release_test()
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert pod["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    selector = the(templated(), "Deployment")["spec"]["selector"]["matchLabels"]
    assert not selector.items() <= pod["metadata"]["labels"].items()
    theirs, ours = pod["spec"]["containers"][0], pod_spec(templated())["containers"][0]
    assert theirs["securityContext"] == ours["securityContext"]
    assert theirs["image"] == ours["image"]
    assert theirs["args"][1:] == ["eventsched.default.svc", "10259"]


@pytest.mark.parametrize(("status", "code"), [(200, 0), (500, 1)])
def test_the_test_of_a_release_asks_every_replica(status: int, code: int) -> None:
    """Its program passes if all are ready, and prints what those say that are not."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        assert scope["path"] == "/readyz"
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"[-]database failed: unreachable"})

    async def tested() -> "subprocess.CompletedProcess[str]":
        async with serving(Options("127.0.0.1", 0), answer, answer) as addresses:
            port = addresses.secure.rpartition(":")[2]
            return await asyncio.to_thread(asked, port)

    done = asyncio.run(tested())
    assert done.returncode == code
    assert "[-]database failed: unreachable" in done.stdout
    assert f"{1 - code} of 1 replicas are ready" in done.stdout


def test_the_test_of_a_release_fails_if_no_replica_answers() -> None:
    done = asked("1")
    assert done.returncode == 1
    assert "no answer" in done.stdout


def asked(port: str) -> "subprocess.CompletedProcess[str]":
    """Runs the program of ``helm test`` for the replicas on this port."""
    program = release_test()["spec"]["containers"][0]["args"][0]
    return subprocess.run(
        [sys.executable, "-c", program, "127.0.0.1", port],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
