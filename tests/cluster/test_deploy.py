"""A real API server takes what is in ``deploy/``."""

import pytest

from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.deployed import applied, deployed
from tests.cluster.harness.plane import ControlPlane
from tests.deploy.rendering import (
    NAMESPACES,
    example_secret,
    pod_spec,
    rendered,
)


@pytest.mark.parametrize("overlay", NAMESPACES)
def test_the_api_server_takes_it(plane: ControlPlane, overlay: str) -> None:
    if namespace := [each for each in rendered(overlay) if each["kind"] == "Namespace"]:
        applied(plane, namespace[0])
    for each in rendered(overlay):
        assert "warning" not in applied(plane, each, dryRun="All").headers
    with deployed(plane, overlay) as objects:
        for each in objects:
            applied(plane, each)  # a second time


@pytest.mark.parametrize("overlay", NAMESPACES)
def test_its_pods_may_run_where_only_restricted_ones_may(
    plane: ControlPlane, namespace: str, overlay: str
) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    plane.admin.patch("Namespace", namespace, {"metadata": {"labels": label}})
    made: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x"},
        "spec": pod_spec(rendered(overlay)),
    }
    path = plane.admin.path("Pod", None, namespace)
    answer = plane.admin.call("POST", path, made, dryRun="All", fieldValidation="Strict")
    assert (answer.status, answer.message) == (201, "")
    assert answer.body["spec"]["priority"] == 2_000_000_000
    made["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True

    def is_refused() -> bool:
        """Once the API server has heard of the label itself."""
        refused = plane.admin.call("POST", path, made, dryRun="All")
        return (refused.status, "PodSecurity" in refused.message) == (403, True)

    wait_for(is_refused, "it is refused")
    made["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = False


def test_the_example_of_a_secret_is_one(plane: ControlPlane) -> None:
    applied(plane, next(e for e in rendered("external-postgres") if e["kind"] == "Namespace"))
    applied(plane, example_secret(), dryRun="All")
