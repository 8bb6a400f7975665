"""tonodename-scoring-plugin: 80 for one named node and 20 for all others, scaled to 0..100."""

from collections.abc import Hashable, Iterator
from typing import Literal

import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, NodeView, Normalization

NAMED, OTHERS = 80, 20

_SCALES = {"minmax": Normalization.MIN_MAX, "default": Normalization.DEFAULT}


class ToNodeNameScoringArgs(Arguments, frozen=True):
    """``normalization``: ``minmax`` makes it 100 and 0, ``default`` (the largest becomes 100) 100
    and 25. Where the named node cannot take the pod all are alike: 0, or 100."""

    node_name: str = "piworknode001"
    normalization: Literal["minmax", "default"] = "minmax"

    def problems(self) -> Iterator[InputError]:
        """An empty name."""
        if not self.node_name:
            yield InputError("nodeName", "is empty", "name the node that is preferred")


class ToNodeNameScoring:
    """Score by the node's name."""

    name = "tonodename-scoring-plugin"
    depends_on = DependsOn.NODE
    Args = ToNodeNameScoringArgs

    def __init__(self, args: ToNodeNameScoringArgs | None = None) -> None:
        given = args or ToNodeNameScoringArgs()
        self.names_node = given.node_name
        self.normalization = _SCALES[given.normalization]

    def sign(self, pod: Pod) -> Hashable:
        """Nothing of the pod matters."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """80 or 20."""
        return np.where(nodes.is_named(self.names_node), NAMED, OTHERS)
