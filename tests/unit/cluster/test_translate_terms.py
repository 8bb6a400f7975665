"""What a pod says about other pods and about its volumes: affinity, spread, selectors, disks,
status."""

from typing import Any

import pytest

from eventsched.cluster.translate import manifest
from eventsched.domain.errors import InputError
from eventsched.domain.objects import (
    AffinityTerm,
    Pod,
    PodVolume,
    Requirement,
    SpreadConstraint,
    WeightedAffinityTerm,
)

WHERE = "pods.yaml: Pod default/a"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def made(spec: Any, *, defaults: bool = False, **rest: Any) -> Pod:
    metadata = {"name": "a", "labels": {"app": "web", "rev": "7"}}
    return manifest.pod({"metadata": metadata, "spec": spec} | rest, WHERE, defaults=defaults)


def is_in(key: str, *values: str) -> Requirement:
    return Requirement(key=key, operator="In", values=values)


def near(*terms: Any, kind: str = "podAffinity", how: str = REQUIRED) -> dict[str, Any]:
    return {"affinity": {kind: {how: list(terms)}}}


def test_a_term_is_kept_as_it_is() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {
            "matchExpressions": [{"key": "tier", "operator": "Exists"}],
            "matchLabels": {"b": "2", "a": "1"},
        },
        "namespaces": ["x", "y"],
        "namespaceSelector": {},
        "matchLabelKeys": ["rev"],
        "mismatchLabelKeys": ["other"],
    }
    expected = AffinityTerm(
        topology_key="zone",
        selector=(is_in("a", "1"), is_in("b", "2"), Requirement(key="tier", operator="Exists")),
        namespaces=("x", "y"),
        namespace_selector=(),
    )
    weighed = {"weight": 7, "podAffinityTerm": term}
    assert made(near(term)).spec.required_affinity == (expected,)
    assert made(near(term, kind="podAntiAffinity")).spec.required_anti_affinity == (expected,)
    preferred = (WeightedAffinityTerm(weight=7, term=expected),)
    assert made(near(weighed, how=PREFERRED)).spec.preferred_affinity == preferred
    apart = made(near(weighed, how=PREFERRED, kind="podAntiAffinity"))
    assert apart.spec.preferred_anti_affinity == preferred


def test_no_selector_is_not_the_empty_selector() -> None:
    none, empty = made(near({}, {"labelSelector": {}})).spec.required_affinity
    assert (none.selector, empty.selector) == (None, ())
    assert (none.namespace_selector, none.topology_key) == (None, "")


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ({"key": "app", "operator": "Near"}, Requirement(key="app", operator="Near")),
        ({"key": "", "operator": "In"}, Requirement(key="", operator="In")),
        ({"operator": "In", "values": ["v"]}, Requirement(key="", operator="In", values=("v",))),
        (
            {"key": "-!", "operator": "Exists", "values": ["x"]},
            Requirement(key="-!", operator="Exists", values=("x",)),
        ),
    ],
)
def test_a_malformed_selector_is_left_to_the_plugin(
    expression: dict[str, Any], kept: Requirement
) -> None:
    """It must not refuse the whole file: upstream says so of the pod alone."""
    selector = {"labelSelector": {"matchExpressions": [expression]}}
    (term,) = made(near(selector)).spec.required_affinity
    (spread,) = made({"topologySpreadConstraints": [selector]}).spec.spread
    assert term.selector == spread.selector == (kept,)


def test_label_keys_are_merged_where_no_api_server_has_done_it() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["rev", "absent"],
        "mismatchLabelKeys": ["app"],
    }
    (raw,) = made(near(term)).spec.required_affinity
    (completed,) = made(near(term), defaults=True).spec.required_affinity
    assert raw.selector == (is_in("app", "web"),)
    apart = Requirement(key="app", operator="NotIn", values=("web",))
    assert completed.selector == (is_in("app", "web"), is_in("rev", "7"), apart)


def test_what_an_api_server_has_merged_is_not_merged_again() -> None:
    merged = [{"key": "rev", "operator": "In", "values": ["7"]}]
    term = {"labelSelector": {"matchExpressions": merged}, "matchLabelKeys": ["rev"]} | {
        "topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
    }  # fmt: skip
    spec = near(term) | {"topologySpreadConstraints": [term]}
    assert made(spec).spec == made(spec, defaults=True).spec


def test_a_term_without_selector_is_not_completed() -> None:
    given = {"topologyKey": "zone", "matchLabelKeys": ["rev"]}
    (term,) = made(near(given), defaults=True).spec.required_affinity
    assert term.selector is None


