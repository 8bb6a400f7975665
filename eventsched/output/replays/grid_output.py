"""Prints a grid: what history would have been under each of several configurations."""

from collections.abc import Mapping, Sequence
from typing import Any

from eventsched.output.replays.what_if_output import condition_lines, waited_text
from eventsched.output.terminal.tables import table


def grid_text(documents: Sequence[Mapping[str, Any]]) -> str:
    """One row per configuration, in the order in which they were named. In a closed loop the first
    row is what was. Below are the conditions of --fail-if with their values."""
    return "\n".join([_grid_table(documents), *_conditions(documents)])


def _conditions(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [f"{each['rules']}: {line}" for each in documents for line in condition_lines(each)]
    return ["", *lines] if lines else []


def _grid_table(documents: Sequence[Mapping[str, Any]]) -> str:
    first = documents[0]
    title = (
        f"stream {first['stream']}, positions {first['first']} to {first['end']}, "
        f"{first['loop']} loop"
    )
    if first["loop"] == "open":
        header = ["rules", "decisions", "otherwise", "without node", "true"]
        rows = [
            [d["rules"], d["decisions"], len(d["differences"]), d["without_node"], _true(d)]
            for d in documents
        ]
        return f"{title}\n\n{table(header, rows)}"
    resources = list(first["before"]["utilization"])[:2]
    header = ["rules", "differ", "moved", "without node", "evicted", "wait p50", "wait p99",
              *resources, "empty nodes", "true"]  # fmt: skip
    rows = [["(was)", "", "", *_side(first["before"], resources), ""]]
    rows += [
        [d["rules"], len(d["differences"]), d["moved"], *_side(d["after"], resources), _true(d)]
        for d in documents
    ]
    return f"{title}\n\n{table(header, rows)}"


def _side(side: Mapping[str, Any], resources: Sequence[str]) -> list[Any]:
    shares = [side["utilization"].get(name, {}).get("mean", 0.0) for name in resources]
    return [
        side["pending"], side["evicted"],
        *(waited_text(side["waited"][which]) for which in ("p50", "p99")),
        *(f"{share * 100:.1f} %" for share in shares), len(side["empty_nodes"]),
    ]  # fmt: skip


def _true(document: Mapping[str, Any]) -> str:
    return "; ".join(document["failed"])
