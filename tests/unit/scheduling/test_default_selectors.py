"""What follows from a pod's services and its owner, and how it is found."""

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
    found = Registry()
    for each in objects:
        found.put(each)
    return found


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
def test_what_a_pod_belongs_to(
    owner: str | None, objects: tuple[ClusterObject, ...], selector: Selector
) -> None:
    owned = Owner(kind=owner, name="o") if owner else None
    pod = make_pod(labels={"app": "a", "v": "1", "w": "2"}, owner=owned)
    assert DefaultSelectors().selector(_registry(*objects), pod) == selector


def test_a_pod_is_not_compared_with_every_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 services of a team, each for one application, share their first label."""
    asked = 0

    def counted(requirements: Selector, labels: dict[str, str]) -> bool:
        nonlocal asked
        asked += 1
        return all(labels.get(each.key) in each.values for each in requirements or ())

    monkeypatch.setattr("eventsched.domain.objects.selectors.selects", counted)
    registry = _registry(
        *(
            Service(name=f"s{n}", namespace="default", selector={"a": "team", "app": f"a{n}"})
            for n in range(2000)
        )
    )
    pod = make_pod(labels={"a": "team", "app": "a77"})
    assert DefaultSelectors().selector(registry, pod) == _has(a="team", app="a77")
    assert asked == 1


def test_what_a_registry_says_is_read_again_when_it_changes() -> None:
    registry, found = _registry(_A), DefaultSelectors()
    pod = make_pod(labels={"app": "a", "v": "1"})
    assert found.selector(registry, pod) == _has(app="a")
    registry.put(_V)
    assert found.selector(registry, pod) == _has(app="a", v="1")
    registry.remove(Service, "default", "a")
    registry.remove(Service, "default", "v")
    assert found.selector(registry, pod) == ()
