"""What a shadow finds when the scheduler that it follows has placed a pod."""

from enum import StrEnum

from eventsched.domain.records.record import Event


class PlacementMatch(StrEnum):
    """How a shadow's decision and the cluster's placement of a pod compare. The values are
    stored."""

    SAME = "same"
    """Both chose the same node."""
    DIFFERENT = "different"
    """Both found a node, but not the same one."""
    ONLY_THERE = "only_there"
    """The other scheduler bound the pod; the last attempt here found no node."""
    ONLY_HERE = "only_here"
    """A node was chosen here; the pod was deleted before the other scheduler bound it."""
    UNDECIDED = "undecided"
    """The other scheduler bound the pod before it was decided here."""


class PlacementCompared(Event, frozen=True, tag=True):
    """A shadow's decision, compared with what happens to the pod. From here on the pod is on
    ``node``, and a node chosen here is no longer reserved.

    - ``node``: where the other scheduler bound the pod; "" if the pod is gone.
    - ``chosen``: the node that attempt number ``attempt`` chose here; "" for none.
    - ``feasible``: whether ``node`` passes the filters here, at the time of this record, without
      the pod itself; otherwise ``plugin`` refuses it, for ``reasons``.
    - ``score`` and ``chosen_score``: the totals of ``node`` and ``chosen`` at that time; 0 for a
      node that is not feasible. The total at the time of the attempt is in its ``PodDecided``.

    Only ``different`` and ``only_there`` judge the nodes.
    """

    uid: str
    outcome: PlacementMatch
    node: str = ""
    chosen: str = ""
    attempt: int = 0
    feasible: bool = False
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    score: int = 0
    chosen_score: int = 0
