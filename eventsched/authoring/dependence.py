"""Whether what a plugin declares is all that its answers depend on.

Its verdicts and scores are kept for pods of one signature, and asked again only for nodes that have
changed in what ``depends_on`` names. So an answer about a node that has not must be the old one.
"""

from typing import Any, NamedTuple

from eventsched.authoring.plugin_driver import Answers, Asking
from eventsched.domain.objects import Node
from eventsched.scheduling.framework import DependsOn, depends_on

_BEYOND = (DependsOn.IMAGES, DependsOn.SAMPLES)


class Kept(NamedTuple):
    """What was answered, by rows, and about which nodes. ``beyond`` are the versions of what
    answers may depend on besides a node and its pods."""

    answers: dict[int, Any]
    nodes: list[Node | None]
    usage: int
    beyond: tuple[int, int]


class Dependence:
    """Remembers the last answers for each signature."""

    def __init__(self, asking: Asking) -> None:
        self._table = asking.state.nodes
        self._declared = depends_on(asking.plugin)
        self._kept: dict[Any, Kept] = {}

    def compare(self, signature: Any, answers: Answers) -> str:
        """What is wrong with these answers to a pod of a signature, "" for nothing."""
        table = self._table
        mine = Kept(
            _by_rows(answers, table.alive[: table.size].tolist()),
            list(table.nodes),
            table.usage_journal.end,
            (table.image_version, table.samples.version),
        )
        before = self._kept.get(signature)
        self._kept[signature] = mine
        if before is None:
            return ""
        for part, old, new in zip(_BEYOND, before.beyond, mine.beyond, strict=True):
            if part in self._declared and old != new:
                return ""
        used = table.usage_journal.since(before.usage)
        changed = set(range(table.size)) if used is None else set(used.tolist())
        for row in sorted(before.answers.keys() & mine.answers.keys()):
            if before.nodes[row] is not mine.nodes[row] or before.answers[row] == mine.answers[row]:
                continue
            if row not in changed:
                why = "nothing has changed there: it depends on more than sign and depends_on say"
            elif DependsOn.USAGE not in self._declared:
                why = "only the pods there have changed: depends_on has no DependsOn.USAGE"
            else:
                continue
            return f"the answer about {table.names[row]} is another one, and {why}"
        return ""


def _by_rows(answers: Answers, alive: list[bool]) -> dict[int, Any]:
    """Verdict and score of each row that there is an answer about."""
    verdicts = answers.get("filter")
    if not isinstance(verdicts, list):
        verdicts = [0 if each else None for each in alive]
    found: dict[int, Any] = {row: [said] for row, said in enumerate(verdicts) if said is not None}
    passing = [row for row, said in enumerate(verdicts) if said == 0]
    scores = answers.get("score")
    if isinstance(scores, list) and len(scores) == len(passing):
        for row, score in zip(passing, scores, strict=True):
            found[row].append(score)
    return found
