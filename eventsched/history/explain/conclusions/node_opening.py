"""How nodes that keep a pod away are opened to it, in words of a next step."""

import shlex
from collections.abc import Sequence

from eventsched.history.closed_nodes import CONDITIONS, ClosedNodes
from eventsched.history.why_not.changes import shown_taint

LARGE_ENOUGH = "large enough when empty"
_STILL_WAITS = "so the pod still waits for room"
_GROUPS_NAMED = 2
"""Groups of closed nodes that a next step names."""


def opening_text(closed: Sequence[ClosedNodes], pod_name: str) -> str:
    """How these nodes are opened; "" for none."""
    if not closed:
        return ""
    named = closed[:_GROUPS_NAMED]
    known = [each.with_room for each in named if each.with_room is not None]
    with_room = sum(known) if len(known) == len(named) else None
    example = max(named, key=lambda each: each.with_room != 0).example
    room = room_text(sum(each.nodes for each in named), with_room, pod_name, example)
    return f"{' or '.join(map(_opened, named))}, if meant for such pods ({room})"


def repairs(closed: Sequence[ClosedNodes] | None) -> list[str]:
    """What to do about nodes whose taints say that something is wrong with them, and that no other
    taint dedicates to other pods."""
    steps = []
    for each in [each for each in closed or () if _is_repaired_for_the_pod(each)][:_GROUPS_NAMED]:
        verb, such_as = ("is", "") if each.nodes == 1 else ("are", f", such as {each.example}")
        nodes = f"node {each.example}" if each.nodes == 1 else f"one of {each.nodes} nodes"
        rest = each._replace(taints=tuple(t for t in each.taints if t.key not in CONDITIONS))
        more = f" and {_opened(rest._replace(nodes=1))}" if rest.taints or rest.is_cordoned else ""
        why = f"`kubectl describe node {shlex.quote(each.example)}` says why"
        state = " and ".join(each.conditions)
        steps.append(f"repair {nodes} that {verb} {state}{such_as}{more} ({LARGE_ENOUGH}; {why})")
    return steps


def _is_repaired_for_the_pod(closed: ClosedNodes) -> bool:
    is_dedicated = any(taint.key not in CONDITIONS for taint in closed.taints)
    return bool(closed.conditions) and (closed.is_asked_for or not is_dedicated)


def room_text(nodes: int, with_room: int | None, pod_name: str, example: str) -> str:
    """How many of the nodes have room for the pod now, and the command that proves what it takes
    to land on the ``example``. None: the command says whether there is room, too."""
    if with_room is None:
        says = "says whether there is room now, and what else it would take"
        return f"{LARGE_ENOUGH}; {why_not_command(pod_name, example)} {says}"
    return f"{_room_text(nodes, with_room)}; {proof_text(pod_name, example)}"


def _room_text(nodes: int, with_room: int) -> str:
    if nodes == 1:
        return "it has room now" if with_room else f"it is full now, {_STILL_WAITS}"
    if not with_room:
        return f"all are full now, {_STILL_WAITS}"
    if with_room == nodes:
        return "all have room now"
    return f"{with_room} of them {'has' if with_room == 1 else 'have'} room now"


def proof_text(pod_name: str, node: str) -> str:
    """What the command says that looks for changes with which the pod lands on the node."""
    return f"{why_not_command(pod_name, node)} says what else it would take"


def why_not_command(pod_name: str, node: str) -> str:
    """That command, quoted for a shell."""
    return f"`{shlex.join(['eventsched', 'explain', pod_name, '--why-not', node])}`"


def _opened(closed: ClosedNodes) -> str:
    taints = " and ".join(shown_taint(each.key, each.value, each.effect) for each in closed.taints)
    noun = "the taint" if len(closed.taints) == 1 else "the taints"
    nodes = counted_nodes(closed.nodes)
    if not closed.is_cordoned:
        return f"add a toleration for {noun} {taints} of {nodes}"
    uncordon = f"uncordon {nodes}" if closed.nodes == 1 else f"uncordon one of {nodes}"
    return f"{uncordon} and add a toleration for {noun} {taints}" if taints else uncordon


def closed_text(plugin: str) -> str:
    """That a plugin alone keeps a pod from nodes, while all open ones are too small."""
    return f"{plugin} alone refuses nodes that are large enough"


def counted_nodes(nodes: int) -> str:
    """A number of nodes."""
    return "1 node" if nodes == 1 else f"{nodes} nodes"
