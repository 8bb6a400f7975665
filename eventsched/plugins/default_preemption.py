"""DefaultPreemption: a pod that fits on no node evicts pods of lower priority.

Upstream: plugins/defaultpreemption/default_preemption.go. The search itself is in
scheduling/preemption/evaluator.py. Upstream's PreEnqueue holds a pod while API calls evict its
victims. Here the eviction is a decision that takes no time, so PreEnqueue holds no pod.
"""

from eventsched.domain.objects import Pod
from eventsched.scheduling.config.pluginargs import DefaultPreemptionArgs
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import ClusterEvent, Cycle, PostFilterResult, Status
from eventsched.scheduling.preemption.evaluator import preempt


class DefaultPreemption:
    """PostFilter: nominates a node and names the victims."""

    name = "DefaultPreemption"
    Args = DefaultPreemptionArgs
    wakes_on: tuple[ClusterEvent, ...] = ()

    def __init__(self, args: DefaultPreemptionArgs | None = None) -> None:
        self._args = args or DefaultPreemptionArgs()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Holds no pod (see the module)."""
        return None

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Judgement) -> PostFilterResult:
        """The node and its victims, or why there are none, with upstream's prefix. Raises
        PluginError if a filter fails."""
        args = self._args
        result = preempt(
            refused, args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )
        if not result.status.reasons:
            return result
        reason = f"preemption: {', '.join(result.status.reasons)}"
        return result._replace(status=Status(result.status.code, (reason,)))
