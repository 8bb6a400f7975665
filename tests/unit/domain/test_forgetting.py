"""Pods and nodes that are gone leave only their rows behind."""

import gc
from collections.abc import Iterator

import pytest

from eventsched.domain import records
from eventsched.domain.objects import HostPort, Image, Pod
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.rules.resource_scoring import ShapeCache
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed


@pytest.fixture(autouse=True)
def _collects_little() -> Iterator[None]:
    """What other tests have left is not looked at by each gc.collect() here."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def kept(engine: Engine) -> dict[str, int]:
    """What the state holds that comes with pods and nodes, by number."""
    state, nodes = engine.state, engine.state.nodes
    gc.collect()
    return {
        "pods": len(state.pods),
        "specs": len(state._specs),
        "unplaced": len(state._on_unknown_nodes),
        "images": len(nodes.images),
        "host ports": len(nodes.host_ports._by_port),
        "unoffered": len(nodes.unoffered),
    }


def daemons(node: str) -> list[Pod]:
    """Two pods of a kind that names its node, and so has a spec of its own."""
    spec = {"node_selector": {"kubernetes.io/hostname": node}}
    pods = (make_pod(f"{node}-{n}", ports=(8000 + n,), spec=spec, node_name=node) for n in (0, 1))
    return list(pods)


def test_what_a_node_and_its_pods_brought_goes_with_them() -> None:
    engine = engine_of(NodeResourcesFit())
    for number in range(30):
        name = f"n{number}"
        image = Image(names=(f"registry.local/{name}:1",), size=number)
        observed(engine, *added(make_node(name, images=(image,)), *daemons(name)))
        assert kept(engine) == {
            "pods": 2, "specs": 2, "unplaced": 0, "images": 1, "host ports": 2, "unoffered": 0,
        }  # fmt: skip
        ends = [records.PodDeleted(uid=pod.uid) for pod in daemons(name)]
        observed(engine, *ends, records.NodeDeleted(name=name))
    assert kept(engine) == dict.fromkeys(kept(engine), 0)


def test_what_a_pod_brought_goes_when_it_changes() -> None:
    """A pod may be resized, and may name any node."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node()))
    for number in range(1, 30):
        observed(engine, records.PodUpdated(pod=make_pod(cpu=number, node_name="n1")))
        observed(engine, *added(make_pod("p2", node_name=f"nowhere-{number}")))
        assert kept(engine)["specs"] == 2
        assert kept(engine)["unplaced"] == 1
        observed(engine, records.PodDeleted(uid="p2"))


def test_a_pod_is_of_the_same_shape_as_others_while_these_are_there() -> None:
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(), make_pod("p1"), make_pod("p2")))
    one, two = (engine.state.pods[uid].pod for uid in ("p1", "p2"))
    assert one.spec is two.spec
    attempted(engine)
    observed(engine, records.PodDeleted(uid="p1"))
    observed(engine, *added(make_pod("p3")))
    assert engine.state.pods["p3"].pod.spec is two.spec


def test_host_ports_of_many_pods_are_counted_apart() -> None:
    """Two pods with one port: it is free when both are gone."""
    engine = engine_of(NodeResourcesFit())
    pods = [make_pod(name, ports=(80,), node_name="n1") for name in ("p1", "p2")]
    observed(engine, *added(make_node(), *pods))
    found = []
    for pod in pods:
        in_use = engine.state.nodes.host_ports.colliding(HostPort(port=80, ip="10.0.0.1"))
        found.append({ip: dict(rows) for ip, rows in in_use.items()})
        observed(engine, records.PodDeleted(uid=pod.uid))
    assert found == [{"0.0.0.0": {0: 2}}, {"0.0.0.0": {0: 1}}]
    assert kept(engine)["host ports"] == 0


def test_what_is_worked_out_for_specs_is_bounded_by_their_number() -> None:
    shapes = ShapeCache(lambda pod: pod.name)
    for number in range(600):
        shapes(make_pod(spec={"node_selector": {"on": f"{number}"}}))
    assert len(shapes._known) == 600 - 512


def test_what_is_worked_out_for_long_pods_is_bounded_by_bytes() -> None:
    found: list[str] = []

    def named(pod: Pod) -> str:
        found.append(pod.name)
        return pod.name

    pods = [make_pod(f"p{n}", spec={"node_selector": {"on": f"{n}" * 1000}}) for n in range(4)]
    shapes = ShapeCache(named, limit_bytes=3 * len(pods[0].spec.key))
    for pod in (*pods[:3], *pods[:3], pods[3], pods[0]):
        shapes(pod)
    assert found == ["p0", "p1", "p2", "p3", "p0"]
    assert len(shapes._known) == 2
