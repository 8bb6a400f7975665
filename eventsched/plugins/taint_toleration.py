"""TaintToleration: NoSchedule and NoExecute taints refuse pods, PreferNoSchedule lowers the score.

Upstream: plugins/tainttoleration/taint_toleration.go.
"""

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Normalization,
    Status,
    signed_by_spec,
)
from eventsched.scheduling.rules.tolerations import (
    COLUMN,
    Taints,
    taints_of,
    tolerates,
    untolerated,
)


class TaintToleration:
    """Filter by hard taints; Score by the number of soft taints that are not tolerated."""

    name = "TaintToleration"
    depends_on = DependsOn.NODE
    normalization = Normalization.REVERSED
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_TAINT,
        ClusterEvent.POD_UPDATE,
    )

    sign = staticmethod(signed_by_spec)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 if a hard taint is not tolerated; computed once for each distinct set of taints."""
        return nodes.answer(COLUMN, taints_of, untolerated(pod.spec.tolerations))

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        return Status.unresolvable("node(s) had untolerated taint(s)")

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The number of soft taints that the pod does not tolerate."""
        soft = [t for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]

        def count(taints: Taints | None) -> int:
            return sum(
                taint.effect == "PreferNoSchedule" and not tolerates(soft, taint)
                for taint in taints or ()
            )

        return nodes.answer(COLUMN, taints_of, count)

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the pod tolerates the node's hard taints now and did not before."""
        if change.event is ClusterEvent.POD_UPDATE or change.node is None:
            return True
        hard = untolerated(pod.spec.tolerations)
        refused_before = change.old is None or bool(hard(change.old.taints))
        return refused_before and not hard(change.node.taints)
