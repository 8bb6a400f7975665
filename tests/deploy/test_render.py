"""The overlays render, and what they render is safe, whole, and fits the scheduler."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from eventsched import __version__
from eventsched.cluster.kube.watch.resources import OPTIONAL
from eventsched.plugins import IN_TREE
from eventsched.process import settings
from eventsched.scheduling.config.checking import check

from .rendering import (
    CLUSTER_WIDE,
    DEPLOY,
    NAMESPACES,
    base_with,
    built,
    configuration,
    example_secret,
    of_kind,
    pod_spec,
    rendered,
    the,
    with_components,
)
from .rights import ANNOUNCED, ANSWERING, EVERYWHERE, READ, Right, at_home, rights

OVERLAYS = list(NAMESPACES)
LABELS = {"app.kubernetes.io/name": "eventsched", "app.kubernetes.io/component": "scheduler"}


def overlays(*chosen: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("overlay", chosen or OVERLAYS)


@overlays()
def test_everything_is_where_it_belongs(overlay: str) -> None:
    objects, namespace = rendered(overlay), NAMESPACES[overlay]
    for each in objects:
        expected = None if each["kind"] in CLUSTER_WIDE else namespace
        assert each["metadata"].get("namespace") == expected
        assert each["metadata"]["labels"].items() >= LABELS.items()
    account = {"kind": "ServiceAccount", "name": "eventsched", "namespace": namespace}
    bindings = of_kind(objects, "RoleBinding") + of_kind(objects, "ClusterRoleBinding")
    assert [each["subjects"] for each in bindings] == [[account]] * len(bindings)
    assert the(objects, "ServiceAccount")["metadata"]["name"] == "eventsched"
    assert pod_spec(objects)["serviceAccountName"] == "eventsched"
    assert of_kind(objects, "Secret") == []


def test_what_each_overlay_has() -> None:
    base = "ConfigMap Deployment NetworkPolicy PodDisruptionBudget Role RoleBinding Service"
    own = f"ClusterRole ClusterRoleBinding {base} ServiceAccount Namespace"
    expected = {
        "trial": f"{own} PersistentVolumeClaim",
        "external-postgres": own,
        "replicas": own,
        "second-scheduler": f"{base} ServiceAccount ClusterRoleBinding ClusterRoleBinding",
        "extender": f"{own} Service",
    }
    found = {overlay: sorted(each["kind"] for each in rendered(overlay)) for overlay in OVERLAYS}
    assert found == {overlay: sorted(kinds.split()) for overlay, kinds in expected.items()}


@overlays()
def test_pods_may_do_nothing_to_their_machine(overlay: str) -> None:
    spec = pod_spec(rendered(overlay))
    assert spec["securityContext"] == {
        "runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
        "fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert set(container["resources"]) == {"requests", "limits"}
        assert "memory" in container["resources"]["limits"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert not any("hostPath" in volume for volume in spec["volumes"])
    assert spec["priorityClassName"] == "system-cluster-critical"


@overlays()
def test_selectors_mean_these_pods_alone(overlay: str) -> None:
    objects = rendered(overlay)
    labels = the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert labels == LABELS
    assert the(objects, "Deployment")["spec"]["selector"] == {"matchLabels": LABELS}
    assert the(objects, "PodDisruptionBudget")["spec"]["selector"] == {"matchLabels": LABELS}
    assert the(objects, "NetworkPolicy")["spec"]["podSelector"] == {"matchLabels": LABELS}
    for service in of_kind(objects, "Service"):
        assert service["spec"]["selector"] == LABELS
    for spread in pod_spec(objects).get("topologySpreadConstraints", []):
        assert spread["labelSelector"] == {"matchLabels": LABELS}


@overlays("trial", "external-postgres", "replicas")
def test_the_own_role_is_what_the_scheduler_needs(overlay: str) -> None:
    assert rights(the(rendered(overlay), "ClusterRole")["rules"]) == EVERYWHERE


def test_an_extender_that_does_not_bind_may_do_less() -> None:
    assert rights(the(rendered("extender"), "ClusterRole")["rules"]) == ANSWERING


def test_a_shadow_only_reads_and_has_no_lease(tmp_path: Path) -> None:
    objects = base_with(["shadow-role"], tmp_path)
    assert rights(the(objects, "ClusterRole")["rules"]) == READ
    assert of_kind(objects, "Role") == of_kind(objects, "RoleBinding") == []


def test_the_second_scheduler_has_the_roles_of_kube_scheduler() -> None:
    roles = [
        each["roleRef"]["name"]
        for each in of_kind(rendered("second-scheduler"), "ClusterRoleBinding")
    ]
    assert roles == ["system:kube-scheduler", "system:volume-scheduler"]


@overlays()
def test_the_configuration_is_one_and_its_lease_is_covered(overlay: str) -> None:
    objects = rendered(overlay)
    text = configuration(objects)
    checked = check(text, "eventsched.yaml", IN_TREE)
    assert (checked.problems, checked.warnings) == ((), ())
    election = checked.configuration.leader_election
    assert election.leader_elect
    assert election.resource_namespace == NAMESPACES[overlay]
    announces = {ANNOUNCED} if overlay == "extender" else set()
    assert rights(the(objects, "Role")["rules"]) == at_home(election.resource_name) | announces
    assert [each.name for each in checked.profiles] == [election.resource_name]
    found = settings.load(text, "eventsched.yaml")
    assert found.stream == election.resource_name
    assert (found.serving.bind_address, found.serving.port) == ("0.0.0.0", 10259)
    (container,) = pod_spec(objects)["containers"]
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    given = {each["name"]: each["value"] for each in container.get("env", [])}
    place = Path(given.get("EVENTSCHED_DATA_DIR") or found.database.url_file)
    assert str(place.parent) in mounted
    assert "/etc/eventsched/config" in mounted


@overlays()
def test_probes_ask_over_https(overlay: str) -> None:
    (container,) = pod_spec(rendered(overlay))["containers"]
    documented = overlay == "second-scheduler"
    expected = {
        "startupProbe": "/livez",
        "livenessProbe": "/healthz" if documented else "/livez",
        "readinessProbe": "/healthz" if documented else "/readyz",
    }
    for probe, path in expected.items():
        assert container[probe]["httpGet"] == {"scheme": "HTTPS", "port": "https", "path": path}
    assert {"name": "https", "containerPort": 10259} in container["ports"]
    assert len(container["ports"]) == (2 if overlay == "extender" else 1)


@overlays()
def test_the_network_is_open_where_it_must_be(overlay: str) -> None:
    spec = the(rendered(overlay), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    asked = [8888] if overlay == "extender" else []
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == [10259, *asked]
    out = [port["port"] for rule in spec["egress"] for port in rule["ports"]]
    assert out == [53, 53, 443, 6443] + ([] if overlay == "trial" else [5432])
    assert not [rule for rule in spec["egress"] if "to" in rule]  # names come from nodes, too


@overlays("external-postgres", "replicas", "second-scheduler", "extender")
def test_the_schema_is_brought_up_first(overlay: str) -> None:
    spec = pod_spec(rendered(overlay))
    (migration,), (container,) = spec["initContainers"], spec["containers"]
    assert migration["args"] == ["db", "upgrade", "--pre"]
    assert migration["image"] == container["image"]
    example = example_secret()["stringData"]
    (variable,) = migration["env"]
    assert variable["name"] == "EVENTSCHED_DATABASE"
    assert variable["valueFrom"]["secretKeyRef"]["key"] in example
    (volume,) = [each for each in spec["volumes"] if each["name"] == "database"]
    assert [item["key"] in example for item in volume["secret"]["items"]] == [True]
    assert all("PASSWORD" in url for url in example.values())


def test_the_extender_answers_only_who_has_a_certificate() -> None:
    """Its port, the Service's, and the files that the configuration names belong together."""
    objects = rendered("extender")
    found = settings.load(configuration(objects), "eventsched.yaml").extender
    assert (found.tls, found.bind_address, found.paths.bind) == (True, "0.0.0.0", "")
    (container,) = pod_spec(objects)["containers"]
    assert {"name": "extender", "containerPort": found.port} in container["ports"]
    (service,) = [each for each in of_kind(objects, "Service") if "clusterIP" not in each["spec"]]
    assert service["spec"]["ports"] == [
        {"name": "extender", "port": found.port, "targetPort": "extender"}
    ]
    files = [Path(each) for each in (found.cert_file, found.key_file, found.client_ca_file)]
    assert [each.name for each in files] == ["tls.crt", "tls.key", "ca.crt"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "tls"]
    assert {str(each.parent) for each in files} == {mount["mountPath"]}


