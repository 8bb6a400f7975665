"""The refusal that ``explain`` names of a failed attempt: a plugin, all nodes that it refuses, and
the reason that most of these have.

Which plugin it is follows the ranks of dominant_refusal.py, as in lists of pods. If the nodes are
known, they decide among plugins of FENCES: taints and cordons are named if removing them opens a
node to the pod, and else its node selector and affinity.
"""

from collections.abc import Sequence
from typing import NamedTuple

from eventsched.domain.records.exclusions import exclusion
from eventsched.domain.records.verdicts import Code
from eventsched.history.closed_nodes import ClosedNodes
from eventsched.history.dominant_refusal import FENCES, refusal_rank
from eventsched.history.explain.explanation import Explanation, NodeRefusals

TAINT, CORDON, AFFINITY = "TaintToleration", "NodeUnschedulable", "NodeAffinity"
FIT = "NodeResourcesFit"


class NamedRefusal(NamedTuple):
    """``nodes`` of the attempt's nodes are refused by the plugin, ``with_reasons`` of them for
    ``reasons``. ``code`` is that of these. ``all_reasons`` has those of its other nodes, too.
    ``closed_by``: the plugin that alone refuses nodes that are for the pod and large enough, if it
    is NodeResourcesFit that is named and no open node is large enough; "" without one. To open
    these is the next step."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int
    with_reasons: int
    all_reasons: tuple[str, ...]
    closed_by: str = ""


def named_refusal(explained: Explanation) -> NamedRefusal | None:
    """The refusal to name of the last attempt; None if it refused no node."""
    refusals = explained.attempts[-1].refusals if explained.attempts else ()
    first = min(refusals, key=lambda each: refusal_rank(each.plugin, each.code), default=None)
    if first is None:
        return None
    lowest = refusal_rank(first.plugin, first.code)
    ranked = [each for each in refusals if refusal_rank(each.plugin, each.code) == lowest]
    plugins = dict.fromkeys(each.plugin for each in ranked)
    named = [_of_plugin(plugin, ranked, refusals) for plugin in plugins]
    most = max(named, key=lambda each: each.nodes)
    if not most.plugin:
        return _of_message(most, explained.attempts[-1].decided.message)
    closed = explained.closed or ()
    if most.plugin == FIT and most.code == Code.UNRESOLVABLE:
        fence = next((_closing(each) for each in closed if each.is_for_the_pod), "")
        is_named = any(each.plugin == fence for each in refusals)
        return most._replace(closed_by=fence) if is_named else most
    if most.plugin not in FENCES or explained.closed is None:
        return most
    wanted = _fence(closed, explained.unselected.names)
    return next((each for each in named if each.plugin == wanted), most)


def _of_message(refusal: NamedRefusal, message: str) -> NamedRefusal:
    """The same with the plugins that narrowed the nodes in PreFilter, if the attempt names them:
    its verdicts do not."""
    plugin, reason = exclusion(None, message)
    if plugin is None:
        return refusal
    return refusal._replace(plugin=plugin, reasons=(reason,), all_reasons=(reason,))


def _fence(closed: Sequence[ClosedNodes], unselected: Sequence[str]) -> str:
    """The plugin of FENCES to name. Nodes to repair come after nodes to label."""
    if not closed or (closed[0].conditions and unselected):
        return AFFINITY
    return _closing(next((each for each in closed if each.is_for_the_pod), closed[0]))


def _closing(closed: ClosedNodes) -> str:
    """The plugin that is asked first of those that refuse the nodes."""
    return CORDON if closed.is_cordoned else TAINT


def _of_plugin(
    plugin: str, ranked: Sequence[NodeRefusals], refusals: Sequence[NodeRefusals]
) -> NamedRefusal:
    own = [each for each in ranked if each.plugin == plugin]
    counts: dict[str, int] = {}
    for each in own:
        for reason in each.reasons:
            counts[reason] = counts.get(reason, 0) + each.nodes
    largest = max(own, key=lambda each: each.nodes)
    top = max(counts, key=lambda reason: counts[reason], default="")
    # Reasons that always come together are named together.
    groups = [each.reasons for each in own if top in each.reasons] or [()]
    together = tuple(
        reason
        for reason in groups[0]
        if counts[reason] == counts[top] and all(reason in reasons for reasons in groups)
    )
    return NamedRefusal(
        plugin,
        next((each.code for each in own if top in each.reasons), largest.code),
        together,
        sum(each.nodes for each in refusals if each.plugin == plugin),
        counts.get(top, largest.nodes),
        tuple(dict.fromkeys([*together, *counts])),
    )
