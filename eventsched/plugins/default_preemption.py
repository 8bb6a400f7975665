"""DefaultPreemption: a pod that finds no node makes less important ones leave.

Upstream: plugins/defaultpreemption/default_preemption.go. The search itself is
scheduling/preemption/evaluator.py; upstream's PreEnqueue, which holds a pod while its victims are
being asked to leave, has no counterpart: here that is a decision, not a call that takes time.
"""

from eventsched.domain.objects import Pod
from eventsched.scheduling.config.pluginargs import DefaultPreemptionArgs
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import ClusterEvent, Cycle, PostFilterResult, Status
from eventsched.scheduling.preemption.evaluator import preempt


class DefaultPreemption:
    """PostFilter: nominates a node and names the pods that have to go."""

    name = "DefaultPreemption"
    Args = DefaultPreemptionArgs
    wakes_on: tuple[ClusterEvent, ...] = ()

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        self._args = args or DefaultPreemptionArgs()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Nothing holds a pod: see above."""
        return None

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Judgement) -> PostFilterResult:
        """Whom to evict and where, or why nobody; its words begin with upstream's prefix. Raises
        PluginError where a filter fails."""
        args = self._args
        found = preempt(
            refused, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )
        if not found.status.reasons:
            return found
        said = f"preemption: {', '.join(found.status.reasons)}"
        return found._replace(status=Status(found.status.code, (said,)))