def test_two_replicas_stand_on_two_nodes() -> None:
    deployment = the(rendered("replicas"), "Deployment")["spec"]
    assert deployment["replicas"] == 2
    keys = [
        (each["topologyKey"], each["whenUnsatisfiable"])
        for each in pod_spec(rendered("replicas"))["topologySpreadConstraints"]
    ]
    assert keys == [
        ("kubernetes.io/hostname", "DoNotSchedule"),
        ("topology.kubernetes.io/zone", "ScheduleAnyway"),
    ]
    assert the(rendered("trial"), "Deployment")["spec"]["strategy"] == {"type": "Recreate"}


def test_what_plugins_of_scheduler_plugins_read_can_be_added(tmp_path: Path) -> None:
    """The rights for the resources that are watched for them, and no others."""
    objects = with_components("replicas", ["scheduler-plugins-role"], tmp_path)
    (role,) = [
        each for each in of_kind(objects, "ClusterRole") if "plugins" in str(each["metadata"])
    ]
    assert rights(role["rules"]) == {
        Right(each.group, each.plural, verb) for each in OPTIONAL for verb in ("list", "watch")
    }
    bound = [each for each in of_kind(objects, "ClusterRoleBinding") if "plugins" in str(each)]
    assert [each["roleRef"]["name"] for each in bound] == [role["metadata"]["name"]]
    assert bound[0]["subjects"][0]["namespace"] == "eventsched"


