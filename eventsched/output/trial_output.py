"""Prints what would come of pods that were tried."""

from collections.abc import Sequence
from typing import Any

from eventsched.domain.records import PodDecided
from eventsched.output.state_output import amount_text
from eventsched.output.terminal.colours import Style
from eventsched.output.terminal.display import PLAIN, Display
from eventsched.output.terminal.tables import counted
from eventsched.runtime.queries.node_proposals import NodeProposal, NodeShape, NodesToAdd
from eventsched.runtime.queries.trial_run import Room, TrialRun, TriedPod

_SHOWN = 20
"""Pods of a table at most, without --full."""


def trial_text(
    done: TrialRun, room: Room | None, proposal: NodeProposal | None, *, full: bool = False,
    display: Display = PLAIN,
) -> str:  # fmt: skip
    """The pods with their nodes, and what else there is to say."""
    headline = display.line(_headline(done.tried), Style.RED if done.pending else Style.GREEN)
    lines = [headline, "", _pods_table(done.tried, display, full=full)]
    reasons = dict.fromkeys(tried.message or "it was not tried" for tried in done.pending)
    if reasons:
        lines += ["", *(display.line(f"nowhere: {reason}", Style.RED) for reason in reasons)]
    if room is not None:
        many = f"at least {room.pods}" if room.is_limit else str(room.pods)
        lines += ["", f"{many} more of them fit without evictions"]
        if room.message:
            lines[-1] += f"; the next one does not: {room.message}"
    if proposal is not None:
        lines += ["", *_proposal_lines(proposal)]
        if proposal.nodes and (besides := done.waiting_besides):
            lines.append(_others_text(proposal.others_placed, besides))
    return "\n".join(lines)


def _headline(tried: Sequence[TriedPod]) -> str:
    placed = sum(bool(each.node) for each in tried)
    evicted = len({victim for each in tried for victim in each.victims})
    text = f"{placed} of {counted(len(tried), 'pod')} would be placed"
    return f"{text}; {counted(evicted, 'pod')} would be evicted" if evicted else text


def _pods_table(tried: Sequence[TriedPod], display: Display, *, full: bool) -> str:
    shown = tried if full else tried[:_SHOWN]
    rows = [
        [each.pod.full_name, each.node or "nowhere", _why(each), ", ".join(each.victims)]
        for each in shown
    ]
    header = ["pod", "node", "why", "evicts"]
    if not any(each.victims for each in shown):
        header, rows = header[:3], [row[:3] for row in rows]
    styles = [_style(each) for each in shown]
    text = display.table(header, rows, styles)
    rest = len(tried) - len(shown)
    return f"{text}\nand {rest} more: --full shows all" if rest else text


def _style(tried: TriedPod) -> Style | None:
    """Red without a node, yellow if others are evicted for it."""
    return Style.RED if not tried.node else Style.YELLOW if tried.victims else None


def _why(tried: TriedPod) -> str:
    decided = tried.decided
    if not tried.node or decided is None:
        return ""
    if decided.nominated:
        return "room was made there for it"
    text = f"{decided.feasible} of {decided.evaluated} nodes pass"
    if decided.ties > 1:
        return f"{text}; drawn from {decided.ties} equally good ones"
    if decided.runner_up:
        text += f"; total {decided.score}, next is {decided.runner_up}"
        return f"{text} with {decided.runner_up_score}"
    return text


def _proposal_lines(proposal: NodeProposal) -> list[str]:
    lines = []
    if proposal.nodes:
        everything = "the rest fit" if proposal.hopeless else "all fit"
        lines = [f"with these nodes more, {everything}:"]
        lines += [f"  {_nodes_text(added)}" for added in proposal.nodes]
    if proposal.hopeless:
        some = ", ".join(proposal.hopeless[:3]) + (", …" if len(proposal.hopeless) > 3 else "")
        lacks = ", ".join(proposal.missing_labels)
        why = f": no shape has the label {lacks} of its nodeSelector" if lacks else ""
        lines.append(f"no further node of any shape helps {some}{why}")
    return lines


def _others_text(placed: int, waiting: int) -> str:
    """Which part of the nodes is for pods that waited before. They come first, unless the tried
    ones are more important."""
    others = f"{counted(waiting, 'other pod')} that {'waits' if waiting == 1 else 'wait'} already"
    return (
        f"this counts room for {placed} of {others}" if placed else f"none of them is for {others}"
    )


def _nodes_text(added: NodesToAdd) -> str:
    amounts = ", ".join(
        f"{name} {amount_text(name, amount)}"
        for name, amount in added.shape.node.allocatable.items()
    )
    return (
        f"{added.number} like {added.shape.example} ({amounts}; "
        f"the cluster has {_count_text(added.shape)})"
    )


def _count_text(shape: NodeShape) -> str:
    """How many nodes of a shape there are, in all zones."""
    text = f"{shape.count_anywhere or 'none'} of that shape"
    return text if shape.count == shape.count_anywhere else f"{text}, {shape.count} in its zone"


def trial_json(done: TrialRun, room: Room | None, proposal: NodeProposal | None) -> dict[str, Any]:
    """The same as JSON."""
    document: dict[str, Any] = {
        "placed": sum(bool(tried.node) for tried in done.tried),
        "pending": len(done.pending),
        "pods": [_pod_json(tried) for tried in done.tried],
    }
    if room is not None:
        document["more"] = {
            "fit": room.pods, "at_least": room.is_limit, "message": room.message,
        }  # fmt: skip
    if proposal is not None:
        document["nodes_to_add"] = [
            {
                "like": added.shape.example,
                "number": added.number,
                "there_are": added.shape.count_anywhere,
                "in_its_zone": added.shape.count,
                "allocatable": added.shape.node.allocatable,
            }
            for added in proposal.nodes
        ]
        document["no_node_helps"] = list(proposal.hopeless)
        document["missing_labels"] = list(proposal.missing_labels)
        document["refusals"] = done.refusals
        document["waiting_besides"] = done.waiting_besides
        document["waiting_placed"] = proposal.others_placed
    return document


def _pod_json(tried: TriedPod) -> dict[str, Any]:
    pod = tried.pod
    document: dict[str, Any] = {
        "namespace": pod.namespace,
        "name": pod.name,
        "node": tried.node,
        "evicts": list(tried.victims),
        "evicts_from": tried.freed,
        "message": tried.message,
    }
    return document | (_decision_json(tried.decided) if tried.decided and tried.node else {})


def _decision_json(decided: PodDecided) -> dict[str, Any]:
    names = ("score", "runner_up", "runner_up_score", "feasible", "evaluated", "ties", "nominated")
    return {name: getattr(decided, name) for name in names}
