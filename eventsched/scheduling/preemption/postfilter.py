"""PostFilter: what plugins can do for a pod that found no node.

Upstream: framework/runtime/framework.go RunPostFilterPlugins.
"""

from eventsched.domain.records.verdicts import Code
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import PluginError, PostFilterResult, Status


def post_filter(judgement: Judgement) -> PostFilterResult:
    """The answer of the first plugin that nominates a node, rules out a solution (Unresolvable) or
    fails. If there is none: the reasons of all plugins, and the last nomination that one gave."""
    reasons: list[str] = []
    nominated: str | None = None
    for plugin in judgement.profile.post_filter:
        judgement.cycle.plugin = plugin.name
        try:
            answer = plugin.post_filter(judgement.cycle, judgement.pod, judgement)
        except PluginError as error:
            return PostFilterResult(Status.error(str(error)))
        if not isinstance(answer, PostFilterResult):
            answer = PostFilterResult(answer or Status(Code.SUCCESS))
        answer = answer._replace(plugin=plugin.name)
        if answer.status.code in (Code.SUCCESS, Code.UNRESOLVABLE):
            return answer
        if not answer.status.rejected:
            return PostFilterResult(answer.status)
        if answer.nominated is not None:
            nominated = answer.nominated
        reasons += answer.status.reasons
    return PostFilterResult(Status.unschedulable(*reasons), nominated)