def test_a_service_monitor_can_be_added(tmp_path: Path) -> None:
    objects = with_components("replicas", ["service-monitor"], tmp_path)
    monitor = the(objects, "ServiceMonitor")
    assert monitor["metadata"]["namespace"] == "eventsched"
    service = the(objects, "Service")
    assert (
        monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    )
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
    readers = [each for each in of_kind(objects, "ClusterRole") if "rules" in each]
    assert {"nonResourceURLs": ["/metrics"], "verbs": ["get"]} in [
        rule for each in readers for rule in each["rules"]
    ]


def test_the_api_can_be_added(tmp_path: Path) -> None:
    """Its port is the same in the pod, its arguments, the Service and the NetworkPolicy."""
    objects = with_components("replicas", ["api"], tmp_path)
    (container,) = pod_spec(objects)["containers"]
    assert container["args"][-2:] == ["--api-port=8787", "--ui"]
    assert container["ports"][-1] == {"name": "api", "containerPort": 8787}
    ports = the(objects, "Service")["spec"]["ports"]
    assert ports[1:] == [{"name": "api", "port": 8787, "targetPort": "api"}]
    rules = the(objects, "NetworkPolicy")["spec"]["ingress"]
    assert [port["port"] for rule in rules for port in rule["ports"]] == [10259, 8787]


def test_the_image_fits() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (.+)$", text, re.MULTILINE) == ["65532:65532"]
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (.+)$", text, re.MULTILINE)
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    assert json.loads(entry)[0].rpartition("/")[2] in project["scripts"]
    known = project["optional-dependencies"]
    here = "in-cluster"
    extras = re.findall(r"EXTRAS=(\S+)", text)
    own = [f"{here},prometheus,otel{more}" for more in (",embedded", ",archive", "")]
    assert extras == [*own[:2], "cluster,prometheus,otel", own[2]]
    assert all(extra in known for each in extras for extra in each.split(","))
    for overlay in OVERLAYS:
        (container,) = pod_spec(rendered(overlay))["containers"]
        verb = ["extender"] if overlay == "extender" else json.loads(command)[:1]
        assert container["args"] == [*verb, *json.loads(command)[1:]]
        suffix = "-embedded" if overlay == "trial" else ""
        assert container["image"] == f"eventsched:{__version__}{suffix}"


def test_the_base_renders_alone() -> None:
    assert the(built(DEPLOY / "base"), "Deployment")["spec"]["replicas"] == 1
