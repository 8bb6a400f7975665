"""Prints states and their differences."""

from collections.abc import Iterable, Sequence
from typing import Any

from eventsched.domain.objects import CPU, EPHEMERAL_STORAGE, MEMORY
from eventsched.history.past_state.state_differences import FieldChange, ObjectDifference
from eventsched.history.past_state.state_document import Document
from eventsched.history.why_not.change_value import quantity
from eventsched.output.terminal.colours import Paint, Style, plain
from eventsched.output.terminal.tables import counted, size, table
from eventsched.output.time_format import iso, moment, rough, zone

_BYTES = (MEMORY, EPHEMERAL_STORAGE)
_BY_NAMES = ("labels", "allocatable", "requested", "requests", "resources")
"""Objects whose keys are names that users choose, such as a label ``since``."""
_SHOWN = 50
"""Rows of a table at most, without --full."""


def amount_text(resource: str, amount: int) -> str:
    """An amount as people write it: ``2500m``, ``12.0 GiB``, ``3``."""
    if resource == CPU:
        return f"{amount}m"
    return size(amount) if resource in _BYTES else str(amount)


def place_text(document: Document, stream: str) -> str:
    """The position and the time of a state."""
    now = document["now"]
    at = f"{moment(now)} {zone(now)}".rstrip()
    return f"stream {stream} before position {document['position']}, {at}"


def state_text(document: Document, stream: str) -> str:
    """The numbers of a state."""
    counts = ", ".join(f"{number} {name}" for name, number in document["pods_by_state"].items())
    pods = counted(document["pods"], "pod")
    lines = [
        place_text(document, stream),
        f"{counted(document['nodes'], 'node')}; {pods}{f': {counts}' if counts else ''}",
    ]
    rows = [
        [
            name,
            amount_text(name, amounts["allocatable"]),
            amount_text(name, amounts["requested"]),
            f"{amounts['requested'] / amounts['allocatable']:.0%}"
            if amounts["allocatable"]
            else "",
        ]
        for name, amounts in document["resources"].items()
        if amounts["allocatable"]
    ]
    if rows:
        lines += ["", table(("resource", "allocatable", "requested", ""), rows)]
    if document["objects"]:
        lines += ["", ", ".join(f"{number} {kind}" for kind, number in document["objects"].items())]
    return "\n".join(lines)


def node_text(node: Document, pods: Sequence[Document], now: int) -> str:
    """A node with its pods."""
    cordoned = ", unschedulable" if node["unschedulable"] else ""
    taints = f"; taints {', '.join(node['taints'])}" if node["taints"] else ""
    rows = [
        [name, amount_text(name, amount), amount_text(name, node["requested"].get(name, 0))]
        for name, amount in node["allocatable"].items()
    ]
    lines = [f"node {node['name']}{cordoned}{taints}", ""]
    lines += [table(("resource", "allocatable", "requested"), rows), ""]
    lines.append(pods_text(pods, now) if pods else "no pod is on it")
    if node["nominated"]:
        lines.append(f"nominated to it: {', '.join(node['nominated'])}")
    return "\n".join(lines)


def pods_text(pods: Sequence[Document], now: int, *, full: bool = True) -> str:
    """A table of pods."""
    shown = pods if full else pods[:_SHOWN]
    rows = [
        [
            f"{pod['namespace']}/{pod['name']}", pod["state"], pod["node"], pod["priority"],
            pod["attempts"], rough(now - pod["since"]) if "since" in pod else "",
            ", ".join(pod["rejected_by"] if "rejected_by" in pod else pod.get("waits_for", ())),
        ]
        for pod in shown
    ]  # fmt: skip
    header = ("pod", "state", "node", "priority", "attempts", "for", "held by")
    text = table(header, rows)
    if len(shown) < len(pods):
        text += f"\nand {len(pods) - len(shown)} more: --full shows all"
    return text


def pod_text(pod: Document) -> str:
    """All that a state knows about a pod."""
    rows = [
        [name, _value_text(name, value)]
        for name, value in pod.items()
        if name == "since" or value not in ("", [], {}, False)
    ]
    return table((), rows, ("", ""))


def _value_text(name: str, value: Any) -> str:
    if name in ("since", "backoff_until"):
        return f"{moment(value)} {zone(value)}".rstrip()
    if name == "requests":
        return ", ".join(f"{key} {quantity(key, amount)}" for key, amount in value.items())
    if name == "waits_for":
        return ", ".join(f"{plugin} until {moment(at)}" for plugin, at in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def with_times(document: Any) -> Any:
    """The document with its times as ISO 8601, for programs."""
    if isinstance(document, list):
        return [with_times(item) for item in document]
    if not isinstance(document, dict):
        return document
    changed: Document = {}
    for name, value in document.items():
        if name in _BY_NAMES:
            changed[name] = value
        elif name in ("now", "since"):
            changed[name] = iso(value)
        elif name == "backoff_until":
            changed[name] = iso(value) if value else None
        elif name == "waits_for":
            changed[name] = {plugin: iso(deadline) for plugin, deadline in value.items()}
        else:
            changed[name] = with_times(value)
    return changed


# --- differences --------------------------------------------------------------------------


_SIGNS = {
    "added": ("+", Style.GREEN),
    "removed": ("-", Style.RED),
    "changed": ("~", Style.YELLOW),
}


def difference_lines(
    differences: Iterable[ObjectDifference], paint: Paint = plain
) -> Iterable[str]:
    """A line for each difference, and one for each changed field."""
    for difference in differences:
        place = f"  {difference.place}" if difference.place else ""
        moves = [change for change in difference.fields if change.field == "place"]
        for change in moves:
            place = f"  {change.before} -> {change.after}"
        sign, style = _SIGNS[difference.change]
        yield paint(f"{sign} {difference.kind} {difference.name}{place}", style)
        for change in difference.fields:
            if change not in moves:
                yield f"    {change.field}: {_shown(change.before)} -> {_shown(change.after)}"


def _shown(value: Any) -> str:
    text = str(value) if value not in ("", None) else "none"
    return text if len(text) <= 100 else f"{text[:97]}..."


def difference_json(difference: ObjectDifference) -> Document:
    """A difference as JSON."""
    return {
        "kind": difference.kind,
        "name": difference.name,
        "change": difference.change,
        **({"place": difference.place} if difference.place else {}),
        "fields": [_field_json(change) for change in difference.fields],
    }


def _field_json(change: FieldChange) -> Document:
    return {"field": change.field, "before": change.before, "after": change.after}
