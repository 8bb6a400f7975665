"""An answer of ``eventsched evaluate`` for people, and for programs."""

from dataclasses import asdict
from typing import Any

from eventsched.history.explain.record_text import CRITERIA
from eventsched.output.terminal.tables import table
from eventsched.runtime.queries.placement_query import PlacementAnswer, PreemptionPlan, Refused

NODES_SHOWN = 10
"""Nodes that are shown where not all are asked for."""


def answer_text(answer: PlacementAnswer, *, wide: bool = False, node: str = "") -> str:
    """Where the pod would go, how the nodes compare, and why not the others. ``wide`` shows all
    nodes; ``node`` names one that is shown whatever its rank."""
    lines = [_verdict(answer)]
    if answer.room is not None:
        lines.append(_making_room(answer.room))
    shown = [
        ranked
        for place, ranked in enumerate(answer.ranked)
        if wide or place < NODES_SHOWN or ranked.node == node
    ]
    if shown:
        plugins = [name for name in shown[0].scores if any(r.scores[name] for r in answer.ranked)]
        rows = [
            (ranked.rank, ranked.node, ranked.total, *(ranked.scores[name] for name in plugins))
            for ranked in shown
        ]
        lines += ["", table(("rank", "node", "total"), rows, plugins)]
        if len(shown) < len(answer.ranked):
            lines.append(f"… and {len(answer.ranked) - len(shown)} more (-o wide shows all)")
    if answer.refused:
        rows = [
            (
                len(r.nodes),
                r.plugin or "PreFilter",
                r.code,
                "; ".join(r.reasons),
                _such(r, node, wide),
            )
            for r in answer.refused
        ]
        which = "the others" if answer.ranked else "any node"
        header = ("nodes", "plugin", "code", "reasons", "which" if wide else "such as")
        lines += ["", f"Why not {which}:", table(header, rows)]
    return "\n".join(lines)


def _verdict(answer: PlacementAnswer) -> str:
    best, would = answer.best, f"{answer.pod} would"
    if answer.assigned:
        would = f"{answer.pod} is assigned to {answer.assigned} already; if placed again it would"
    if not best:
        return f"{would} go nowhere: {answer.message}"
    if len(best) > 1:
        names = ", ".join(ranked.node for ranked in best[:NODES_SHOWN])
        more = f" and {len(best) - NODES_SHOWN} more" if len(best) > NODES_SHOWN else ""
        return (
            f"{would} go to one of {len(best)} nodes with the same total of "
            f"{best[0].total}, by a draw: {names}{more}"
        )
    ending = ", the only one"
    if len(answer.ranked) > 1:
        second = answer.ranked[1]
        ending = f"; next is {second.node} with {second.total}"
    return f"{would} go to {best[0].node} (total {best[0].total}{ending})"


def _making_room(room: PreemptionPlan) -> str:
    victims = ", ".join(room.victims) or "no pod, as one is leaving it already"
    text = f"It would be nominated to {room.node}; to make room there it would evict {victims}"
    if room.candidates > 1:
        why = CRITERIA.get(room.criterion, room.criterion)
        text += f" (the best of {room.candidates} candidates: {why})"
    return text


def _such(refused: Refused, node: str, wide: bool) -> str:
    if wide:
        return ", ".join(refused.nodes)
    names = list(refused.nodes[:3])
    if node in refused.nodes and node not in names:
        names = [node, *names[:2]]
    more = len(refused.nodes) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def answer_json(answer: PlacementAnswer) -> dict[str, Any]:
    """The object that ``evaluate --pod … -o json`` prints."""
    return {
        "pod": answer.pod,
        "profile": answer.profile,
        "assigned": answer.assigned or None,
        "best": [ranked.node for ranked in answer.best],
        "nodes": [asdict(ranked) for ranked in answer.ranked],
        "refused": [
            {**asdict(refused), "plugin": refused.plugin or None, "count": len(refused.nodes)}
            for refused in answer.refused
        ],
        "message": answer.message or None,
        "preemption": None if answer.room is None else asdict(answer.room),
    }
