"""Prints what history would have been under other rules."""

from collections.abc import Mapping, Sequence
from typing import Any

from eventsched.output.terminal.tables import counted, table, width_of_output
from eventsched.output.time_format import rough

_SHOWN = 20
"""Pods of a table at most, without --full."""
_BY_CAUSE = {
    "score": "by a score", "verdict": "by a verdict", "draw": "by a draw",
    "other": "for another reason",
}  # fmt: skip


def result_text(document: Mapping[str, Any], *, full: bool = False) -> str:
    """A result as text: both sides, and the pods that differ."""
    lines = [
        f"stream {document['stream']}, positions {document['first']} to {document['end']}, "
        f"rules: {document['rules']}, {document['loop']} loop",
        *(f"warning: {text}" for text in document.get("warnings", ())),
        "",
    ]
    if document["loop"] == "closed":
        lines += [table(["", "was", "would be"], _sides(document["before"], document["after"])), ""]
        lines += [_headline(document)]
    else:
        number = len(document["differences"])
        lines += [f"{number} of {counted(document['decisions'], 'decision')} come out otherwise"]
    if document["differences"]:
        lines += [_causes(document["causes"])]
        lines += ["", _differences(document["differences"], full=full)]
    if "stored" in document:
        stored = document["stored"]
        lines += [
            "",
            f"stored as stream {stored['stream']}: {counted(stored['records'], 'record')}",
        ]
    lines += condition_lines(document)
    return "\n".join(lines)


def condition_lines(document: Mapping[str, Any]) -> list[str]:
    """A line for each condition of --fail-if: whether it is true, and what it compares."""
    return [
        f"{'true' if each['holds'] else 'false'}: {each['condition']} "
        f"({', '.join(_measured(name, value) for name, value in each['values'].items())})"
        for each in document["conditions"]
    ]


def _measured(name: str, value: float) -> str:
    return f"{name} is {waited_text(value) if name.startswith('waited(') else value}"


def _headline(document: Mapping[str, Any]) -> str:
    number = len(document["differences"])
    if not number:
        return "no pod differs"
    return f"{counted(number, 'pod')} would differ, {document['moved']} on another node"


def _causes(causes: Mapping[str, int]) -> str:
    """How many differ by which cause."""
    parts = [f"{causes[cause]} {words}" for cause, words in _BY_CAUSE.items() if causes[cause]]
    return "of these " + ", ".join(parts)


def _sides(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[list[str]]:
    rows = [
        [title, str(before[key]), str(after[key])]
        for title, key in (
            ("decisions", "decisions"), ("pods with a node", "placed"),
            ("pods without a node", "pending"), ("preemptions", "preemptions"),
            ("pods evicted", "evicted"),
        )
    ]  # fmt: skip
    rows += [
        [
            f"waiting time, {which}",
            *(waited_text(side["waited"][which]) for side in (before, after)),
        ]
        for which in ("p50", "p99", "max")
    ]
    rows += [
        [f"{name} requested, {which}", *(_use(side, name, which) for side in (before, after))]
        for name in {**before["utilization"], **after["utilization"]}
        for which in ("mean", "peak")
    ]
    rows += [
        [f"{name} {key}", *(_percent(side[key].get(name)) for side in (before, after))]
        for key in ("fragmentation", "spread")
        for name in {**before["spread"], **after["spread"]}
    ]
    for title, key in (
        ("nodes empty at the end", "empty_nodes"), ("nodes never used", "unused_nodes"),
    ):  # fmt: skip
        rows += [[title, str(len(before[key])), str(len(after[key]))]]
    return rows


def _use(side: Mapping[str, Any], name: str, which: str) -> str:
    share = side["utilization"].get(name)
    return "" if share is None else _percent(share[which])


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} %"


def waited_text(seconds: float) -> str:
    """A waiting time."""
    return f"{seconds:.3f}s" if seconds < 60 else rough(round(seconds * 1_000_000))


def _differences(differences: Sequence[Mapping[str, Any]], *, full: bool) -> str:
    shown = differences if full else differences[:_SHOWN]
    rows = [
        [f"{each['namespace']}/{each['name']}", _place(each["before"]), _place(each["after"]),
         _why(each["reason"])]
        for each in shown
    ]  # fmt: skip
    text = table(["pod", "was on", "would be on", "why"], rows, width=width_of_output())
    rest = len(differences) - len(shown)
    return f"{text}\nand {rest} more: --full shows all" if rest else text


def _place(life: Mapping[str, Any]) -> str:
    node = str(life["node"]) or "no node"
    return f"{node}, evicted" if life.get("evicted") else node


def _why(reason: Mapping[str, Any]) -> str:
    return f"{reason['plugin']} {reason['text']}" if reason["plugin"] else str(reason["text"])
