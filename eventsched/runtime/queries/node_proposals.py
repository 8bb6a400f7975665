"""Which nodes to add so that pods fit that do not fit now: as few as possible, of the shapes that
the cluster has or could have. Each proposal is tried: with it all pods fit, and with one node less
of any shape they do not. Other pods that wait take part, as they would: they were there before."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import msgspec

from eventsched.domain.objects import Node, Pod, Taint
from eventsched.runtime.queries.trial_run import TrialRun

HOSTNAME = "kubernetes.io/hostname"
_PLACES = frozenset((
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
))  # fmt: skip
"""Labels that say where a node is, not what it is. They make shapes of their own, because a pod may
ask for a zone, but people count nodes of all zones."""
_OF_A_MOMENT = "node.kubernetes.io/"
"""Prefix of the taints that say how a node is doing: a new node does well."""
_MOST_SHAPES = 6
"""Shapes that are tried one by one: those with the labels that pods ask for first, then the most
common. If none of them helps, all others are tried at once."""
_MOST_NODES_AT_ONCE = 2_000
"""Nodes of all these shapes together, unless there are more shapes: enough for each alone, so that
no large pod group is taken for hopeless."""

_Label = tuple[str, str]

TryNodes = Callable[[Sequence[Node]], TrialRun]
"""Tries the pods with more nodes."""


@dataclass(frozen=True)
class NodeShape:
    """Nodes that are alike except for their names. ``example`` is one of them, ``count`` their
    number, 0 for nodes that the cluster does not have; ``count_anywhere`` includes those that are
    alike in other zones and regions."""

    example: str
    node: Node
    count: int
    count_anywhere: int


@dataclass(frozen=True)
class NodesToAdd:
    """A number of nodes of a shape."""

    shape: NodeShape
    number: int


@dataclass(frozen=True)
class NodeProposal:
    """Nodes to add, so that all pods have a node except for those in ``hopeless``, for which no
    shape helps (full names). ``missing_labels`` are labels of their nodeSelectors, as
    ``KEY=VALUE``, that no shape has, whether it was tried or not. ``others_placed``: how many
    fewer other pods wait with these nodes, which have to have room for them, too."""

    nodes: tuple[NodesToAdd, ...]
    hopeless: tuple[str, ...]
    missing_labels: tuple[str, ...] = ()
    others_placed: int = 0


def shapes_of(nodes: Sequence[Node]) -> list[NodeShape]:
    """The shapes of a cluster's nodes, the most common ones first. A label whose values are all
    different identifies nodes; shapes leave it out."""
    values: dict[str, Counter[str]] = {}
    for node in nodes:
        for key, value in node.labels.items():
            values.setdefault(key, Counter())[value] += 1
    identifying = {
        key for key, counts in values.items()
        if key == HOSTNAME or (len(counts) > 1 and max(counts.values()) == 1)
    }  # fmt: skip
    groups: dict[bytes, list[Node]] = {}
    anywhere: Counter[bytes] = Counter()
    kind_of: dict[bytes, bytes] = {}
    for node in nodes:
        shape = msgspec.structs.replace(
            node, name="", uid="", annotations={}, images=(), unschedulable=False,
            labels={k: v for k, v in sorted(node.labels.items()) if k not in identifying},
            taints=lasting(node.taints),
        )  # fmt: skip
        alike = msgspec.json.encode(shape, order="sorted")
        groups.setdefault(alike, []).append(node)
        if alike not in kind_of:
            labels = {k: v for k, v in shape.labels.items() if k not in _PLACES}
            kind = msgspec.structs.replace(shape, labels=labels)
            kind_of[alike] = msgspec.json.encode(kind, order="sorted")
        anywhere[kind_of[alike]] += 1
    found = [
        NodeShape(group[0].name, group[0], len(group), anywhere[kind_of[alike]])
        for alike, group in groups.items()
    ]
    return sorted(found, key=lambda shape: -shape.count)


def lasting(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints that a new node of the same kind would have, too."""
    return tuple(taint for taint in taints if not taint.key.startswith(_OF_A_MOMENT))


