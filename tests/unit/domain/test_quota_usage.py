"""What namespaces use of their quotas. The amounts of most cases are those of scheduler-plugins,
pkg/capacityscheduling/elasticquota_test.go; what comes of them is worked out from its rule."""

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Container, Pod, PodSpec, Resources
from eventsched.domain.objects.registry import ElasticQuota
from eventsched.domain.state.quota_usage import HypotheticalUsage, request
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.snapshot import encode, restore
from tests.builders import make_node

GPU, EPHEMERAL = "nvidia.com/gpu", "ephemeral-storage"
LARGEST = 2**63 - 1


def amounts(cpu: int = 0, memory: int = 0, gpu: int | None = None, disk: int = 0) -> Resources:
    """The resources of a test; without a GPU if none is given."""
    found = {"cpu": cpu, "memory": memory, EPHEMERAL: disk}
    return found if gpu is None else {**found, GPU: gpu}


def pod(name: str, namespace: str, wanted: Resources, node: str = "", priority: int = 0) -> Pod:
    """A pod of one container."""
    spec = PodSpec(containers=(Container(requests=wanted),))
    return Pod(
        uid=name, name=name, namespace=namespace, node_name=node, priority=priority, spec=spec
    )


def quota(namespace: str, least: Resources | None, most: Resources | None = None,
          name: str = "team") -> records.ObjectChanged:  # fmt: skip
    """A quota comes or changes."""
    kept = ElasticQuota(name=name, namespace=namespace, min=least, max=most)
    return records.ObjectChanged(object=kept)


def state_of(*stimuli: records.Record) -> SchedulerState:
    """A state with one node."""
    made = SchedulerState()
    for each in (records.NodeAdded(node=make_node("node-a")), *stimuli):
        made.apply(each, 0)
    return made


def using(
    used: Resources, least: Resources | None, most: Resources | None = None
) -> HypotheticalUsage:
    """A namespace ns1 that uses so much of such a quota."""
    bound = records.PodAdded(pod=pod("used", "ns1", used, "node-a"))
    return state_of(quota("ns1", least, most), bound).quotas.usage()


@pytest.mark.parametrize(
    ("used", "least", "more", "expected"),
    [
        (amounts(4000, 200, 5), amounts(3000, 100, 5), amounts(1500, 100), True),
        (amounts(300, 100, 5), amounts(4000, 200, 5), amounts(100, 50), False),
        (amounts(3900, 100, 5), None, amounts(100, 100), True),
        (amounts(10, 10), {"cpu": 3000, "memory": 100}, amounts(10, 10, 5), True),
        (amounts(10, 10, disk=10), amounts(3000, 100, disk=100), amounts(10, 10, disk=10), False),
        # Of a resource that is not named nothing is guaranteed; what is not asked for is not asked.
        (amounts(10, 10), {"cpu": 3000}, amounts(10), True),
        (amounts(10, 10, 5), amounts(3000, 100), amounts(10, 10), False),
    ],
)
def test_over_min_with_more(
    used: Resources, least: Resources | None, more: Resources, expected: bool
) -> None:
    """Upstream: usedOverMinWith."""
    assert using(used, least).is_over_min_with("ns1", more) is expected


@pytest.mark.parametrize(
    ("used", "most", "more", "expected"),
    [
        (amounts(4000, 200, 5), amounts(4000, 200, 5), amounts(100, 100), True),
        (amounts(3900, 100, 5), amounts(4000, 200, 5), amounts(100, 100), False),
        (amounts(3900, 100, 5), None, amounts(100, 100), False),
        (amounts(10, 10), {"cpu": 3000, "memory": 100}, amounts(10, 10, 5), False),
        (amounts(10, 10, disk=10), amounts(3000, 100, disk=100), amounts(10, 10, disk=100), True),
        # Of cpu, memory and ephemeral storage what is not named is not allowed.
        (amounts(10), {"cpu": 3000}, amounts(10, 1), True),
        (amounts(10), {}, amounts(10), True),
        # Sums wrap at 64 bits, as in Go.
        (amounts(10, LARGEST), {"cpu": 3000, "memory": 5}, amounts(10, 1), False),
    ],
)
def test_over_max_with_more(
    used: Resources, most: Resources | None, more: Resources, expected: bool
) -> None:
    """Upstream: usedOverMaxWith."""
    assert using(used, {}, most).is_over_max_with("ns1", more) is expected


