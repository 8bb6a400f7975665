"""Fields that the Kubernetes API does not have, in pods and workloads that are tried."""

import re
from typing import Any

import pytest

from eventsched.cluster.sources.unknown_fields import TYPES, refuse_unknown_fields
from eventsched.cluster.sources.workload_pods import PodsOfWorkloads
from eventsched.domain.errors import InputError


def test_the_table_is_that_of_the_client() -> None:
    """Names of fields, and the types of those that are checked further."""
    client = pytest.importorskip("kubernetes.client")

    def type_of(model: Any, attribute: str) -> str:
        named = re.sub(r"^List\[(.*)\]$", r"\1", model.openapi_types[attribute])
        return named.removeprefix("V1") if named.removeprefix("V1") in TYPES else ""

    for kind, fields in TYPES.items():
        model = getattr(client, f"V1{kind}")
        expected = {
            name: type_of(model, attribute) for attribute, name in model.attribute_map.items()
        }
        pairs = [entry.partition(":") for entry in fields.split()]
        assert {name: within for name, _, within in pairs} == expected, kind


def _job(spec: dict[str, Any] | None = None, **pod: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "t", "clusterName": ""},
        "spec": {**(spec or {}), "template": {"spec": {"restartPolicy": "Never", **pod}}},
    }


@pytest.mark.parametrize(
    ("job", "path", "remedy"),
    [
        (_job({"paralelism": 2}), "spec.paralelism", "did you mean parallelism?"),
        (
            _job(containers=[{"name": "a"}, {"resources": {"reqests": {"cpu": 1}}}]),
            "spec.template.spec.containers[1].resources.reqests",
            "did you mean requests?",
        ),
        (
            _job(tolerations=[{"key": "gpu", "oprator": "Exists"}]),
            "spec.template.spec.tolerations[0].oprator",
            "did you mean operator?",
        ),
        (
            _job(affinity={"nodeAffinty": {}}),
            "spec.template.spec.affinity.nodeAffinty",
            "did you mean nodeAffinity",
        ),
        (_job({"7": 1}), "spec.7", "there are, among others:"),
    ],
)
def test_an_unknown_field_is_refused(job: Any, path: str, remedy: str) -> None:
    with pytest.raises(InputError) as refused:
        refuse_unknown_fields(job, "Job", "f.yaml: Job t")
    assert refused.value.where == f"f.yaml: Job t: {path}"
    assert refused.value.problem.endswith("has no such field")
    assert refused.value.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("amounts", "path", "remedy"),
    [
        ({"requests": {"memory": 1, "cpuu": "500m"}}, "requests.cpuu", "did you mean cpu?"),
        ({"limits": {"storage": 1}}, "limits.storage", "did you mean ephemeral-storage?"),
        (
            {"requests": {"zzz": 1}},
            "requests.zzz",
            "write it with its domain, such as nvidia.com/gpu",
        ),
    ],
)
def test_a_resource_that_no_container_may_request_is_refused(
    amounts: Any, path: str, remedy: str
) -> None:
    """validateContainerResourceName of the API server refuses it, too."""
    with pytest.raises(InputError) as refused:
        refuse_unknown_fields(_job(containers=[{"resources": amounts}]), "Job", "f")
    assert refused.value.where == f"f: spec.template.spec.containers[0].resources.{path}"
    assert refused.value.problem == "is not a resource of containers"
    assert refused.value.remedy == remedy


def test_resources_of_containers_pass() -> None:
    names = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "nvidia.com/gpu")
    amounts = {"requests": dict.fromkeys(names, 1), "limits": {1: 1}, "claims": [{"name": "gpu"}]}
    refuse_unknown_fields(_job(containers=[{"resources": amounts}]), "Job", "f")


def test_all_fields_of_the_api_pass() -> None:
    """Each type with all its fields, an object within each that is checked further."""

    def full(kind: str) -> dict[str, Any]:
        pairs = [entry.partition(":") for entry in TYPES[kind].split()]
        return {
            name: [full(within)] if within else {"any.of/these": 1} for name, _, within in pairs
        }

    for kind in TYPES:
        refuse_unknown_fields(full(kind), kind, "f")


def test_what_is_malformed_is_for_its_reader() -> None:
    """It passes here, and the reader names it."""
    job = _job(containers="none", tolerations=[["x"]])
    refuse_unknown_fields(job, "Job", "f")
    with pytest.raises(InputError) as refused:
        list(PodsOfWorkloads().expand(job, "Job", "f"))
    assert refused.value.where == "f: spec.template.spec.containers"
    assert refused.value.problem.startswith("is not a list")
    refuse_unknown_fields({"metadata": None, "spec": 3}, "Pod", "f")


def test_kinds_that_are_not_in_the_table_pass() -> None:
    refuse_unknown_fields({"anything": 1}, "Gizmo", "f")
