"""Strategies: small clusters and pods that collide as often as possible.

Values come from small pools, with zeros, strangers (resources and labels that no node has) and
malformed expressions among them. Settings are the same for every suite: derandomized, so that a
run in CI is the same run every time.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from eventsched.domain.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Container,
    HostPort,
    Image,
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredTerm,
    Requirement,
    Taint,
    Toleration,
)

MIB = 1024 * 1024
GPU, FPGA = "example.com/gpu", "vendor.io/fpga"
HUGE = "hugepages-2Mi"


def deterministic(examples: int, **more: object) -> settings:
    """Hypothesis settings of these suites. Clusters are large values, slow to draw."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        **more,  # type: ignore[arg-type]
    )


cpus = st.sampled_from([0, 1, 50, 99, 100, 101, 333, 500, 1000, 2000])
memories = st.sampled_from([0, 1, 100 * MIB, 200 * MIB, 333_333_333, 1024 * MIB])
small = st.integers(0, 3)

requests = st.fixed_dictionaries(
    {},
    optional={
        CPU: cpus,
        MEMORY: memories,
        EPHEMERAL_STORAGE: st.sampled_from([0, 10, 2**30]),
        GPU: small,
        FPGA: small,
        HUGE: small,
    },
)
pod_level = st.none() | st.fixed_dictionaries(
    {}, optional={CPU: cpus, MEMORY: memories, HUGE: small, GPU: small}
)
allocatable = st.fixed_dictionaries(
    {},
    optional={
        CPU: st.sampled_from([0, 1, 100, 999, 2000, 4000]),
        MEMORY: st.sampled_from([0, 1, 300 * MIB, 1024 * MIB, 4096 * MIB + 1]),
        PODS: st.sampled_from([0, 1, 2, 5, 110]),
        EPHEMERAL_STORAGE: st.sampled_from([0, 11, 2**31]),
        GPU: st.integers(0, 6),
        FPGA: st.integers(0, 6),
        HUGE: st.integers(0, 6),
        "example.com.unknown": st.just(3),
    },
)

KEYS = ["zone", "disk", "gen"]
VALUES = ["", "a", "b", "1", "2", "007", "1.5", str(2**63), str(2**63 - 1)]
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=3)
NODE_NAMES = [f"n{index}" for index in range(8)]

taints = st.lists(
    st.builds(
        Taint,
        key=st.sampled_from(["k1", "k2", "node.kubernetes.io/unschedulable"]),
        value=st.sampled_from(["", "v", "w"]),
        effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ),
    max_size=3,
).map(tuple)
tolerations = st.lists(
    st.builds(
        Toleration,
        key=st.sampled_from(["", "k1", "k2", "node.kubernetes.io/unschedulable"]),
        operator=st.sampled_from(["", "Equal", "Exists", "Gt", "Lt"]),
        value=st.sampled_from(["", "v", "w"]),
        effect=st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"]),
    ),
    max_size=3,
).map(tuple)

values = st.lists(st.sampled_from(VALUES), max_size=3, unique=True).map(tuple)
one_value = st.sampled_from(VALUES).map(lambda value: (value,))
well_formed = st.one_of(
    st.builds(
        Requirement,
        key=st.sampled_from([*KEYS, "absent"]),
        operator=st.sampled_from(["In", "NotIn"]),
        values=values.filter(bool),
    ),
    st.builds(
        Requirement,
        key=st.sampled_from([*KEYS, "absent"]),
        operator=st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        Requirement,
        key=st.sampled_from(KEYS),
        operator=st.sampled_from(["Gt", "Lt"]),
        values=st.sampled_from([("1",), ("2",), ("007",), (str(2**63 - 1),)]),
    ),
)
malformed = st.builds(
    Requirement,
    key=st.sampled_from(KEYS),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"]),
    values=values,
)
fields = st.builds(
    Requirement,
    key=st.sampled_from(["metadata.name", "metadata.name", "metadata.uid"]),
    operator=st.sampled_from(["In", "In", "NotIn"]),
    values=st.sampled_from([*NODE_NAMES[:3], "absent", ""]).map(lambda name: (name,)),
)
wrong_fields = st.builds(
    Requirement,
    key=st.just("metadata.name"),
    operator=st.sampled_from(["In", "NotIn", "Exists", "Gt"]),
    values=st.lists(st.sampled_from(NODE_NAMES[:3]), max_size=2, unique=True).map(tuple),
)


