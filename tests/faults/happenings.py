"""What happens outside the scheduler. Functions return whether it was possible."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from eventsched.domain.units import SECOND

from . import cluster

if TYPE_CHECKING:
    from .world import World

MOST_PODS = 14


def _one(world: "World", among: list[Any]) -> Any:
    return among[world.rng.randrange(len(among))] if among else None


def crash_one(world: "World") -> bool:
    """A process dies."""
    process = _one(world, list(world.processes.values()))
    if process is not None:
        world.crash(process)
    return process is not None


def start_one(world: "World") -> bool:
    """A process starts, maybe while another one runs."""
    name = world.rng.choice("AB")
    if name in world.processes:
        return False
    world.start(name)
    return True


def pause_one(world: "World") -> bool:
    """A process is stopped for up to ten seconds."""
    process = _one(world, list(world.processes.values()))
    if process is not None:
        process.paused_until = world.now + world.rng.randint(0, 10 * SECOND)
    return process is not None


def break_watch(world: "World") -> bool:
    """A watch of a process cannot be resumed."""
    process = _one(world, [p for p in world.processes.values() if p.watching])
    if process is not None:
        resource = world.rng.choice(world.api.resources)
        process.gaps.setdefault(resource, None)
    return process is not None


def change_namespace(world: "World") -> bool:
    """A namespace is created, deleted, opened or closed."""
    name = world.rng.choice(cluster.NAMESPACES)
    if name in world.api.namespaces and world.rng.random() < 0.3:
        world.api.delete_namespace(name)
    else:
        world.api.put_namespace(cluster.namespace(name, closed=world.rng.random() < 0.4))
    return True


def create_pods(world: "World") -> bool:
    """A pod is created, or a pair."""
    if len(world.api.pods) >= MOST_PODS:
        return False
    world.born += 1
    for pod in cluster.pod(world.rng, world.born):
        world.api.put_pod(pod)
    return True


def delete_pod(world: "World") -> bool:
    """A pod is deleted."""
    uid = _one(world, list(world.api.pods))
    if uid is not None:
        world.api.delete_pod(uid)
    return uid is not None


def change_pod(world: "World", matches: Callable[[Any], bool], **fields: Any) -> bool:
    """A pod that matches gets other values in some fields."""
    pod = _one(world, [seen.pod for seen in world.api.pods.values() if matches(seen.pod)])
    if pod is not None:
        world.api.put_pod(msgspec.structs.replace(pod, **fields))
    return pod is not None


def label_pod(world: "World") -> bool:
    """A label changes."""
    pod = _one(world, [seen.pod for seen in world.api.pods.values()])
    if pod is not None:
        labels = {**pod.labels, "seen": str(world.rng.randint(0, 3))}
        world.api.put_pod(msgspec.structs.replace(pod, labels=labels))
    return pod is not None


def foreign_bind(world: "World") -> bool:
    """Another scheduler binds one of our pods to any node."""
    pod = _one(world, [s.pod for s in world.api.pods.values() if not s.pod.node_name])
    if pod is None or not world.api.nodes or pod.gates or pod.deleting:
        return False
    world.api.place(pod.uid, world.rng.choice(sorted(world.api.nodes)))
    return True


def foreign_pod(world: "World") -> bool:
    """A foreign pod is placed."""
    if len(world.api.pods) >= MOST_PODS or not world.api.nodes:
        return False
    world.born += 1
    pod = cluster.foreign_pod(world.rng, world.born)
    world.api.put_pod(pod)
    world.api.place(pod.uid, world.rng.choice(sorted(world.api.nodes)))
    return True


def delete_node(world: "World") -> bool:
    """A node is deleted; its pods stay for now."""
    if len(world.api.nodes) < 2:
        return False
    world.api.delete_node(world.rng.choice(sorted(world.api.nodes)))
    return True


def add_node(world: "World") -> bool:
    """A deleted node is created again."""
    name = _one(world, [name for name in world.node_names if name not in world.api.nodes])
    if name is not None:
        world.api.put_node(cluster.node(name))
    return name is not None


def label_node(world: "World") -> bool:
    """A node changes in a way that does not matter to any pod."""
    seen = _one(world, list(world.api.nodes.values()))
    if seen is not None:
        labels = {"zone": world.rng.choice("ab")}
        world.api.put_node(msgspec.structs.replace(seen.node, labels=labels))
    return seen is not None


def fail_over(world: "World") -> bool:
    """The database fails over to a replica without the last one to three batches."""
    if len(world.database.batches) < 4:
        return False
    world.database.fail_over(world.rng.randint(1, 3))
    world.auditor.history_changed()
    return True


ACTIONS: dict[str, Callable[["World"], bool]] = {
    "crash": crash_one,
    "start": start_one,
    "pause": pause_one,
    "break watch": break_watch,
    "create pods": create_pods,
    "delete pod": delete_pod,
    "mark pod deleting": lambda w: change_pod(w, lambda pod: not pod.deleting, deleting=True),
    "label pod": label_pod,
    "open gate": lambda w: change_pod(w, lambda pod: pod.gates, gates=()),
    "foreign bind": foreign_bind,
    "foreign pod": foreign_pod,
    "delete node": delete_node,
    "add node": add_node,
    "label node": label_node,
    "change namespace": change_namespace,
    "fail over": fail_over,
}
