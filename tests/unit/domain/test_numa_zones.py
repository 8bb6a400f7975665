"""What is known about NUMA zones between two reports of a node: over-reserving, fingerprints, pods
of other schedulers. Cases of scheduler-plugins, pkg/noderesourcetopology/cache
(overreserve_test.go, foreign_pods_test.go, store_test.go) and podfingerprint v0.2.2
(tracing_test.go)."""

from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import NodeResourceTopology
from eventsched.domain.records import PodDecided, PodQueued
from eventsched.domain.state import snapshot
from eventsched.domain.state.pod_set_fingerprints import fingerprint, xxh64
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.plugins.gallery.node_resource_topology_match import (
    NodeResourceTopologyMatch,
    NodeResourceTopologyMatchArgs,
    TopologyCache,
)
from eventsched.scheduling.engine import Engine
from tests.builders import SECOND, added, attempted, engine_of, observed
from tests.zones import POD, amounts, node_of, topology, zone, zoned_pod

CACHED = {"cache_resync_period_seconds": 5}
EXCLUSIVE = "with-exclusive-resources"
STALE = "invalid node topology data"


def report(free: str, *pods: str, method: str = "", **more: str) -> records.ObjectChanged:
    """n1's object: two zones with ``free`` processors each, for these pods."""
    attributes = {"nodeTopologyPodsFingerprint": fingerprint(("default", pod) for pod in pods)}
    if method:
        attributes["nodeTopologyPodsFingerprintMethod"] = method
    return records.ObjectChanged(object=bare(free, **attributes, **more))


def bare(free: str, **attributes: str) -> NodeResourceTopology:
    """The same without a fingerprint."""
    zones = (zone(number, cpu=free, memory="8Gi") for number in (0, 1))
    return topology("n1", *zones, policy=POD, **attributes)


def pod(name: str, cpu: str = "2", **fields: Any) -> Pod:
    """A Guaranteed one."""
    return msgspec.structs.replace(zoned_pod(amounts(cpu=cpu, memory="1Gi"), name=name), **fields)


def engine(first: records.ObjectChanged, *before: Pod, **args: Any) -> Engine:
    """One with n1, which has 8 processors."""
    made = engine_of(NodeResourceTopologyMatch(NodeResourceTopologyMatchArgs(**(args or CACHED))))
    observed(made, *added(node_of(bare("4"))), *added(*before), first)
    return made


def fits(it: Engine, cpu: str) -> bool:
    """Whether one more pod would be placed now."""
    return it.judge(pod("probe", cpu)).feasible == 1


def place(it: Engine, *placed: Pod) -> None:
    """Decides and binds pods, which have room."""
    for each in placed:
        observed(it, *added(each))
        assert any(isinstance(made, PodDecided) and made.node for made in attempted(it))
        observed(it, records.BindSucceeded(uid=each.uid, node="n1"))


def test_sums() -> None:
    """Those of the specification, and pods of the Go module's tests."""
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"a") == 0xD24EC4F1A98C6E5B
    assert xxh64(b"abc") == 0x44BC2CF5AD770999
    assert xxh64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1
    pods = [("ns1", "n1"), ("ns1", "n2"), ("ns2", "n1"), ("ns3", "n1"), ("ns3", "n2")]
    assert fingerprint(reversed(pods)) == "pfp0v001b92008c14168b3a6"


def test_what_is_placed_counts_against_every_zone() -> None:
    """It is unknown which zone the kubelet chooses. Without the cache it does not count at all."""
    it = engine(report("4"))
    place(it, pod("a"))
    assert (fits(it, "2"), fits(it, "3")) == (True, False)
    plain = engine(report("4"), cache_resync_period_seconds=0)
    place(plain, pod("a"))
    assert fits(plain, "4")


def test_an_object_holds_once_its_fingerprint_is_that_of_the_pods() -> None:
    """An older one does not; nor does it while a bind is under way."""
    it = engine(report("4"))
    place(it, pod("a"))
    observed(it, report("6"))
    assert not fits(it, "3")
    observed(it, report("3", "a", "b"))
    assert not fits(it, "3")
    place(it, pod("b", "1"))
    assert (fits(it, "3"), fits(it, "4")) == (True, False)


def test_a_reservation_that_fails_gives_back_what_it_took() -> None:
    """Before the bind it is not covered by any object, whatever its fingerprint."""
    it = engine(report("4"))
    observed(it, *added(pod("a")))
    attempted(it)
    observed(it, report("5"))
    assert (fits(it, "3"), fits(it, "4")) == (True, False)
    observed(it, records.BindFailed(uid="a", node="n1", message="refused"), at=SECOND)
    assert fits(it, "5")