def test_a_spread_constraint_has_upstreams_defaults() -> None:
    least = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    assert made({"topologySpreadConstraints": [least]}).spec.spread == (
        SpreadConstraint(max_skew=1, topology_key="zone"),
    )


def test_a_spread_constraint_is_kept_as_it_is() -> None:
    whole = {
        "maxSkew": 0,
        "topologyKey": "zone",
        "whenUnsatisfiable": "Perhaps",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "minDomains": 3,
        "nodeAffinityPolicy": "Ignore",
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["rev"],
    }
    expected = SpreadConstraint(
        max_skew=0,
        topology_key="zone",
        when_unsatisfiable="Perhaps",
        selector=(is_in("app", "web"),),
        min_domains=3,
        node_affinity_policy="Ignore",
        node_taints_policy="Honor",
        match_label_keys=("rev",),
    )
    spec = {"topologySpreadConstraints": [whole]}
    assert made(spec).spec.spread == (expected,)
    whole |= {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    (completed,) = made(spec, defaults=True).spec.spread
    assert completed.selector == (is_in("app", "web"), is_in("rev", "7"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"whenUnsatisfiable": "Perhaps"}, "whenUnsatisfiable"),
        ({"maxSkew": 0}, "maxSkew: is 0"),
        ({"topologyKey": ""}, "topologyKey"),
    ],
)
def test_what_an_api_server_would_refuse_of_a_spread_constraint(
    wrong: dict[str, Any], words: str
) -> None:
    sound = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    spec = {"topologySpreadConstraints": [sound | wrong]}
    made(spec)
    with pytest.raises(InputError, match=words):
        made(spec, defaults=True)


@pytest.mark.parametrize(
    ("volume", "kept"),
    [
        ({"persistentVolumeClaim": {"claimName": "c"}}, PodVolume(name="v", claim="c")),
        ({"persistentVolumeClaim": {}}, PodVolume(name="v", source="persistentVolumeClaim")),
        ({"ephemeral": {}}, PodVolume(name="v", claim="a-v", ephemeral=True)),
        ({"csi": {"driver": "d"}}, PodVolume(name="v", driver="d")),
        (
            {"gcePersistentDisk": {"pdName": "p", "readOnly": True}},
            PodVolume(name="v", source="gcePersistentDisk", identity=("p",), read_only=True),
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "p"}},
            PodVolume(name="v", source="awsElasticBlockStore", identity=("p",)),
        ),
        (
            {"iscsi": {"iqn": "i", "targetPortal": "x"}},
            PodVolume(name="v", source="iscsi", identity=("i",)),
        ),
        (
            {"rbd": {"image": "i", "monitors": ["m", "n"]}},
            PodVolume(name="v", source="rbd", identity=("", "i", "m", "n")),
        ),
        (
            {"azureDisk": {"diskURI": "u", "kind": "Managed"}},
            PodVolume(name="v", source="azureDisk", identity=("u", "Managed")),
        ),
        ({"vsphereVolume": {"volumePath": "p"}}, PodVolume(name="v", source="vsphereVolume")),
    ],
)
def test_volumes_that_matter(volume: dict[str, Any], kept: PodVolume) -> None:
    volumes = [{"name": "config", "configMap": {}}, {"name": "v"} | volume]
    assert made({"volumes": volumes}).volumes == (kept,)


def test_disks_are_completed_as_an_api_server_does() -> None:
    volumes = [{"rbd": {"image": "i"}}, {"azureDisk": {"diskURI": "u"}}]
    found = made({"volumes": volumes}, defaults=True).volumes
    assert [each.identity for each in found] == [("rbd", "i"), ("u", "Shared")]


def test_what_else_a_pod_says() -> None:
    status = {"nominatedNodeName": "n1", "startTime": "1970-01-01T00:00:03Z"}
    spec = {"preemptionPolicy": "Never", "resourceClaims": [{"name": "gpu"}]}
    found = made(spec, status=status)
    assert (found.nominated_node, found.started_at) == ("n1", 3_000_000)
    assert (found.preemption_policy, found.resource_claims) == ("Never", ("gpu",))
    assert not found.displaced


