"""The findings of a plugin check, and how they are printed."""

from collections.abc import Sequence
from typing import Any

import msgspec

_SEVERITY = ("broken", "slow", "impure", "unstable", "signature", "wakes")
"""Kinds in the order in which they are shown: a cause before its consequences."""
MANY_NODES = 5_000
"""The cluster size for which costs are extrapolated."""


class Finding(msgspec.Struct, frozen=True):
    """A problem of a plugin. ``kind`` is impure, unstable, broken, slow, wakes or signature;
    ``where`` is a line of the plugin's code or a position in the history."""

    kind: str
    point: str
    what: str
    where: str = ""


class Cost(msgspec.Struct, frozen=True):
    """The cost of a method: median and maximum of its calls, in µs of processor time. ``nodes`` is
    the mean number of nodes in a call; ``per_node`` means one call of the plugin for each node."""

    point: str
    calls: int
    median: float
    longest: float
    nodes: float = 0.0
    per_node: bool = False

    @property
    def at_scale(self) -> float:
        """Milliseconds for MANY_NODES nodes if the method is called for each node, else 0."""
        if not self.per_node or not self.nodes:
            return 0.0
        return self.median / self.nodes * MANY_NODES / 1_000


class TranscriptEntry(msgspec.Struct, frozen=True, array_like=True):
    """The digest of the plugin's answer at a position of the history."""

    position: int
    pod: str
    point: str
    digest: str


class PluginRun(msgspec.Struct):
    """One plugin, run in one process. ``unasked`` are the extension points that a check does not
    call; ``remarks`` are hints that are not findings."""

    plugin: str
    file: str
    points: list[str]
    history: str
    attempts: int = 0
    records: int = 0
    findings: list[Finding] = []
    costs: list[Cost] = []
    transcript: list[TranscriptEntry] = []
    unasked: list[str] = []
    remarks: list[str] = []


def by_severity(findings: Sequence[Finding]) -> list[Finding]:
    """Sorted so that a finding comes before those that it may have caused."""
    return sorted(findings, key=lambda finding: _SEVERITY.index(finding.kind))


def findings_text(runs: Sequence[PluginRun]) -> str:
    """For people: one paragraph for each plugin."""
    return "\n\n".join(_text(run) for run in runs)


def findings_json(runs: Sequence[PluginRun]) -> dict[str, Any]:
    """For programs: everything except the transcripts."""
    plugins = []
    for run in runs:
        plugin = msgspec.to_builtins(run)
        del plugin["transcript"]
        plugins.append(plugin)
    return {"ok": not any(run.findings for run in runs), "plugins": plugins}


def _text(run: PluginRun) -> str:
    lines = [
        f"{run.plugin} ({run.file}): {', '.join(run.points)}",
        f"called for {run.attempts} attempts in {run.records} records of {run.history}, "
        "twice in each of two processes",
    ]
    lines += [f"  {_cost(cost)}" for cost in run.costs]
    lines += [f"  {remark}" for remark in run.remarks]
    if run.unasked:
        lines.append(f"  not called: {', '.join(run.unasked)}")
    if not run.findings:
        lines.append("no findings: equal answers, no access to anything outside, no missed change")
    for finding in run.findings:
        where = f" ({finding.where})" if finding.where else ""
        lines.append(f"{finding.kind.upper()} {finding.point}: {finding.what}{where}")
    return "\n".join(lines)


def _cost(cost: Cost) -> str:
    text = f"{cost.point}: {cost.calls} calls, median {cost.median:.1f} µs"
    text += f", at most {cost.longest:.0f} µs"
    if not cost.nodes:
        return text
    text += f", {cost.nodes:.0f} nodes a call"
    if cost.per_node:
        return f"{text}, called for each node: {cost.at_scale:.1f} ms at {MANY_NODES:,} nodes"
    return f"{text}, as columns"
