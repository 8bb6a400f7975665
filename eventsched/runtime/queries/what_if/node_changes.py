"""Nodes that are added to history, or left out of it: ``+20xTEMPLATE|-NAME``."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node
from eventsched.runtime.queries.node_proposals import NodeShape, new_node

MOST_NODES = 100_000
"""The most nodes that may be added."""
_OPTION = "--nodes"
_ADDED = re.compile(r"\+(?:(\d+)x)?(.+)")


class NodeChanges(NamedTuple):
    """``added`` are numbers of nodes by the name of the node that they are like, or by the file
    that describes it, which is in ``described`` then; ``removed`` are names."""

    added: tuple[tuple[int, str], ...] = ()
    removed: frozenset[str] = frozenset()
    described: tuple[tuple[str, Node], ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """The nodes of history that the changes name."""
        described = dict(self.described)
        return self.removed | {name for _, name in self.added if name not in described}

    def new_nodes(self, known: dict[str, Node], others: Collection[str] = ()) -> list[Node]:
        """The nodes to add. Raises InputError with similar names of ``others`` if ``known`` has not
        all nodes that are named."""
        for name in sorted(self.names - known.keys()):
            remedy = near_names.offer(name, others) or "name one that it has"
            raise InputError(_OPTION, f"history has no node {name} in that range", remedy)
        templates = {**known, **dict(self.described)}
        numbers: Counter[str] = Counter()
        nodes = []
        for number, name in self.added:
            shape = NodeShape(name, templates[name], 1, 1)
            begin = numbers[shape.node.name]
            nodes += [_fresh(new_node(shape, begin + index)) for index in range(number)]
            numbers[shape.node.name] += number
        return nodes


def parse_changes(texts: Iterable[str], read: Callable[[Path], Node] | None = None) -> NodeChanges:
    """Reads ``+NxTEMPLATE`` and ``-NAME``, several of them separated by ``|``. ``read`` reads the
    node that a file describes; without it, files are refused. Raises InputError."""
    added: list[tuple[int, str]] = []
    described: dict[str, Node] = {}
    removed: set[str] = set()
    for part in (part.strip() for text in texts for part in text.split("|")):
        match = _ADDED.fullmatch(part)
        if part.startswith("-") and len(part) > 1:
            removed.add(part[1:])
        elif match is not None:
            number = int(match[1] or 1)
            if not 1 <= number <= MOST_NODES:
                problem = f"{part!r} is not a number of nodes from 1 to {MOST_NODES}"
                raise InputError(_OPTION, problem, "write +20xNODE")
            added.append((number, match[2]))
            if _is_file(match[2]):
                if read is None:
                    problem = f"{part!r} names a file, and only the command reads files"
                    raise InputError(_OPTION, problem, "write +20xNODE with a node of history")
                described[match[2]] = read(Path(match[2]))
        else:
            raise InputError(
                _OPTION,
                f"{part!r} does not say which nodes",
                "write +20xNODE for 20 more like that node, and -NODE to leave one out",
            )
    if sum(number for number, _ in added) > MOST_NODES:
        raise InputError(_OPTION, f"adds more than {MOST_NODES} nodes", "add fewer")
    return NodeChanges(tuple(added), frozenset(removed), tuple(described.items()))


def _is_file(text: str) -> bool:
    return "/" in text or text.endswith((".yaml", ".yml", ".json"))


def _fresh(node: Node) -> Node:
    """The node without annotations, which are about one node."""
    return msgspec.structs.replace(node, annotations={})
