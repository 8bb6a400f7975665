"""What a check found, and how people are told."""

from collections.abc import Sequence
from typing import Any

import msgspec

_GRAVEST_FIRST = ("broken", "slow", "impure", "unstable", "signature", "wakes")
MANY_NODES = 5_000
"""The cluster size for which costs are worked out."""


class Finding(msgspec.Struct, frozen=True):
    """Something that is wrong: ``kind`` is impure, unstable, broken, slow, wakes or signature;
    ``where`` is the place in the plugin's code, or in the history."""

    kind: str
    point: str
    what: str
    where: str = ""


class Cost(msgspec.Struct, frozen=True):
    """What a call of a method takes, in µs of processor time: half of them take less than
    ``median``. ``nodes`` is how many nodes it is asked about in a call."""

    point: str
    calls: int
    median: float
    longest: float
    nodes: float = 0.0
    per_node: bool = False

    @property
    def at_scale(self) -> float:
        """Milliseconds of a call about many nodes, where it is called once for each."""
        if not self.per_node or not self.nodes:
            return 0.0
        return self.median / self.nodes * MANY_NODES / 1_000


class Said(msgspec.Struct, frozen=True, array_like=True):
    """What the plugin answered at a place of the history, as a digest."""

    position: int
    pod: str
    point: str
    digest: str


class PluginRun(msgspec.Struct):
    """One plugin, asked in one process. ``unasked`` are extension points that a check leaves
    out; ``remarks`` are about what is not wrong."""

    plugin: str
    file: str
    points: list[str]
    history: str
    attempts: int = 0
    records: int = 0
    findings: list[Finding] = []
    costs: list[Cost] = []
    transcript: list[Said] = []
    unasked: list[str] = []
    remarks: list[str] = []


def gravest_first(findings: Sequence[Finding]) -> list[Finding]:
    """What may be the reason of the others stands before them."""
    return sorted(findings, key=lambda each: _GRAVEST_FIRST.index(each.kind))


def findings_text(trials: Sequence[PluginRun]) -> str:
    """For people: a paragraph a plugin."""
    return "\n\n".join(_text(each) for each in trials)


def findings_json(trials: Sequence[PluginRun]) -> dict[str, Any]:
    """For programs: everything but the transcripts."""
    plugins = []
    for each in trials:
        found = msgspec.to_builtins(each)
        del found["transcript"]
        plugins.append(found)
    return {"ok": not any(each.findings for each in trials), "plugins": plugins}


def _text(trial: PluginRun) -> str:
    lines = [
        f"{trial.plugin} ({trial.file}): {', '.join(trial.points)}",
        f"asked about {trial.attempts} attempts in {trial.records} records of {trial.history}, "
        "twice, in two processes",
    ]
    lines += [f"  {_cost(each)}" for each in trial.costs]
    lines += [f"  {each}" for each in trial.remarks]
    if trial.unasked:
        lines.append(f"  not asked: {', '.join(trial.unasked)}")
    if not trial.findings:
        lines.append("nothing found: equal answers, nothing from outside, no change missed")
    for each in trial.findings:
        where = f" ({each.where})" if each.where else ""
        lines.append(f"{each.kind.upper()} {each.point}: {each.what}{where}")
    return "\n".join(lines)


def _cost(cost: Cost) -> str:
    text = f"{cost.point}: {cost.calls} calls, {cost.median:.1f} µs each"
    text += f", {cost.longest:.0f} µs at most"
    if not cost.nodes:
        return text
    text += f", {cost.nodes:.0f} nodes a call"
    if cost.per_node:
        return f"{text}, called for each: {cost.at_scale:.1f} ms at {MANY_NODES:,} nodes"
    return f"{text}, as columns"
