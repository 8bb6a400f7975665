"""A state as values of JSON: what the scheduler believed of nodes, pods and queues."""

from collections import Counter
from operator import attrgetter
from typing import Any

from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.domain.objects import pod_requests
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState

Document = dict[str, Any]

BOUND, BINDING, AT_PERMIT, PREPARING = "bound", "binding", "waiting at Permit", "preparing the bind"
NOT_SCHEDULED_HERE = "not scheduled here"
"""The pod has no node, and is in no queue: another scheduler's, or being deleted."""


def standing(state: SchedulerState, pod_state: PodState) -> str:
    """Where a pod is: in which queue, on its way to a node, or on it."""
    if pod_state.bound:
        return BOUND
    reservation = state.reservations.get(pod_state.pod.uid)
    if reservation is not None:
        if reservation.waits:
            return AT_PERMIT
        return PREPARING if reservation.preparing else BINDING
    return NOT_SCHEDULED_HERE if pod_state.queue is None else str(pod_state.queue)


def state_document(state: SchedulerState, *, whole: bool = True) -> Document:
    """The state: numbers, and if it is to be ``whole`` every node and every pod."""
    counts = Counter(standing(state, pod_state) for pod_state in state.pods.values())
    document: Document = {
        "position": state.position,
        "now": state.now,
        "nodes": state.nodes.live,
        "pods": len(state.pods),
        "pods_by_state": dict(sorted(counts.items())),
        "resources": resources_document(state),
        "objects": dict(
            sorted(Counter(type(obj).__name__ for obj in state.registry.everything()).items())
        ),
    }
    if whole:
        document["nodes"] = [
            node_document(state, row) for row in range(state.nodes.size) if state.nodes.alive[row]
        ]
        document["pods"] = [pod_document(state, pod_state) for pod_state in pods_in_order(state)]
    return document


def pods_in_order(state: SchedulerState) -> list[PodState]:
    """The pods in the order in which they came. A state that was made from a snapshot has those
    with a reservation first, so its own order depends on where the snapshots are."""
    return sorted(state.pods.values(), key=attrgetter("number"))


def resources_document(state: SchedulerState) -> dict[str, Document]:
    """How much of each resource all nodes offer, and how much is requested of it (millicores, bytes
    and counts)."""
    allocatable, requested = state.nodes.totals
    return {
        name: {"allocatable": int(allocatable[index]), "requested": int(requested[index])}
        for name, index in state.nodes.resource_index.items()
    }


def node_document(state: SchedulerState, row: int) -> Document:
    """The node of a row: what it offers, and what the pods on it request."""
    node = state.nodes.nodes[row]
    assert node is not None
    books = state.nodes.books[row]
    return {
        "name": node.name,
        "unschedulable": node.unschedulable,
        "taints": [f"{taint.key}={taint.value}:{taint.effect}" for taint in node.taints],
        "labels": dict(node.labels),
        "allocatable": dict(node.allocatable),
        "requested": {
            name: int(books[1][index])
            for name, index in state.nodes.resource_index.items()
            if name in node.allocatable
        },
        "pods": [pod.full_name for pod in state.nodes.residents[row].values()],
        "nominated": [pod.full_name for pod in state.preemptions.on(node.name).values()],
    }


def pod_document(state: SchedulerState, pod_state: PodState) -> Document:
    """A pod: where it is, what it requests (millicores, bytes and counts), and what keeps it."""
    pod, uid = pod_state.pod, pod_state.pod.uid
    reservation = state.reservations.get(uid)
    document: Document = {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": uid,
        "state": standing(state, pod_state),
        "node": pod_state.booked_node,
        "nominated_node": state.preemptions.node(uid),
        "priority": pod.priority,
        "requests": {
            name: amount for name, amount in pod_requests.of(pod.spec).effective.items() if amount
        },
        "scheduler_name": pod.scheduler_name,
        "attempts": pod_state.attempts,
        "failures": pod_state.failures,
        "errors": pod_state.errors,
        "deleting": pod.deleting,
    }
    if pod_state.queue is not None:
        document |= {
            "since": pod_state.entered,
            "rejected_by": list(pod_state.rejectors),
            "backoff_until": pod_state.until,
            "gates": list(pod.gates),
        }
    if reservation is not None and reservation.waiting:
        document["waits_for"] = {**reservation.waits, **reservation.preparing}
    if uid in state.preemptions.evicting:
        document["evicted_for"] = preemptor_of(state, uid)
    return document


def preemptor_of(state: SchedulerState, uid: str) -> str:
    """The pod that an eviction under way makes room for."""
    preemptor = state.pods.get(state.preemptions.evicting[uid].preemptor)
    return "" if preemptor is None else preemptor.pod.full_name


def row_of(state: SchedulerState, name: str) -> int:
    """The row of a node. Raises InputError with similar names if there is none."""
    row = state.nodes.rows.get(name)
    if row is None:
        remedy = near_names.offer(name, state.nodes.rows) or "name a later position"
        raise InputError(f"--node {name}", "was not there at that position", remedy)
    return row
