"""What ``explain deploy/NAME`` prints: a workload's pods by the reason why they wait."""

from typing import Any

from eventsched.history.explain.workloads.pod_group import (
    GroupMembers,
    GroupVerdict,
    group_verdict,
)
from eventsched.history.explain.workloads.workload import Workload
from eventsched.output.terminal.colours import Style
from eventsched.output.terminal.display import Display
from eventsched.output.terminal.tables import counted
from eventsched.output.time_format import iso, with_distance

MOST_NODES, MOST_GROUPS = 5, 20
"""Nodes and groups that are listed; ``--full`` lists all."""
MOST_MEMBERS = 1_000
"""Members of a pod group that are listed as an object."""


def workload_text(
    workload: Workload, stream: str, now: int, display: Display,
    members: GroupMembers | None = None, *, full: bool,
) -> str:  # fmt: skip
    """The pods on nodes in a line, the others as a table of reasons, the largest group first, and
    how to explain one of them; ``now`` in µs. Of a pod group first why it is not bound. The next
    step comes before the table."""
    waiting = workload.pods - workload.placed
    name = f"{workload.kind} {workload.namespace}/{workload.name}"
    nodes = f"{counted(len(workload.nodes), 'node')}{_nodes(workload, full=full)}"
    parts = [f"{workload.placed} on {nodes}"]
    parts += [f"{waiting} without a node"] if waiting else []
    verdict = None if members is None else group_verdict(workload, members)
    lines = [] if verdict is None else _verdict(name, verdict, display)
    text = f"{name} has {counted(workload.pods, 'pod')}: {', '.join(parts)}"
    lines += [display.line(text, Style.YELLOW if waiting else Style.GREEN)]
    if members is None and workload.next_step:
        lines.append(display.line(f"Next step: {workload.next_step}.", Style.BOLD))
    if not workload.groups:
        return "\n".join(lines)
    groups = workload.groups if full else workload.groups[:MOST_GROUPS]
    rows = [
        (group.pods, group.why, with_distance(group.since, now), ", ".join(group.examples))
        for group in groups
    ]
    header = ("pods", "why", "oldest since", "such as")
    lines += ["", display.table(header, rows)]
    if left := len(workload.groups) - len(groups):
        lines.append(f"… and {counted(left, 'more reason')} (--full lists all)")
    helps = dict.fromkeys(f"{group.plugin}: {group.helps}" for group in groups if group.helps)
    lines += ["", *(display.line(f"What would help against {help_text}.") for help_text in helps)]
    example = (verdict and verdict.example) or workload.groups[0].examples[0]
    return "\n".join([*lines, f"One of them: eventsched explain {example} --stream {stream}"])


def _verdict(name: str, verdict: GroupVerdict, display: Display) -> list[str]:
    lines = [display.line(f"{name}: {verdict.reason}.")]
    if verdict.next_step:
        lines.append(display.line(f"Next step: {verdict.next_step}.", Style.BOLD))
    return [*lines, ""]


def _nodes(workload: Workload, *, full: bool) -> str:
    names = [f"{name} ({pods})" for name, pods in workload.nodes.items()]
    listed = names if full else names[:MOST_NODES]
    more = f" and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
    return f" ({', '.join(listed)}{more})" if listed else ""


def workload_json(
    workload: Workload, stream: str, members: GroupMembers | None = None
) -> dict[str, Any]:
    """The same as an object; docs/sql.md has its fields."""
    document = _counts(workload, stream)
    if members is not None:
        verdict = group_verdict(workload, members)
        document |= {
            "minimum": members.minimum,
            "why": verdict.reason,
            "next_step": verdict.next_step or None,
            "members": [
                {"pod": name, "node": node or None} for name, node in members.in_order(MOST_MEMBERS)
            ],
        }
    return document


def _counts(workload: Workload, stream: str) -> dict[str, Any]:
    return {
        "stream": stream,
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "owners": list(workload.owners),
        "pods": workload.pods,
        "placed": workload.placed,
        "next_step": workload.next_step or None,
        "nodes": [{"node": node, "pods": pods} for node, pods in workload.nodes.items()],
        "groups": [
            {
                "pods": group.pods,
                "state": group.state,
                "states": group.states,
                "tried": group.is_tried,
                "plugin": group.plugin or None,
                "code": group.code or None,
                "reason": group.reason or None,
                "since": iso(group.since),
                "deleting": group.deleting,
                "examples": list(group.examples),
                "helps": group.helps or None,
            }
            for group in workload.groups
        ],
    }