def new_node(shape: NodeShape, number: int) -> Node:
    """A further node of a shape, ready for pods."""
    node = shape.node
    name = f"{node.name}-more-{number}"
    changed: Mapping[str, Any] = {
        "name": name,
        "uid": "",
        "labels": {
            key: name if value == node.name else value for key, value in node.labels.items()
        },
        "taints": lasting(node.taints),
        "unschedulable": False,
        "images": (),
    }
    return msgspec.structs.replace(node, **changed)


def propose_nodes(
    run: TrialRun, nodes: Sequence[Node], try_nodes: TryNodes, templates: Sequence[Node] = ()
) -> NodeProposal:
    """The nodes to add for the pods that are pending after a run on a cluster with ``nodes``.
    ``templates`` are nodes that the cluster could have, with other names than those."""
    shapes = [NodeShape(node.name, node, 0, 0) for node in templates]
    asked = _labels_asked_for(tried.pod for tried in run.pending)
    likely, first = _likely_shapes(nodes, asked), max(_MOST_SHAPES - len(shapes), 0)
    search = _Search(try_nodes, shapes + likely[:first], max(run.waiting, 1), likely[first:])
    hopeless: dict[str, str] = {}
    pending = _pending(run)
    while rest := {uid: name for uid, name in pending.items() if uid not in hopeless}:
        best = search.best(rest.keys())
        if best is None:
            if search.widen(rest.keys()):
                continue
            hopeless |= rest
            break
        search.chosen[best.shape.example] = best
        pending = search.pending(search.chosen.values())
    search.reduce(frozenset(hopeless))
    asked = _labels_asked_for(tried.pod for tried in run.pending if tried.pod.uid in hopeless)
    missing = _missing_labels(asked, (*templates, *nodes))
    chosen = tuple(search.chosen.values())
    return NodeProposal(chosen, tuple(hopeless.values()), missing, search.others_placed(run))


def _labels_asked_for(pods: Iterable[Pod]) -> set[_Label]:
    """Those of the pods' nodeSelectors."""
    return {label for pod in pods for label in pod.spec.node_selector.items()}


def _likely_shapes(nodes: Sequence[Node], asked: Set[_Label]) -> list[NodeShape]:
    """The shapes of nodes, those with the most of the labels that are asked for first. The example
    of each has as many of them as a node of the shape can have."""

    def lacks(node: Node) -> int:
        return -len(asked & node.labels.items())

    return sorted(shapes_of(sorted(nodes, key=lacks)), key=lambda shape: lacks(shape.node))


def _missing_labels(asked: Set[_Label], nodes: Iterable[Node]) -> tuple[str, ...]:
    """The labels that no further node like one of ``nodes`` would have, as ``KEY=VALUE``. If a
    label is the node's name, a further node has its own (``new_node``)."""
    offered = {label for node in nodes for label in node.labels.items() if label[1] != node.name}
    return tuple(f"{key}={value}" for key, value in sorted(asked - offered))


def _pending(run: TrialRun) -> dict[str, str]:
    return {tried.pod.uid: tried.pod.full_name for tried in run.pending}


