"""NodeDeclaredFeatures and DynamicResources: what pods need of nodes beyond their resources."""

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.plugins.dynamic_resources import DynamicResources
from eventsched.plugins.node_declared_features import NodeDeclaredFeatures
from eventsched.scheduling.config.catalogue import UPSTREAM_POINTS
from eventsched.scheduling.framework import Status, points_of
from tests.builders import (
    SECOND,
    added,
    attempted,
    engine_of,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    scheduled,
    woken,
)

RESTARTS, USERS = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
REFUSED = "0/1 nodes are available: 1 node(s) didn't match Pod's required features."


def needing(*features: str) -> Pod:
    return make_pod(spec={"needed_features": features})


def having(*features: str, name: str = "n1") -> Node:
    return make_node(name, declared_features=features)


@pytest.mark.parametrize(
    ("needed", "declared"),
    [((), ()), ((), (USERS,)), ((USERS,), (USERS,)), ((RESTARTS,), ("Other", RESTARTS, USERS))],
)
def test_a_node_with_all_features_will_do(
    needed: tuple[str, ...], declared: tuple[str, ...]
) -> None:
    engine = engine_of(NodeDeclaredFeatures())
    observed(engine, *added(having(*declared), needing(*needed)))
    assert attempted(engine) == [scheduled()]


@pytest.mark.parametrize("declared", [(), (USERS,), ("Other",)])
def test_a_node_without_one_of_them_will_not(declared: tuple[str, ...]) -> None:
    engine = engine_of(NodeDeclaredFeatures())
    observed(engine, *added(having(*declared), needing(RESTARTS, USERS)))
    *_, decided, queued = attempted(engine)
    assert decided == refused(message=REFUSED, counts=((1, 1),))
    assert queued == parked("p1", "NodeDeclaredFeatures")


@pytest.mark.parametrize(
    ("stimulus", "wakes"),
    [
        (records.NodeUpdated(node=having(USERS)), "NodeUpdateDeclaredFeature"),
        (records.NodeAdded(node=having(name="n2")), "NodeAdd"),
        (records.NodeUpdated(node=make_node(labels={"a": "b"})), None),
        (records.PodUpdated(pod=needing(RESTARTS)), "PodUpdate"),
    ],
)
def test_other_features_wake_the_pod(stimulus: records.Stimulus, wakes: str | None) -> None:
    """Upstream's hints: whether they are the ones needed shows in the next attempt."""
    engine = engine_of(NodeDeclaredFeatures())
    observed(engine, *added(having(), needing(USERS)))
    attempted(engine)
    expected = [stimulus] + ([woken(wakes, "NodeDeclaredFeatures")] if wakes else [])
    assert observed(engine, stimulus, at=2 * SECOND) == expected


def test_a_pod_with_resource_claims_is_refused() -> None:
    engine = engine_of(DynamicResources())
    observed(engine, *added(make_node(), make_pod(resource_claims=("gpu", "nic"))))
    decided, queued = attempted(engine)
    reason = (
        "pod has resource claims (gpu, nic), and eventsched does not allocate dynamic resources yet"
    )
    message = f"0/1 nodes are available: {reason}."
    assert isinstance(decided, records.PodDecided)
    assert (decided.plugin, decided.message) == ("DynamicResources", message)
    assert queued == parked("p1", "DynamicResources", plugin="DynamicResources")
    more = records.NodeAdded(node=make_node("n2"))
    assert observed(engine, more, at=2 * SECOND) == [more]


def test_other_pods_are_not_its_concern() -> None:
    engine = engine_of(DynamicResources())
    observed(engine, *added(make_node(), make_pod()))
    assert attempted(engine) == [scheduled()]
    assert DynamicResources().post_filter(None, make_pod(), None) == (  # type: ignore[arg-type]
        Status.unschedulable("no new claims to deallocate")
    )


def test_they_serve_points_that_upstreams_serve() -> None:
    for plugin in (DynamicResources, NodeDeclaredFeatures):
        assert set(points_of(plugin)) <= set(UPSTREAM_POINTS[plugin.name])
