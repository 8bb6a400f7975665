"""A state as Kubernetes objects, which ``simulate --manifests`` and ``evaluate`` read.

A pod whose bind is decided is written as on its node, as the scheduler counts it; a nomination is
that of the scheduler. Nodes are in the order of their rows, pods on nodes in the order in which
they came there, waiting ones in the order in which they were added.
"""

from collections.abc import Iterator

import msgspec

from eventsched.cluster.sources.sample_manifests import sample_manifest
from eventsched.cluster.translate.written_manifests import Written, node_manifest, pod_manifest
from eventsched.cluster.translate.written_objects import object_manifest
from eventsched.domain.objects import Node, Pod
from eventsched.domain.state.scheduler_state import SchedulerState


def state_manifests(state: SchedulerState) -> Iterator[Written]:
    """The objects, nodes, samples and pods of a state."""
    yield from map(object_manifest, state.registry.everything())
    yield from map(node_manifest, nodes_of(state))
    yield from map(sample_manifest, state.nodes.samples.held())
    yield from map(pod_manifest, pods_of(state))


def nodes_of(state: SchedulerState) -> list[Node]:
    """The nodes, in the order of their rows."""
    return [node for node in state.nodes.nodes if node is not None]


def pods_of(state: SchedulerState) -> list[Pod]:
    """The pods as the scheduler counts them: first those on a node, or on their way to one."""
    placed = sorted(
        (pod_state for pod_state in state.pods.values() if pod_state.booked_node),
        key=lambda pod_state: pod_state.booking_order,
    )
    waiting = sorted(
        (pod_state for pod_state in state.pods.values() if not pod_state.booked_node),
        key=lambda pod_state: pod_state.number,
    )
    return [
        msgspec.structs.replace(
            pod_state.pod,
            node_name=pod_state.booked_node,
            nominated_node=state.preemptions.node(pod_state.pod.uid),
        )
        for pod_state in (*placed, *waiting)
    ]
