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
    """``normalization``: with ``default`` (also if empty; the largest score becomes 100) nodes
    score 100 and 25, as in the original, which starts its minimum at 0; with ``minmax`` 100 and 0.
    If the pod does not fit on the named node, all others score the same: 100 or 0."""

    node_name: str = "piworknode001"
    normalization: str = ""

    def problems(self) -> Iterator[InputError]:
        """An empty name, or an unknown normalisation."""
        if not self.node_name:
            yield InputError("nodeName", "is empty", "name the preferred node")
        if self.normalization and self.normalization not in _SCALES:
            problem = f"{self.normalization!r} is not a normalisation"
            yield InputError("normalization", problem, "use one of default, minmax")


class ToNodeNameScoring:
    """Score by the node's name."""

    name = "tonodename-scoring-plugin"
    depends_on = DependsOn.NODE
    Args = ToNodeNameScoringArgs

    def __init__(self, args: ToNodeNameScoringArgs | None = None) -> None:
        args = args or ToNodeNameScoringArgs()
        self.names_node = args.node_name
        self._is_explicit = bool(args.normalization)
        self.normalization = _SCALES[args.normalization or "default"]

    def as_of(self, flags: Collection[int]) -> None:
        """Uses the normalisation of a stream with these behaviours."""
        if not self._is_explicit and Behaviour.TO_NODE_NAME_FROM_ZERO not in flags:
            self.normalization = Normalization.MIN_MAX

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """80 for the named node, 20 for all others."""
        return np.where(nodes.is_named(self.names_node), NAMED, OTHERS)
