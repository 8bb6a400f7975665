"""What plugins say before nodes are looked at one by one: PreFilter and PreScore.

Upstream: framework/runtime/framework.go RunPreFilterPlugins, RunPreScorePlugins.
"""

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Code
from eventsched.scheduling.framework import Cycle, PluginError, PreFilterResult, Status
from eventsched.scheduling.framework.plugin_calls import PluginCalls

Narrowed = list[tuple[str, frozenset[str]]]
"""(plugin, names of the only nodes that come into question for it)."""
Refusal = tuple[str, Status]
"""(plugin, what it said)."""


def ask_pre_filter(
    plugin: PluginCalls, cycle: Cycle, pod: Pod, nodes: NodeView | None,
    narrowed: Narrowed, skipped: set[str], refusal: Refusal | None,
) -> Refusal | None:  # fmt: skip
    """Asks one plugin's PreFilter and notes what it says; returns the refusal that counts so far:
    the first that preemption cannot help, else the last. Raises PluginError."""
    cycle.plugin = plugin.name
    answer = plugin.pre_filter(cycle, pod, nodes)
    if isinstance(answer, PreFilterResult):
        narrowed.append((plugin.name, answer.node_names))
    elif answer is not None and answer.code is Code.SKIP:
        skipped.add(plugin.name)
    elif answer is not None and answer.code is not Code.SUCCESS:
        replaces = refusal is None or refusal[1].code is Code.UNSCHEDULABLE
        return (plugin.name, answer) if replaces else refusal
    return refusal


def skips_score(plugin: PluginCalls, cycle: Cycle, pod: Pod, nodes: NodeView | None) -> bool:
    """What PreScore says. Raises PluginError, also for a refusal: there it is an error."""
    cycle.plugin = plugin.name
    answer = plugin.pre_score(cycle, pod, nodes)
    if answer is None or answer.code is Code.SUCCESS:
        return False
    if answer.code is Code.SKIP:
        return True
    raise PluginError(plugin.name, "pre_score", ", ".join(answer.reasons))


def unsatisfiable(narrowed: Narrowed) -> Refusal | None:
    """The refusal where the plugins' sets of nodes have none in common."""
    left: frozenset[str] | None = None
    names: list[str] = []
    for name, wanted in narrowed:
        left = wanted if left is None else left & wanted
        names.append(name)
        if not left:
            if len(names) == 1:
                reason = f"node(s) didn't satisfy plugin {name}"
            else:
                reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(names))}] "
                reason += "simultaneously"
            return name, Status.unresolvable(reason)
    return None
