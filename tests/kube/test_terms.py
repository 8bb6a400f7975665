"""The long lists of a pod's spec: translated by their types, to what translate makes of them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from eventsched.cluster.kube.watch import long_lists
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import POD, RESOURCES
from eventsched.cluster.translate import manifest
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {
    "matchLabels": {"b": "2", "a": "1"},
    "matchExpressions": [{"key": "c", "operator": "Exists"}],
}
POD_TERM = {
    "topologyKey": "zone",
    "labelSelector": SELECTOR,
    "namespaces": ["x"],
    "namespaceSelector": {},
    "matchLabelKeys": ["b"],
}
NODE_TERM = {
    "matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}],
    "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}],
}
WEIGHTED = {"weight": 7, "podAffinityTerm": POD_TERM}
CONSTRAINT = {
    "maxSkew": 2,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": SELECTOR,
    "minDomains": 3,
    "nodeAffinityPolicy": "Ignore",
    "nodeTaintsPolicy": "Honor",
    "matchLabelKeys": ["b"],
}
NEAR = {REQUIRED: [POD_TERM], PREFERRED: [WEIGHTED]}
NODES = {
    REQUIRED: {"nodeSelectorTerms": [NODE_TERM]},
    PREFERRED: [{"weight": 5, "preference": NODE_TERM}],
}
LISTS: dict[str, Any] = {
    "affinity": {"nodeAffinity": NODES, "podAffinity": NEAR, "podAntiAffinity": NEAR},
    "topologySpreadConstraints": [CONSTRAINT],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
}
OTHERS = {"containers": [{"name": "c", "image": "i"}], "priority": 3}


def api_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": "a", "namespace": "b", "resourceVersion": "17"}
    return {"metadata": metadata, "spec": {**OTHERS, **spec}, "status": {}}


def outcome(read: Callable[[], Pod]) -> Pod | str:
    """The pod, or the field that the InputError names."""
    try:
        return read()
    except InputError as error:
        return error.where


def test_lists_of_the_usual_shape_are_not_left_to_translate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, left, whole = api_pod(LISTS), [], manifest.pod

    def noting(obj: Mapping[str, Any], where: str, *, defaults: bool) -> Any:
        left.append(set(obj["spec"]))
        return whole(obj, where, defaults=defaults)

    monkeypatch.setattr(manifest, "pod", noting)
    found = long_lists.pod(json.dumps(made).encode())

    assert left == [set(OTHERS)]
    assert found == whole(made, "", defaults=False)
    assert found.spec.spread
    assert found.volumes


@pytest.mark.parametrize(
    "odd",
    [
        {"topologySpreadConstraints": [{**CONSTRAINT, "maxSkew": 1.0}]},
        {"topologySpreadConstraints": [{**CONSTRAINT, "maxSkew": 2**31}]},
        {"topologySpreadConstraints": [{**CONSTRAINT, "minDomains": None}, {}]},
        {"topologySpreadConstraints": None},
        {"tolerations": [{"key": None}]},
        {"tolerations": [{"operator": "Near"}]},
        {"tolerations": [{"effect": "Never"}]},
        {"affinity": None},
        {"affinity": {"nodeAffinity": {REQUIRED: None}}},
        {"affinity": {"nodeAffinity": {REQUIRED: {}}}},
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": NODE_TERM}]}}},
        {"affinity": {"nodeAffinity": {PREFERRED: [{"preference": NODE_TERM}]}}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "", "operator": "In"}]}]}}}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
            {"matchFields": [{"key": "a", "operator": "Near"}]}]}}}},
        {"affinity": {"podAffinity": {PREFERRED: [{"weight": 101, "podAffinityTerm": POD_TERM}]}}},
        {"affinity": {"podAffinity": {REQUIRED: [{}, {"labelSelector": None}]}}},
        {"affinity": {"podAffinity": {REQUIRED: [{"matchLabelKeys": [1]}]}}},
        {"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {"matchExpressions": [{}]}}]}}},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": ""}}]},
        {"volumes": [{"name": "v", "persistentVolumeClaim": {}}]},
        {"volumes": [*LISTS["volumes"], {"name": "i", "image": {"reference": "r"}}]},
        {"volumes": [{**LISTS["volumes"][0], "csi": {"driver": "d"}}]},
    ],
)  # fmt: skip
def test_lists_of_an_unusual_shape_are_decoded_as_by_translate(odd: dict[str, Any]) -> None:
    made = api_pod({**LISTS, **odd})
    body = json.dumps(made).encode()

    assert outcome(lambda: long_lists.pod(body)) == outcome(
        lambda: manifest.pod(made, "", defaults=False)
    )


def test_only_a_few_large_templates_are_cached() -> None:
    """Deleted pods of more than a MiB must not stay in memory."""
    decoder = Decoder(next(each for each in RESOURCES if each.type == POD))
    for number in range(40):
        selector = {"a": "x" * 100_000, "number": str(number)}
        decoded = decoder.object(json.dumps(api_pod({"nodeSelector": selector})).encode())
        assert decoded.seen
    pods = decoder._decode_watched.__self__  # type: ignore[attr-defined]
    assert 0 < pods._large.cache_info().currsize < 20
    assert pods._template.cache_info().currsize == 0
