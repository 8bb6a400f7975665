"""RandomScore: each node gets 1 to 10 from a reproducible draw."""

import numpy as np

from eventsched.domain.draw import draw, mixed, name_hash
from eventsched.domain.objects import Node, Pod
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, NodeView

_COLUMN = "hash of the name"
_SCORES = 10


class RandomScore:
    """Score by a keyed hash of stream seed, pod, attempt and node (domain/draw.py): the same log
    gives the same scores; each attempt gives different ones."""

    name = "RandomScore"
    depends_on = DependsOn.NODE

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """int64[n]: 1..10, drawn for each pod and attempt."""
        names = nodes.integers(_COLUMN, _hash_of_name)
        key = draw(cycle.seed, pod.uid, cycle.attempt, self.name)
        drawn = mixed(key, names.view(np.uint64)) % np.uint64(_SCORES)
        return drawn.astype(np.int64) + 1


def _hash_of_name(node: Node) -> int:
    return name_hash(node.name)