class _Search:
    """The nodes chosen so far, by the example of their shape."""

    def __init__(
        self, try_nodes: TryNodes, shapes: Sequence[NodeShape], most: int,
        others: Sequence[NodeShape],
    ) -> None:  # fmt: skip
        """``most`` is the number of nodes of a shape that are enough if any are. ``others`` are
        tried if ``shapes`` do not help."""
        self._try, self._shapes, self._most = try_nodes, shapes, most
        self._others = others
        self.chosen: dict[str, NodesToAdd] = {}
        self._known: dict[tuple[tuple[str, int], ...], dict[str, str]] = {}
        """What was found so far (``pending``), for one search: some dozens of runs."""

    def run(self, chosen: Iterable[NodesToAdd]) -> TrialRun:
        """A run with these nodes more."""
        return self._try(
            [new_node(each.shape, number) for each in chosen for number in range(each.number)]
        )

    def pending(self, chosen: Iterable[NodesToAdd]) -> dict[str, str]:
        """Uid → name of the pods that have no node with these nodes more. Tried once."""
        chosen = tuple(chosen)
        key = tuple((each.shape.example, each.number) for each in chosen)
        if key not in self._known:
            self._known[key] = _pending(self.run(chosen))
        return self._known[key]

    def widen(self, rest: Iterable[str]) -> bool:
        """Tries nodes of all other shapes at once, and goes on with the shapes that took a pod of
        those that are left. Returns False if there are none."""
        others, self._others = self._others, ()
        if not others:
            return False
        number = max(1, min(self._most, _MOST_NODES_AT_ONCE // len(others)))
        run = self.run((*self.chosen.values(), *(NodesToAdd(each, number) for each in others)))
        uids = frozenset(rest)
        taken = {tried.node for tried in run.tried if tried.pod.uid in uids}
        self._shapes = [
            shape for shape in others
            if any(new_node(shape, each).name in taken for each in range(number))
        ]  # fmt: skip
        return bool(self._shapes)

    def best(self, rest: Iterable[str]) -> NodesToAdd | None:
        """The shape of which the fewest nodes place the most of the pods that are left, all if
        possible; None if none places any."""
        uids = frozenset(rest)
        best: NodesToAdd | None = None
        fewest_left = len(uids)
        for shape in self._shapes:
            if shape.example in self.chosen:
                continue
            left = len(self._left(shape, self._most, uids))
            if left > fewest_left or left == len(uids):
                continue
            if best is None or left < fewest_left:
                number: int | None = self._fewest(shape, uids, left)
            else:
                number = self._fewer(shape, uids, left, best.number)
            if number is not None:
                best, fewest_left = NodesToAdd(shape, number), left
        return best

    def _left(self, shape: NodeShape, number: int, uids: frozenset[str]) -> frozenset[str]:
        """The pods that have no node with a number of nodes of a shape more."""
        added = NodesToAdd(shape, number)
        return uids & self.pending((*self.chosen.values(), added)).keys()

    def _suffice(self, shape: NodeShape, number: int, uids: frozenset[str], left: int) -> bool:
        """Whether a number of nodes leaves at most ``left`` pods."""
        return number > 0 and len(self._left(shape, number, uids)) <= left

    def _fewest(self, shape: NodeShape, uids: frozenset[str], left: int) -> int:
        """The smallest number of nodes with which at most ``left`` pods are left."""
        low, high = 0, 1
        while high < self._most and not self._suffice(shape, high, uids, left):
            low, high = high, high * 2
        return self._between(shape, uids, left, low, min(high, self._most))

    def _fewer(self, shape: NodeShape, uids: frozenset[str], left: int, than: int) -> int | None:
        """The same if it is smaller than another number; else None, after one run."""
        if not self._suffice(shape, than - 1, uids, left):
            return None
        return self._between(shape, uids, left, 0, than - 1)

    def _between(
        self, shape: NodeShape, uids: frozenset[str], left: int, low: int, high: int
    ) -> int:
        """The smallest number, if ``low`` does not suffice and ``high`` does."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._suffice(shape, middle, uids, left):
                high = middle
            else:
                low = middle
        return high

    def others_placed(self, before: TrialRun) -> int:
        """How many fewer pods that are not tried wait with the chosen nodes than without. Which of
        equal pods these are is another matter in each run."""
        if not self.chosen or not before.waiting_besides:
            return 0
        after = self.run(self.chosen.values())
        return max(0, before.waiting_besides - after.waiting_besides)

    def reduce(self, hopeless: frozenset[str]) -> None:
        """Leaves out every node that is not needed: a later shape may have taken over its pods."""
        for example, added in list(self.chosen.items()):
            number = added.number
            while number:
                fewer = {**self.chosen, example: NodesToAdd(added.shape, number - 1)}
                if self.pending(fewer.values()).keys() - hopeless:
                    break
                number -= 1
            self.chosen[example] = NodesToAdd(added.shape, number)
        self.chosen = {example: each for example, each in self.chosen.items() if each.number}
