"""The default selector that follows from a pod's services and its owner."""

import pytest

from eventsched.domain.objects import Owner, Requirement, Selector
from eventsched.domain.objects.registry import (
    ClusterObject,
    Registry,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from eventsched.scheduling.rules.topology.membership import DefaultSelectors
from tests.builders import make_pod


def _has(**labels: str) -> tuple[Requirement, ...]:
    return tuple(Requirement(key=k, operator="In", values=(v,)) for k, v in labels.items())


def _registry(*objects: ClusterObject) -> Registry:
    registry = Registry()
    for cluster_object in objects:
        registry.put(cluster_object)
    return registry


_A = Service(name="a", namespace="default", selector={"app": "a"})
_V = Service(name="v", namespace="default", selector={"app": "a", "v": "1"})


@pytest.mark.parametrize(
    ("owner", "objects", "selector"),
    [
        (None, (_A, _V), _has(app="a", v="1")),
        (None, (_A, Service(name="o", namespace="other", selector={"v": "1"})), _has(app="a")),
        (None, (Service(name="all", namespace="default"),), ()),
        ("ReplicaSet", (_A,), _has(app="a")),
        ("ReplicaSet", (ReplicaSet(name="o", namespace="default", selector=_has(t="x")),),
         _has(t="x")),
        ("ReplicaSet", (_A, ReplicaSet(name="o", namespace="default", selector=_has(t="x"))),
         _has(app="a", t="x")),
        ("ReplicaSet", (_A, ReplicaSet(name="o", namespace="other", selector=_has(t="x"))),
         _has(app="a")),
        ("ReplicaSet", (_A, ReplicaSet(name="o", namespace="default", selector=None)),
         _has(app="a")),
        ("ReplicaSet", (_A, ReplicaSet(name="o", namespace="default", selector=(
            Requirement(key="t", operator="In"),))), _has(app="a")),
        ("StatefulSet", (_A, StatefulSet(name="o", namespace="default", selector=_has(app="b"))),
         _has(app="a") + _has(app="b")),
        ("ReplicationController",
         (_A, ReplicationController(name="o", namespace="default", selector=_has(app="b"))),
         _has(app="b")),
        ("Job", (_A, ReplicaSet(name="o", namespace="default", selector=_has(t="x"))),
         _has(app="a")),
    ],
)  # fmt: skip
def test_selector_merges_services_and_owner(
    owner: str | None, objects: tuple[ClusterObject, ...], selector: Selector
) -> None:
    owned = Owner(kind=owner, name="o") if owner else None
    pod = make_pod(labels={"app": "a", "v": "1", "w": "2"}, owner=owned)
    assert DefaultSelectors().selector(_registry(*objects), pod) == selector


def test_services_are_looked_up_by_their_rarest_label(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 services of a team, each for one application, share their first label."""
    comparisons = 0

    def counting_selects(requirements: Selector, labels: dict[str, str]) -> bool:
        nonlocal comparisons
        comparisons += 1
        return all(
            labels.get(requirement.key) in requirement.values for requirement in requirements or ()
        )

    monkeypatch.setattr("eventsched.domain.objects.selectors.selects", counting_selects)
    registry = _registry(
        *(
            Service(name=f"s{n}", namespace="default", selector={"a": "team", "app": f"a{n}"})
            for n in range(2000)
        )
    )
    pod = make_pod(labels={"a": "team", "app": "a77"})
    assert DefaultSelectors().selector(registry, pod) == _has(a="team", app="a77")
    assert comparisons == 1


def test_selector_follows_changes_of_services() -> None:
    registry, selectors = _registry(_A), DefaultSelectors()
    pod = make_pod(labels={"app": "a", "v": "1"})
    assert selectors.selector(registry, pod) == _has(app="a")
    registry.put(_V)
    assert selectors.selector(registry, pod) == _has(app="a", v="1")
    registry.remove(Service, "default", "a")
    registry.remove(Service, "default", "v")
    assert selectors.selector(registry, pod) == ()