@pytest.mark.parametrize(
    ("used", "least", "expected"),
    [
        (amounts(4000, 200, 5), amounts(3000, 300, 5), True),
        (amounts(300, 100, 5), amounts(4000, 200, 5), False),
        (amounts(3900, 100, 5), None, True),
        (amounts(300, 100, 5), {"cpu": 4000, "memory": 200}, True),
        (amounts(300, 100, disk=100), amounts(4000, 200, disk=10), True),
        (amounts(), None, False),
    ],
)
def test_over_min(used: Resources, least: Resources | None, expected: bool) -> None:
    """Upstream: usedOverMin."""
    assert using(used, least).is_over_min("ns1") is expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (amounts(memory=500), False),
        (amounts(memory=501), True),
        (amounts(gpu=1), False),
        (amounts(gpu=2), True),
        ({"example.com/other": 1}, True),
    ],
)
def test_all_namespaces_together(more: Resources, expected: bool) -> None:
    """Upstream: aggregatedUsedOverMinWith. Pods without a quota do not count."""
    state = state_of(
        quota("ns1", amounts(0, 1000, 1)),
        quota("ns2", amounts(0, 1000)),
        records.PodAdded(pod=pod("a", "ns1", amounts(memory=1300), "node-a")),
        records.PodAdded(pod=pod("b", "ns2", amounts(memory=200), "node-a")),
        records.PodAdded(pod=pod("c", "ns3", amounts(memory=9000, gpu=3), "node-a")),
    )
    assert state.quotas.usage().is_over_all_with(more) is expected


def test_use_follows_pods() -> None:
    """Those on nodes, also on one that is not known, and no others."""
    state = state_of(quota("ns1", amounts(1000, 1000)))
    assert state.quotas.used("ns1") == {}
    for name, node in (("a", "node-a"), ("b", "elsewhere"), ("c", "")):
        state.apply(records.PodAdded(pod=pod(name, "ns1", amounts(10, 50, 1), node)), 0)
    assert state.quotas.used("ns1") == {"cpu": 20, "memory": 100, GPU: 2}
    state.apply(records.NodeDeleted(name="node-a"), 0)
    assert state.quotas.used("ns1") == {"cpu": 20, "memory": 100, GPU: 2}
    state.apply(records.PodUpdated(pod=pod("c", "ns1", amounts(10, 50, 1), "node-b")), 0)
    state.apply(records.PodUpdated(pod=pod("a", "ns1", amounts(5, 50), "node-a")), 0)
    assert state.quotas.used("ns1") == {"cpu": 25, "memory": 150, GPU: 2}
    for name in "abc":
        state.apply(records.PodDeleted(uid=name), 0)
    assert state.quotas.used("ns1") == {}


def test_pods_that_were_there_before_their_quota_count() -> None:
    """Otherwise than upstream, until it is restarted."""
    bound = records.PodAdded(pod=pod("a", "ns1", amounts(10, 50), "node-a"))
    state = state_of(bound, quota("ns1", amounts(1000, 1000)))
    assert state.quotas.used("ns1") == {"cpu": 10, "memory": 50}


def test_quotas_change_and_go() -> None:
    """Of two in a namespace the one whose name is first counts."""
    state = state_of(quota("ns1", {"cpu": 10}, name="b"), quota("ns2", {"cpu": 7}))
    assert state.quotas.total == ({}, {"cpu": 17})
    state.apply(quota("ns1", {"cpu": 20}, name="a"), 0)
    state.apply(quota("ns1", {"cpu": 30}, name="b"), 0)
    assert state.quotas.total == ({}, {"cpu": 27})
    state.apply(records.ObjectDeleted(type="ElasticQuota", namespace="ns1", name="a"), 0)
    assert state.quotas.total == ({}, {"cpu": 37})
    state.apply(records.ObjectDeleted(type="ElasticQuota", namespace="ns2", name="team"), 0)
    assert state.quotas.of("ns2") is None


def test_a_snapshot_has_the_same_use() -> None:
    """It is counted again from the pods."""
    bound = records.PodAdded(pod=pod("a", "ns1", amounts(10, 50), "node-a"))
    state, again = state_of(quota("ns1", {"cpu": 5}), bound), SchedulerState()
    restore(again, encode(state))
    assert again.quotas.used("ns1") == state.quotas.used("ns1") == {"cpu": 10, "memory": 50}
    assert again.quotas.total == state.quotas.total
    assert again.digest() == state.digest()


def test_what_a_pod_counts_with() -> None:
    """The containers together or the largest init container, in each resource; overhead on top.
    Sidecars are init containers like others, and only resources that nodes count are."""
    spec = PodSpec(
        containers=(
            Container(requests={"cpu": 2000, "memory": 1}),
            Container(requests={"cpu": 1000, "memory": 1, "pods": 1, GPU: 2}),
        ),
        init_containers=(
            Container(requests={"cpu": 2000, "memory": 1}),
            Container(requests={"cpu": 2000, "memory": 3}, restarts=True),
        ),
        overhead={"cpu": 10},
        requests={"cpu": 9000},
    )
    assert request(spec) == {"cpu": 3010, "memory": 3, GPU: 2}