def terms(expression: st.SearchStrategy, field: st.SearchStrategy) -> st.SearchStrategy:
    """Node selector terms of such parts; empty ones among them."""
    return st.builds(
        NodeSelectorTerm,
        expressions=st.lists(expression, max_size=2).map(tuple),
        fields=st.one_of(st.just(()), st.lists(field, max_size=2).map(tuple)),
    )


good_terms = terms(well_formed, fields)
any_terms = terms(well_formed | malformed, fields | wrong_fields)
preferred_terms = st.lists(
    st.builds(PreferredTerm, weight=st.sampled_from([1, 3, 50, 100]), term=good_terms), max_size=3
).map(tuple)
required_terms = st.none() | st.lists(any_terms, max_size=3).map(tuple)

IMAGES = ["app", "app:v1", "reg.io:5000/app", "reg.io:5000/app:v2", "app@sha256:0a", "big:latest"]
image_names = st.sampled_from(IMAGES)
HELD = ["app:latest", "app:v1", "reg.io:5000/app:latest", "reg.io:5000/app:v2", "big:latest"]


@st.composite
def node_images(draw: st.DrawFn) -> tuple[Image, ...]:
    """What a node holds: each name once."""
    names = draw(st.lists(st.sampled_from(HELD), max_size=4, unique=True))
    sizes = [draw(st.sampled_from([0, 1, 24, 333, 999, 2000])) * MIB + 7 for _ in names]
    held = [Image(names=(name,), size=size) for name, size in zip(names, sizes, strict=True)]
    if len(held) > 1 and draw(st.booleans()):
        held[:2] = [Image(names=(names[0], names[1]), size=sizes[0])]
    return tuple(held)


ports = st.builds(
    HostPort,
    port=st.sampled_from([80, 81]),
    protocol=st.sampled_from(["TCP", "UDP"]),
    ip=st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
)
few_ports = st.one_of(st.just(()), st.lists(ports, max_size=2).map(tuple))
containers = st.builds(Container, image=image_names, requests=requests, ports=few_ports)
init_containers = st.builds(
    Container, image=image_names, requests=requests, ports=few_ports, restarts=st.booleans()
)
specs = st.builds(
    PodSpec,
    containers=st.lists(containers, min_size=1, max_size=3).map(tuple),
    init_containers=st.lists(init_containers, max_size=3).map(tuple),
    overhead=st.one_of(st.just({}), requests),
    requests=pod_level,
    node_selector=st.one_of(st.just({}), st.dictionaries(
        st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1)),
    required_node_terms=required_terms,
    preferred_node_terms=preferred_terms,
    tolerations=tolerations,
    image_volumes=st.one_of(st.just(()), image_names.map(lambda name: (name,))),
)  # fmt: skip
simple_specs = st.builds(
    PodSpec,
    containers=st.lists(
        st.builds(Container, image=image_names, requests=requests, ports=few_ports),
        min_size=1,
        max_size=2,
    ).map(tuple),
    tolerations=tolerations,
)
"""Pods that are easily placed: for loads on nodes, where selectors say nothing."""


def nodes(name: str) -> st.SearchStrategy[Node]:
    """A node of that name."""
    return st.builds(
        Node,
        name=st.just(name),
        labels=labels,
        taints=taints,
        unschedulable=st.sampled_from([False, False, True]),
        allocatable=allocatable,
        images=node_images(),
    )


@st.composite
def roomy_nodes(draw: st.DrawFn, name: str) -> Node:
    """A node on which most pods fit for a while."""
    return Node(
        name=name,
        labels={**draw(labels), "zone": draw(st.sampled_from(["a", "b"]))},
        taints=draw(st.one_of(st.just(()), taints)),
        unschedulable=draw(st.sampled_from([False, False, False, True])),
        allocatable={
            CPU: draw(st.sampled_from([500, 1000, 4000])),
            MEMORY: draw(st.sampled_from([512, 2048, 8192])) * MIB,
            PODS: draw(st.sampled_from([2, 5, 110])),
            **draw(st.sampled_from([{}, {}, {GPU: 2}, {EPHEMERAL_STORAGE: 2**31}])),
        },
        images=draw(node_images()),
    )


def pods(uid: str, spec: st.SearchStrategy[PodSpec], **more: Any) -> st.SearchStrategy[Pod]:
    """A pod of such a spec."""
    return st.builds(lambda found: Pod(uid=uid, name=uid, spec=found, **more), spec)
