"""NodeHardware: pods that name hardware are kept off nodes without it."""

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.plugins.gallery.node_hardware import Hardware, NodeHardware, NodeHardwareArgs
from eventsched.scheduling.engine import Engine
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

KEY = "hardware.eventsched.io/needs"
MODEL, GPU = "nvidia.com/gpu.product", "nvidia.com/gpu"
ARGS = NodeHardwareArgs(
    hardware=(Hardware(name="gpu-model", label=MODEL), Hardware(name="gpu", resource=GPU))
)
NODES = [
    make_node("plain"),
    make_node("two-a100", labels={MODEL: "A100"}, extra={GPU: 2}),
    make_node("one-h100", labels={MODEL: "H100", "fast-disk": ""}, extra={GPU: 1}),
]


def pod(needs: str) -> Pod:
    """One that needs hardware."""
    return make_pod(annotations={KEY: needs})


def engine(*pods: Pod) -> Engine:
    """One with all nodes."""
    made = engine_of(NodeHardware(ARGS))
    observed(made, *added(*NODES, *pods))
    return made


@pytest.mark.parametrize(
    ("needs", "nodes"),
    [
        ("gpu-model=A100", {"two-a100"}),
        ("gpu-model=A100|H100", {"two-a100", "one-h100"}),
        ("gpu-model = A100 | H100 , gpu = 1", {"two-a100", "one-h100"}),
        ("gpu-model", {"two-a100", "one-h100"}),
        ("gpu", {"two-a100", "one-h100"}),
        ("gpu=2", {"two-a100"}),
        ("gpu=3", set()),
        ("fast-disk", {"one-h100"}),
        ("fast-disk=", {"one-h100"}),
        ("fast-disk=yes", set()),
        ("gpu=2,fast-disk", set()),
        ("", {"plain", "two-a100", "one-h100"}),
    ],
)
def test_what_pods_may_need(needs: str, nodes: set[str]) -> None:
    """Labels that are there or have a value, and resources."""
    judged = engine().judge(pod(needs))
    rows = [name for name, total in zip(engine().state.nodes.names, judged.totals, strict=True)
            if total >= 0]  # fmt: skip
    assert set(rows) == nodes


def test_the_first_need_that_is_not_met_is_the_reason() -> None:
    """In the order in which the pod names them."""
    made = engine(pod("gpu=2, fast-disk"))
    *_, decided, queued = attempted(made)
    told = "node(s) didn't have the hardware"
    message = f"0/3 nodes are available: 1 {told} fast-disk, 2 {told} gpu=2."
    assert decided == refused(message=message, evaluated=3, counts=((1, 1), (2, 2)))
    assert queued == parked("p1", "NodeHardware")


def test_a_pod_waits_for_a_node_with_all_of_it() -> None:
    """A node with half of it does not wake it, nor does a pod that changes elsewhere."""
    made = engine(pod("gpu=2, fast-disk"))
    attempted(made)
    half = added(make_node("half", extra={GPU: 4}))
    assert observed(made, *half, at=SECOND) == half
    whole = records.NodeUpdated(
        node=make_node("half", extra={GPU: 4}, labels={"fast-disk": "nvme"})
    )
    assert observed(made, whole, at=SECOND) == [whole, woken("NodeUpdateLabel", "NodeHardware")]
    assert attempted(made)[-1].node == "half"


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ("gpu=many", f"'gpu=many' asks for no number of {GPU}"),
        ("gpu=0", f"'gpu=0' asks for no number of {GPU}"),
        ("gpu=1e9", f"'gpu=1e9' asks for no number of {GPU}"),
        ("gpu,", "'' names no hardware; write name or name=value"),
        ("=A100", "'=A100' names no hardware; write name or name=value"),
        ("no such thing", "'no such thing' names no hardware; write name or name=value"),
    ],
)
def test_an_annotation_that_cannot_be_read(needs: str, told: str) -> None:
    """Only that pod waits, until it is fixed; others go on."""
    made = engine(pod(needs), make_pod("p2"))
    decided, queued = attempted(made)
    message = f"0/3 nodes are available: annotation {KEY}: {told}."
    counts = ((65533, 3),)
    assert decided == refused(message=message, evaluated=0, counts=counts, plugin="NodeHardware")
    assert queued == parked("p1", "NodeHardware", plugin="NodeHardware")
    assert attempted(made)[-1].uid == "p2"
    changed = added(make_node("another", extra={GPU: 9}))
    assert observed(made, *changed, at=SECOND) == changed
    mended = records.PodUpdated(pod=pod("gpu-model=A100"))
    assert observed(made, mended, at=SECOND) == [mended, woken("PodUpdate", "NodeHardware")]
    assert attempted(made)[-1] == scheduled(
        node="two-a100", row=1, attempt=2, evaluated=4, counts=((1, 3),)
    )
