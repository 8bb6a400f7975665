"""tonodename-scoring-plugin: 80 for one named node and 20 for all others, scaled to 0..100."""

from collections.abc import Collection, Hashable, Iterator

import numpy as np

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, NodeView, Normalization

NAMED, OTHERS = 80, 20

_SCALES = {"minmax": Normalization.MIN_MAX, "default": Normalization.DEFAULT}


class ToNodeNameScoringArgs(Arguments, frozen=True):
    """``normalization``: ``default``, also if none is named (the largest becomes 100), makes it 100
    and 25, as the original does, whose smallest begins at 0; ``minmax`` 100 and 0. If the named
    node cannot take the pod all are alike: 100, or 0."""

    node_name: str = "piworknode001"
    normalization: str = ""

    def problems(self) -> Iterator[InputError]:
        """An empty name, and a scale that is none."""
        if not self.node_name:
            yield InputError("nodeName", "is empty", "name the node that is preferred")
        if self.normalization and self.normalization not in _SCALES:
            problem = f"{self.normalization!r} is no normalisation"
            yield InputError("normalization", problem, "use one of default, minmax")


class ToNodeNameScoring:
    """Score by the node's name."""

    name = "tonodename-scoring-plugin"
    depends_on = DependsOn.NODE
    Args = ToNodeNameScoringArgs

    def __init__(self, args: ToNodeNameScoringArgs | None = None) -> None:
        given = args or ToNodeNameScoringArgs()
        self.names_node = given.node_name
        self._is_named = bool(given.normalization)
        self.normalization = _SCALES[given.normalization or "default"]

    def as_of(self, flags: Collection[int]) -> None:
        """Decides as it did in a stream with these behaviours."""
        if not self._is_named and Behaviour.TO_NODE_NAME_FROM_ZERO not in flags:
            self.normalization = Normalization.MIN_MAX

    def sign(self, pod: Pod) -> Hashable:
        """Nothing of the pod matters."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """80 or 20."""
        return np.where(nodes.is_named(self.names_node), NAMED, OTHERS)