@pytest.mark.parametrize(
    ("changed", "displaced"),
    [({}, True), ({"status": "False"}, False), ({"reason": "EvictionByEvictionAPI"}, False)],
)
def test_a_pod_that_makes_room(changed: dict[str, str], displaced: bool) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    conditions = [{"type": "Ready", "status": "True"}, condition | changed]
    assert made({}, status={"conditions": conditions}).displaced is displaced


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({"hostNetwork": True, "hostUsers": False}, ("UserNamespacesHostNetworkSupport",)),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        ({"hostNetwork": True}, ()),
        ({"hostUsers": False}, ()),
        (
            {"initContainers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("RestartAllContainersOnContainerExits",),
        ),
        ({"containers": [{"restartPolicyRules": [{"action": "Restart"}]}]}, ()),
    ],
)
def test_the_features_that_a_pod_needs(spec: dict[str, Any], features: tuple[str, ...]) -> None:
    assert made(spec).spec.needed_features == features


@pytest.mark.parametrize(
    ("spec", "path", "problem"),
    [
        (near({"labelSelector": []}), f"affinity.podAffinity.{REQUIRED}[0].labelSelector", "mapp"),
        (
            near({"labelSelector": {"matchLabels": {"a": 1}}}),
            f"affinity.podAffinity.{REQUIRED}[0].labelSelector.matchLabels.a",
            "is not a string (1)",
        ),
        (
            near({"weight": 101}, how=PREFERRED),
            f"affinity.podAffinity.{PREFERRED}[0].weight",
            "is 101",
        ),
        (
            {"topologySpreadConstraints": [{"maxSkew": "1"}]},
            "topologySpreadConstraints[0].maxSkew",
            "is not a whole number",
        ),
        (
            {"volumes": [{"persistentVolumeClaim": "c"}]},
            "volumes[0].persistentVolumeClaim",
            "is not a mapping",
        ),
        (
            {"volumes": [{"rbd": {"monitors": "m"}}]},
            "volumes[0].rbd.monitors",
            "is not a list",
        ),
        ({"resourceClaims": [{}]}, "resourceClaims[0].name", "is missing"),
        ({"preemptionPolicy": "Maybe"}, "preemptionPolicy", "'Maybe'"),
        ({"hostUsers": "no"}, "hostUsers", "is not true or false"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(spec: Any, path: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        made(spec)
    assert caught.value.where == f"{WHERE}: spec.{path}"
    assert problem in caught.value.problem
    assert caught.value.remedy


def resized(asked: str, given: str, *, reason: str = "", node: str = "n1", **spec: Any) -> Pod:
    """A pod whose container asks for some cpu and was given another amount."""
    requests = {"requests": {"cpu": given}}
    status: dict[str, Any] = {"containerStatuses": [{"name": "c", "resources": requests}]}
    status["resources"] = requests
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "reason": reason}]
    container = {"name": "c", "resources": {"requests": {"cpu": asked, "memory": 1}}}
    return made({"nodeName": node, "containers": [container]} | spec, status=status)


@pytest.mark.parametrize(
    ("pod", "counted"),
    [
        (resized("1", "3"), {"cpu": 3000, "memory": 1}),
        (resized("3", "1"), {"cpu": 3000, "memory": 1}),
        (resized("3", "1", reason="Deferred"), {"cpu": 3000, "memory": 1}),
        (resized("3", "1", reason="Infeasible"), {"cpu": 1000}),
        (resized("1", "3", node=""), {"cpu": 1000, "memory": 1}),
    ],
)
def test_a_pod_that_is_resized_counts_with_the_larger_amount(
    pod: Pod, counted: dict[str, int]
) -> None:
    """On a node, upstream: component-helpers resource determineEffectiveRequests."""
    assert pod.spec.containers[0].requests == counted


def test_what_a_whole_pod_was_given_counts_too() -> None:
    own: dict[str, Any] = {"resources": {"requests": {"cpu": "2", "memory": 5}}}
    assert resized("1", "3", **own).spec.requests == {"cpu": 3000, "memory": 5}
    assert resized("1", "1", **own).spec.requests == {"cpu": 2000, "memory": 5}
    infeasible = resized("1", "1", reason="Infeasible", **own)
    assert infeasible.spec.requests == {"cpu": 1000, "memory": 0}


def test_init_containers_that_are_no_sidecars_are_not_resized() -> None:
    asked, given = {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}
    init: list[dict[str, Any]] = [{"name": "i", "resources": asked}]
    init.append({"name": "s", "resources": asked, "restartPolicy": "Always"})
    statuses = [{"name": name, "resources": given} for name in "is"]
    pod = made(
        {"nodeName": "n1", "initContainers": init}, status={"initContainerStatuses": statuses}
    )
    assert [each.requests["cpu"] for each in pod.spec.init_containers] == [1000, 2000]
