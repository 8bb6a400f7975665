"""Checks that a plugin's answers depend only on what the plugin declares.

Verdicts and scores are cached for pods of one signature, and computed again only for nodes where
something named in ``depends_on`` has changed. So the answer about any other node must stay the
same.
"""

from typing import Any, NamedTuple

from eventsched.authoring.plugin_driver import Answers, PluginDriver
from eventsched.domain.objects import Node
from eventsched.scheduling.framework import DependsOn, depends_on

_CLUSTER_WIDE = (DependsOn.IMAGES, DependsOn.SAMPLES)


class AnswersByRow(NamedTuple):
    """The last answers to a signature, by row, with the nodes they are about. ``usage`` is the end
    of the usage journal then; ``cluster_versions`` are the versions of images and samples."""

    answers: dict[int, Any]
    nodes: list[Node | None]
    usage: int
    cluster_versions: tuple[int, int]


class DependenceCheck:
    """Compares a plugin's answers with its last ones to the same signature."""

    def __init__(self, driver: PluginDriver) -> None:
        self._table = driver.state.nodes
        self._declared = depends_on(driver.plugin)
        self._last: dict[Any, AnswersByRow] = {}

    def compare(self, signature: Any, answers: Answers) -> str:
        """What is wrong with these answers to a pod of this signature, or ""."""
        table = self._table
        current = AnswersByRow(
            _by_row(answers, table.alive[: table.size].tolist()),
            list(table.nodes),
            table.usage_journal.end,
            (table.images.version, table.samples.version),
        )
        last = self._last.get(signature)
        self._last[signature] = current
        if last is None:
            return ""
        versions = zip(_CLUSTER_WIDE, last.cluster_versions, current.cluster_versions, strict=True)
        if any(part in self._declared and old != new for part, old, new in versions):
            return ""
        used = table.usage_journal.since(last.usage)
        changed = set(range(table.size)) if used is None else set(used.tolist())
        for row in sorted(last.answers.keys() & current.answers.keys()):
            is_same_node = last.nodes[row] is current.nodes[row]
            if not is_same_node or last.answers[row] == current.answers[row]:
                continue
            if row not in changed:
                why = "nothing has changed there: it depends on more than sign and depends_on say"
            elif DependsOn.USAGE not in self._declared:
                why = "only the pods there have changed: depends_on has no DependsOn.USAGE"
            else:
                continue
            return f"the answer about {table.names[row]} has changed, but {why}"
        return ""


def _by_row(answers: Answers, alive: list[bool]) -> dict[int, Any]:
    """Row → verdict and, if it passes, score."""
    verdicts = answers.get("filter")
    if not isinstance(verdicts, list):
        verdicts = [0 if is_alive else None for is_alive in alive]
    by_row: dict[int, Any] = {
        row: [verdict] for row, verdict in enumerate(verdicts) if verdict is not None
    }
    passing = [row for row, verdict in enumerate(verdicts) if verdict == 0]
    scores = answers.get("score")
    if isinstance(scores, list) and len(scores) == len(passing):
        for row, score in zip(passing, scores, strict=True):
            by_row[row].append(score)
    return by_row
