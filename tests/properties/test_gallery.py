"""The gallery's columns against the plainest code for one node, while nodes come, change and go."""

from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.draw import draw, name_hash
from eventsched.domain.objects import Node, Pod
from eventsched.plugins.gallery.fixed_node import FixedNode, FixedNodeArgs
from eventsched.plugins.gallery.node_group import NodeGroup
from eventsched.plugins.gallery.node_hardware import Hardware, NodeHardware, NodeHardwareArgs
from eventsched.plugins.gallery.priority_label import PriorityLabel
from eventsched.plugins.gallery.random_score import RandomScore
from eventsched.plugins.gallery.to_node_name_scoring import (
    ToNodeNameScoring,
    ToNodeNameScoringArgs,
)
from tests.builders import added, engine_of, make_node, make_pod, observed
from tests.properties.strategies import deterministic

PRIORITY, GPU, NEEDS = "priority.lixueduan.com", "example.com/gpu", "hardware.eventsched.io/needs"
WORD = 2**64

GROUPS = st.sampled_from(["1", "2", ""])
LABELS = st.fixed_dictionaries(
    {},
    optional={
        "nodeGroup": GROUPS,
        PRIORITY: st.sampled_from(["0", "7", "40", "abc", "-1", ""]),
        "disk": st.sampled_from(["fast", "slow"]),
    },
)
NODES = st.builds(
    lambda name, labels, gpus: make_node(name, labels=labels, extra={GPU: gpus} if gpus else {}),
    st.sampled_from("abcde"), LABELS, st.integers(0, 3),
)  # fmt: skip
PODS = st.builds(
    lambda number, group, needs: make_pod(
        f"p{number}",
        labels={} if group is None else {"nodeGroup": group},
        annotations={} if needs is None else {NEEDS: needs},
    ),
    st.integers(0, 3), st.none() | GROUPS,
    st.none() | st.sampled_from(["disk", "disk=fast", "gpu=2", "gpu,disk=fast|slow"]),
)  # fmt: skip
STEPS = st.lists(st.one_of(NODES, st.sampled_from("abcde"), PODS), max_size=25)


def has(node: Node, need: str) -> bool:
    """Whether a node meets one need."""
    name, given, value = need.partition("=")
    if name == "gpu":
        return node.allocatable.get(GPU, 0) >= (int(value) if given else 1)
    found = node.labels.get(name)
    return found is not None if not given else found in value.split("|")


def passes(node: Node, pod: Pod) -> bool:
    """What the three filters say together."""
    group, needs = pod.labels.get("nodeGroup"), pod.annotations.get(NEEDS)
    number = node.labels.get(PRIORITY, "")
    return (
        (group is None or node.labels.get("nodeGroup") == group)
        and number.isdigit()
        and (needs is None or all(has(node, need) for need in needs.split(",")))
    )


def drawn(pod: Pod, node: Node) -> int:
    """RandomScore's number."""
    z = (name_hash(node.name) % WORD ^ draw("s", pod.uid, 1, "RandomScore")) + 0x9E3779B97F4A7C15
    z %= WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return (z ^ z >> 31) % 10 + 1


def totals(nodes: list[Node], pod: Pod) -> dict[str, int]:
    """The sum of the four scores of each node that passes."""
    left = [node for node in nodes if passes(node, pod)]
    largest = max((int(node.labels[PRIORITY]) for node in left), default=0)
    others = 25 if "b" in {node.name for node in left} else 100
    return {
        node.name: (100 if node.name == "a" else 0)
        + (100 if node.name == "b" else others)
        + drawn(pod, node)
        + (int(node.labels[PRIORITY]) * 100 // largest if largest else 0)
        for node in left
    }


@deterministic(100)
@given(STEPS)
def test_columns_are_what_each_node_would_be_told(steps: list[Node | Pod | str]) -> None:
    """Kept up to date from step to step."""
    hardware = NodeHardwareArgs(hardware=(Hardware(name="gpu", resource=GPU),))
    engine = engine_of(
        NodeGroup(), PriorityLabel(), NodeHardware(hardware), RandomScore(),
        FixedNode(FixedNodeArgs(node_name="a")),
        ToNodeNameScoring(ToNodeNameScoringArgs(node_name="b")),
    )  # fmt: skip
    observed(engine, records.StreamStarted(format=1, engine="t", seed="s"))
    there: dict[str, Node] = {}
    for step in steps:
        if isinstance(step, Node):
            observed(engine, *added(step))
            there[step.name] = step
        elif isinstance(step, str):
            observed(engine, records.NodeDeleted(name=step))
            there.pop(step, None)
        else:
            judged = engine.judge(step)
            names = engine.state.nodes.names
            rows = {row: int(total) for row, total in enumerate(judged.totals) if total >= 0}
            found = {names[row]: total for row, total in rows.items()}
            assert found == totals(list(there.values()), step)
