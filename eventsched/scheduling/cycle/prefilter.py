"""The extension points that run before nodes are evaluated one by one: PreFilter and PreScore.

Upstream: framework/runtime/framework.go RunPreFilterPlugins, RunPreScorePlugins.
"""

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Code
from eventsched.scheduling.framework import Cycle, PluginError, PreFilterResult, Status
from eventsched.scheduling.framework.plugin_calls import PluginCalls

NodeSets = list[tuple[str, frozenset[str]]]
"""(plugin, names of the only nodes that it allows) for each plugin that narrows them."""
Refusal = tuple[str, Status]
"""(plugin, its status)."""


def ask_pre_filter(
    plugin: PluginCalls, cycle: Cycle, pod: Pod, nodes: NodeView | None,
    narrowed: NodeSets, skipped: set[str], refusal: Refusal | None,
) -> Refusal | None:  # fmt: skip
    """Runs one plugin's PreFilter and adds its answer to ``narrowed`` or ``skipped``. Returns the
    refusal so far: one that preemption cannot resolve stays, any other is replaced by the next.
    Raises PluginError."""
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
    """Whether PreScore skips the plugin's Score. Raises PluginError, also if PreScore refuses."""
    cycle.plugin = plugin.name
    answer = plugin.pre_score(cycle, pod, nodes)
    if answer is None or answer.code is Code.SUCCESS:
        return False
    if answer.code is Code.SKIP:
        return True
    raise PluginError(plugin.name, "pre_score", ", ".join(answer.reasons))


def unsatisfiable(narrowed: NodeSets) -> Refusal | None:
    """The refusal if the plugins' sets of nodes have no node in common, else None."""
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