def test_a_pod_that_is_gone_counts_no_more() -> None:
    """It ended before any object covered it, and the object that waits covers what is left."""
    it = engine(report("4"))
    place(it, pod("a"), pod("b", "1"))
    assert not fits(it, "2")
    observed(it, records.PodDeleted(uid="a"))
    assert (fits(it, "3"), fits(it, "4")) == (True, False)


def test_without_a_fingerprint_the_newest_object_holds() -> None:
    """It covers the pods that are bound."""
    it = engine(records.ObjectChanged(object=bare("4")))
    place(it, pod("a"))
    assert not fits(it, "3")
    observed(it, records.ObjectChanged(object=bare("3")))
    assert (fits(it, "3"), fits(it, "4")) == (True, False)


def test_another_policy_holds_at_once() -> None:
    """Whatever the fingerprint."""
    it = engine(report("4"))
    place(it, pod("a"))
    observed(it, report("1", "x", topologyManagerPolicy="none"))
    assert fits(it, "8")


@pytest.mark.parametrize(
    ("mode", "cpu", "expected"),
    [("All", "1", True), ("None", "1", False), ("OnlyExclusiveResources", "1", True),
     ("All", "", True), ("OnlyExclusiveResources", "", False)],
)  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False])
def test_pods_of_others(mode: str, cpu: str, expected: bool, is_first: bool) -> None:
    """The node is left alone until an object covers them; "" asks for nothing exclusive."""
    foreign = zoned_pod(amounts(cpu=cpu, memory="1Gi") if cpu else {}, name="f")
    foreign = msgspec.structs.replace(foreign, scheduler_name="other", node_name="n1")
    cache = TopologyCache(foreign_pods_detect=mode)
    before = (foreign,) if is_first else ()
    it = engine(report("4"), *before, **CACHED, cache=cache)
    if not is_first:
        assert fits(it, "4")
        observed(it, *added(foreign))
    assert fits(it, "4") is not expected
    if expected:
        observed(it, *added(pod("waits", "4")))
        (made,) = [each for each in attempted(it) if isinstance(each, PodDecided)]
        assert STALE in made.message
        found = observed(it, report("4", "f"), at=20 * SECOND)
        assert [each.uid for each in found if isinstance(each, PodQueued)] == ["waits"]
    assert fits(it, "4")


def test_a_pod_that_was_placed_for_another_scheduler_is_not_foreign() -> None:
    """As those are that an extender's answer has placed."""
    it = engine(report("4"))
    placed = pod("a", scheduler_name="other")
    observed(it, *added(placed))
    it.state.apply(
        records.ExtenderReplied(number=1, verb="bind", uid="a", node="n1", attempt=1), SECOND
    )
    assert (fits(it, "2"), fits(it, "3")) == (True, False)


def test_own_pods_that_were_there_before_do_not_count() -> None:
    """The first object is taken as it is, as upstream takes it when it starts."""
    it = engine(report("4"), pod("a", node_name="n1"))
    assert fits(it, "4")


def test_only_pods_with_exclusive_resources() -> None:
    """If the object says that its fingerprint covers no others."""
    it = engine(report("4"))
    shared = zoned_pod(amounts(cpu="1", memory="1Gi"), name="s", limited=False)
    place(it, pod("a"), shared)
    observed(it, report("2", "a"))
    assert not fits(it, "2")
    observed(it, report("2", "a", method=EXCLUSIVE))
    assert fits(it, "2")


def test_a_node_with_a_bind_under_way_is_discarded() -> None:
    """With discardReservedNodes; after the bind the newest object holds as it is."""
    it = engine(report("4"), discard_reserved_nodes=True, cache_resync_period_seconds=5)
    observed(it, *added(pod("a")))
    attempted(it)
    assert not fits(it, "1")
    observed(it, *added(pod("b")))
    attempted(it)
    found = observed(it, records.BindSucceeded(uid="a", node="n1"), at=20 * SECOND)
    assert [each.uid for each in found if isinstance(each, PodQueued)] == ["b"]
    assert fits(it, "4")


def test_a_snapshot_has_it() -> None:
    """And the digest sees it."""
    it = engine(report("4"))
    place(it, pod("a"))
    observed(it, report("3", "a", "b"))
    restored = SchedulerState()
    snapshot.restore(restored, snapshot.encode(it.state))
    assert restored.digest() == it.state.digest()
    report_of_n1 = restored.topologies.of("n1")
    assert report_of_n1 is not None
    assert report_of_n1.uncovered == {"a": True}
    report_of_n1.uncovered.clear()
    assert restored.digest() != it.state.digest()
