"""The chart and the overlays make the same objects, with a file of values for each overlay.

Both are rendered and compared field by field. What may differ is listed with its reason, and
has to differ.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .chart import CHART, made_of, of_overlay, templated
from .rendering import NAMESPACES, Object, rendered, with_components

pytestmark = pytest.mark.process

OF_HELM = ("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "helm.sh/chart")
"""Labels that say which release an object is of."""
CONTAINER = "spec.template.spec.containers[eventsched]"
NO_NAMESPACE = "helm install --create-namespace creates it; its Pod Security labels are the user's"
NO_HASH = "a checksum in the annotations replaces the pods if what needs a restart changes"
KEPT = "helm uninstall leaves the log"
DIFFERENCES: dict[str, dict[str, str]] = {
    "trial": {
        "Namespace eventsched": NO_NAMESPACE,
        "Deployment eventsched: spec.template.metadata.annotations": NO_HASH,
        "PersistentVolumeClaim eventsched-log: metadata.annotations": KEPT,
    },
    "external-postgres": {
        "Namespace eventsched": NO_NAMESPACE,
        "Deployment eventsched: spec.template.metadata.annotations": NO_HASH,
    },
    "replicas": {
        "Namespace eventsched": NO_NAMESPACE,
        "Deployment eventsched: spec.template.metadata.annotations": NO_HASH,
    },
    "second-scheduler": {
        "Deployment eventsched: spec.template.metadata.annotations": NO_HASH,
    },
    "extender": {
        "Namespace eventsched": NO_NAMESPACE,
        "Deployment eventsched: spec.template.metadata.annotations": NO_HASH,
    },
}
"""Overlay → object or field that only one of the two has, or that differs → why."""


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of an object, by path. Elements of lists go by their name, mount path or port, or
    else by their content: order does not matter."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            if key not in OF_HELM:
                yield from fields(child, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for child in value:
            yield from fields(child, f"{path}[{_name(child)}]")
    else:
        yield path, json.dumps(value)


def _name(element: Any) -> str:
    if isinstance(element, dict):
        for key in ("mountPath", "name", "topologyKey", "schedulerName"):
            if key in element:
                return str(element[key])
    return json.dumps(element, sort_keys=True)


def by_name(objects: list[Object]) -> dict[str, dict[str, str]]:
    """Kind and name → fields, without the hash that kustomize adds to a ConfigMap's name."""
    named: dict[str, dict[str, str]] = {}
    for each in objects:
        text = re.sub(r"\beventsched-config-\w+\b", "eventsched-config", yaml.safe_dump(each))
        plain = yaml.safe_load(text)
        if plain["kind"] == "ConfigMap":
            file = plain["data"].pop("eventsched.yaml")
            plain["data"] = dict(enumerate(yaml.safe_load_all(file)))
        name = f"{plain['kind']} {plain['metadata']['name']}"
        assert name not in named
        named[name] = dict(fields(plain))
    return named


def differences(overlay: list[Object], chart: list[Object]) -> Iterator[str]:
    """Objects and fields that are not the same in both."""
    ours, theirs = by_name(overlay), by_name(chart)
    yield from sorted(ours.keys() ^ theirs.keys())
    for name in sorted(ours.keys() & theirs.keys()):
        unequal = ours[name].items() ^ theirs[name].items()
        for path in sorted({path for path, _ in unequal}):
            yield f"{name}: {re.sub(r'annotations[.].*', 'annotations', path)}"


@pytest.mark.parametrize("overlay", NAMESPACES)
def test_the_chart_gives_the_objects_of_the_overlay(overlay: str) -> None:
    """Except for what is listed."""
    found = differences(rendered(overlay), of_overlay(overlay, NAMESPACES[overlay]))
    assert set(found) == DIFFERENCES[overlay].keys()


def test_the_component_that_archives_is_what_the_chart_has(tmp_path: Path) -> None:
    """Except for the image, which `images` replaces by its name."""
    names = {"CronJob eventsched-archive", "NetworkPolicy eventsched-archive"}
    archive = {"enabled": True, "existingClaim": "log-archive"}
    ours = by_name(with_components("replicas", ["archive"], tmp_path))
    values = f"--values={CHART / 'overlays/replicas.yaml'}"
    given = {"archive": archive}
    theirs = by_name(made_of(CHART, "eventsched", given, values, namespace="eventsched"))
    assert names == ours.keys() - by_name(rendered("replicas")).keys() == names & theirs.keys()
    found = {path for name in names for path, _ in ours[name].items() ^ theirs[name].items()}
    pod = "spec.jobTemplate.spec.template.spec"
    assert found == {f"{pod}.containers[archive].image"}


def test_every_overlay_has_values() -> None:
    """And no others are there."""
    assert {path.stem for path in (CHART / "overlays").iterdir()} == NAMESPACES.keys()


def test_the_default_values_are_those_of_the_second_scheduler() -> None:
    assert templated() == of_overlay("second-scheduler", "kube-system")


def test_a_difference_is_noticed() -> None:
    """A field that changes, an object that is missing, an element of a list that is added."""
    objects = rendered("replicas")
    other = templated(scheduler={"name": "eventsched"})
    found = set(differences(objects, other))
    assert "Deployment eventsched: spec.replicas" in found
    assert "ClusterRole eventsched" in found
    assert f"Deployment eventsched: {CONTAINER}.readinessProbe.httpGet.path" in found
