"""What follows from two attempts' verdicts, in a sentence or two: which nodes became feasible, or
why none did."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from eventsched.domain.records.verdicts import Code
from eventsched.questions.verdict_pages import VerdictTable

_FEASIBLE = "feasible"
_NOT_EVALUATED = "NotEvaluated"


class NodeSide(NamedTuple):
    """A node in one of two attempts: its verdict, and weighted scores if it was feasible. ``code``
    and ``reason`` are those of the refusal, with ``Success`` and "" for a feasible node."""

    verdict: str
    total: int | None
    scores: dict[str, int]
    code: str
    reason: str

    @property
    def shown(self) -> tuple[str, int | None, dict[str, int]]:
        """What differs if the node's part in an attempt differs."""
        return self.verdict, self.total, self.scores

    @property
    def is_feasible(self) -> bool:
        """Whether it passed the filters."""
        return self.code == Code.SUCCESS

    @property
    def is_unresolvable(self) -> bool:
        """Whether it refuses the pod even without other pods."""
        return self.code == Code.UNRESOLVABLE

    @property
    def is_resolvable(self) -> bool:
        """Whether it refuses the pod only for what others use."""
        return self.code == Code.UNSCHEDULABLE


Sides = Mapping[str, NodeSide]


def node_sides(table: VerdictTable) -> dict[str, NodeSide]:
    """The nodes of an attempt by name, in the table's order."""
    sides = {}
    for number, (node, refusal) in enumerate(zip(table.nodes, table.refusals, strict=True)):
        if number >= table.feasible:
            verdict = f"{refusal.plugin or refusal.code}: {refusal.reason}"
            sides[node] = NodeSide(verdict, None, {}, refusal.code, refusal.reason)
            continue
        scores = {
            values.plugin: int(values.normalized[number]) * values.weight for values in table.scores
        }
        total = int(table.totals[number])
        sides[node] = NodeSide(_FEASIBLE, total, scores, Code.SUCCESS, "")
    return sides


def gained(before: Sides, after: Sides) -> list[str]:
    """The nodes that became feasible, by rank. One that the first search did not reach may have
    been feasible then, too."""
    return [
        node
        for node, side in after.items()
        if side.is_feasible
        and (node not in before or not _may_be_feasible(before[node]))
    ]  # fmt: skip


def _may_be_feasible(side: NodeSide) -> bool:
    return side.is_feasible or side.code == _NOT_EVALUATED


def conclusion(
    chosen: tuple[str | None, str | None], before: Sides, after: Sides, causes: Mapping[str, str]
) -> str:
    """What an attempt came to, compared with an earlier one. ``chosen`` are their nodes; ``causes``
    says for nodes that became feasible what made room on them."""
    old, new = chosen
    became = gained(before, after)
    if old is not None and old == new:
        return f"It went to {new} both times."
    if old is not None and new is not None:
        return " ".join([f"It went from {old} to {new}.", *_left(old, after), *_of(new, causes)])
    if became:
        return _became_feasible(became, new, causes)
    if any(side.is_feasible for side in after.values()):
        return "No node that was judged both times became feasible."
    lost = {
        node: after[node]
        for node, side in before.items()
        if side.is_feasible and node in after and not _may_be_feasible(after[node])
    }
    if lost:
        return f"No node is feasible any more. {_subject(list(lost))} now: {_main_reason(lost)}."
    return f"No node became feasible. {_refusals(before, after)}"


def _left(node: str, after: Sides) -> list[str]:
    """Why a pod did not go to its first node again, unless another was only better."""
    if node not in after:
        return [f"{node} was not there any more."]
    if _may_be_feasible(after[node]):
        return []
    return [f"{node} refuses it now: {after[node].reason}."]


def _of(node: str, causes: Mapping[str, str]) -> list[str]:
    return [f"{node} became feasible: {causes[node]}."] if node in causes else []


def _became_feasible(nodes: Sequence[str], chosen: str | None, causes: Mapping[str, str]) -> str:
    node = nodes[0] if chosen is None or chosen not in nodes else chosen
    cause = f": {causes[node]}" if node in causes else ""
    if len(nodes) == 1:
        return f"{node} became feasible{cause}."
    return f"{len(nodes)} nodes became feasible, such as {node}{cause}."


def _refusals(before: Sides, after: Sides) -> str:
    """What the nodes say on which a pod could be without others, if none is feasible."""
    open_nodes = {node: side for node, side in after.items() if side.is_resolvable}
    if not open_nodes:
        if all(side.is_unresolvable for side in after.values()):
            return "Each node refuses it even without other pods."
        return ""
    others = {
        node: side
        for node, side in open_nodes.items()
        if node not in before or before[node].verdict != side.verdict
    }
    if not others:
        reason = _main_reason(open_nodes)
        if len(open_nodes) == 1:
            [node] = open_nodes
            return f"{node}, which refused it only for what others use, does as before: {reason}."
        return (
            f"The {len(open_nodes)} nodes that refused it only for what others use "
            f"(such as {next(iter(open_nodes))}) refuse it as before: {reason}."
        )
    same = len(open_nodes) - len(others)
    rest = f"; {same} {'does' if same == 1 else 'do'} as before" if same else ""
    return (
        f"{_subject(list(others))} for another reason now, of what others use: "
        f"{_main_reason(others)}{rest}."
    )


def _subject(nodes: Sequence[str]) -> str:
    if len(nodes) == 1:
        return f"{nodes[0]} refuses it"
    return f"{len(nodes)} nodes (such as {nodes[0]}) refuse it"


def _main_reason(sides: Sides) -> str:
    """The reason of most of these nodes."""
    reasons = Counter(side.reason for side in sides.values())
    [(reason, _)] = reasons.most_common(1)
    return reason if len(reasons) == 1 else f"mostly {reason}"
