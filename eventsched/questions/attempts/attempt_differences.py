"""What differs between two attempts of a pod, and what happened in between."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from eventsched.cli.output.headline_output import story_lines
from eventsched.cli.output.time_format import iso
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import AnyRecord, PodDecided
from eventsched.eventlog.port import StoredRecord
from eventsched.history.explain.evidence import Evidence, is_about
from eventsched.history.explain.explanation import explain
from eventsched.history.explain.record_text import describe_with_pod, pod_of, pods_named_in
from eventsched.questions.answer_shapes import Decision, RefusedNodes
from eventsched.questions.attempts.attempt_answers import (
    AttemptDifference,
    BetweenAttempts,
    NodeDifference,
    ScoreChange,
    VerdictChange,
)
from eventsched.questions.decisions import detail_of, stored_decision
from eventsched.questions.streams import LoggedStream
from eventsched.questions.verdict_pages import NoVerdictsError, VerdictTable, verdicts_of
from eventsched.questions.visibility import Visibility, visible_evidence

MOST_READ = 5_000
"""Records between two attempts that are looked at, besides the pod's own."""
MOST_LINES = 200
"""Lines about what happened in between."""
_PLACED = ("scheduled", "waiting")


def attempt_difference(
    stream: LoggedStream, sees: Visibility, first: int, second: int, offset: int, limit: int
) -> AttemptDifference:
    """What differs between the attempts at two positions, and ``limit`` of the nodes from number
    ``offset`` on. Raises InputError, also for attempts of different pods, and what
    ``stored_decision`` raises."""
    low, high = min(first, second), max(first, second)
    stored = [stored_decision(stream, sees, position) for position in (low, high)]
    before, after = (detail_of(stream, *each) for each in stored)
    if before.decision.uid != after.decision.uid:
        problem = f"positions {low} and {high} are attempts of two pods"
        raise InputError("other", problem, "take two attempts of one pod")
    old, new = (_table(stream, entry.position, record) for entry, record in stored)
    is_compared = old is not None and new is not None
    differing = [] if old is None or new is None else _node_differences(old, new)
    turned = sum(node.before != node.after for node in differing)
    end = min(len(differing), offset + limit)
    nodes = {node.node for node in differing if node.before != node.after}
    between = max(0, high - low - 1)
    read = min(between, MOST_READ)
    last = list(islice(stream.log.read(high - read), read))
    return AttemptDifference(
        stream=stream.name,
        before=before.decision,
        after=after.decision,
        counts=_verdict_changes(before.refusals, after.refusals),
        compared=is_compared,
        turned=turned,
        differing=len(differing),
        nodes=differing[offset:end],
        next=end if end < len(differing) else None,
        records=between,
        read=len(last),
        between=_between(stream, sees, before.decision, last, nodes),
    )


def _table(stream: LoggedStream, position: int, record: PodDecided) -> VerdictTable | None:
    """The verdicts of a decision; None if the log has none of single nodes."""
    try:
        return verdicts_of(stream, position, record)
    except NoVerdictsError:
        return None


def _verdict_changes(before: list[RefusedNodes], after: list[RefusedNodes]) -> list[VerdictChange]:
    """The refusals whose number of nodes differs, the largest difference first."""
    counts = [
        {(each.plugin, each.code, each.reason): each.nodes for each in side}
        for side in (before, after)
    ]
    found = [
        VerdictChange(
            plugin=key[0], code=key[1], reason=key[2],
            before=counts[0].get(key, 0), after=counts[1].get(key, 0),
        )
        for key in counts[0] | counts[1]
        if counts[0].get(key, 0) != counts[1].get(key, 0)
    ]  # fmt: skip
    return sorted(found, key=lambda change: -abs(change.after - change.before))


class _NodeSide(NamedTuple):
    """A node in one of two attempts: its verdict, and weighted scores if it was feasible."""

    verdict: str
    total: int | None
    scores: dict[str, int]


def _node_differences(before: VerdictTable, after: VerdictTable) -> list[NodeDifference]:
    """The nodes whose verdict differs, in the order of the log, then those whose scores moved, the
    total that moved furthest first."""
    sides = _sides(before), _sides(after)
    found = []
    for node in dict.fromkeys([*sides[0], *sides[1]]):
        old, new = sides[0].get(node), sides[1].get(node)
        if old == new:
            continue
        old_scores = {} if old is None else old.scores
        new_scores = {} if new is None else new.scores
        found.append(
            NodeDifference(
                node=node,
                before=None if old is None else old.verdict,
                after=None if new is None else new.verdict,
                total_before=None if old is None else old.total,
                total_after=None if new is None else new.total,
                scores=[
                    ScoreChange(
                        plugin=plugin, before=old_scores.get(plugin), after=new_scores.get(plugin)
                    )
                    for plugin in old_scores | new_scores
                    if old_scores.get(plugin) != new_scores.get(plugin)
                ],
            )
        )
    return sorted(found, key=_how_much)


def _how_much(node: NodeDifference) -> tuple[bool, int]:
    moved = abs((node.total_after or 0) - (node.total_before or 0))
    return node.before == node.after, 0 if node.before != node.after else -moved


def _sides(table: VerdictTable) -> dict[str, _NodeSide]:
    sides = {}
    for number, (node, refusal) in enumerate(zip(table.nodes, table.refusals, strict=True)):
        if number >= table.feasible:
            refuser = refusal.plugin or refusal.code
            sides[node] = _NodeSide(f"{refuser}: {refusal.reason}", None, {})
            continue
        scores = {
            values.plugin: int(values.normalized[number]) * values.weight for values in table.scores
        }
        sides[node] = _NodeSide("feasible", int(table.totals[number]), scores)
    return sides


# --- what happened in between -----------------------------------------------------------------


def _between(
    stream: LoggedStream,
    sees: Visibility,
    decision: Decision,
    stored: list[StoredRecord],
    nodes: set[str],
) -> list[BetweenAttempts]:
    """The last lines of the pod's story after a decision, and of what ``stored`` records say about
    the nodes. These are the records up to the other decision, or the last of them."""
    if not stored:
        return []
    evidence = visible_evidence(stream, sees)
    own = _own_lines(evidence, decision, stored[-1].position)
    elsewhere = _elsewhere(evidence, decision.uid, stored, nodes) if sees.is_whole else []
    return sorted([*own, *elsewhere], key=lambda line: line.position)[-MOST_LINES:]


def _own_lines(evidence: Evidence, decision: Decision, last: int) -> list[BetweenAttempts]:
    """The pod's story after an attempt, up to a position; attempts like this one are one line."""
    if decision.pod is None:
        return []
    explained = explain(evidence, decision.uid)
    kinds = {step.position: type(step.record).__name__ for step in explained.steps}
    return [
        BetweenAttempts(
            position=line.position,
            at=iso(line.at),
            kind=kinds[line.position],
            text=line.text,
            of_pod=True,
        )
        for line in story_lines(explained, between=(decision.position, last))
        if line.position > decision.position
    ]


def _elsewhere(
    evidence: Evidence, uid: str, stored: list[StoredRecord], nodes: set[str]
) -> list[BetweenAttempts]:
    """What records that are not about the pod say about the nodes."""
    homes = _Homes(evidence, stored)
    about_nodes = (
        entry
        for entry in stored
        if nodes & homes.touched(entry.record) and not is_about(entry.record, uid)
    )
    chosen = [(entry, entry.record) for entry in deque(about_nodes, MOST_LINES)]
    names = evidence.names({uid for _, record in chosen for uid in _uids(record)})
    return [
        BetweenAttempts(
            position=entry.position,
            at=iso(entry.at),
            kind=entry.kind,
            text=describe_with_pod(record, lambda uid: names.get(uid, uid)),
            of_pod=False,
        )
        for entry, record in chosen
    ]


def _uids(record: AnyRecord) -> Iterator[str]:
    uid = pod_of(record)
    if uid is not None:
        yield uid
    yield from pods_named_in(record)


class _Homes:
    """On which node what records say happened. Records of pods that left say only which pod."""

    def __init__(self, evidence: Evidence, stored: Iterable[StoredRecord]) -> None:
        gone = {
            entry.record.uid: entry.position
            for entry in stored
            if isinstance(entry.record, records.PodDeleted)
        }
        self._homes = evidence.homes(gone) if gone else {}

    def touched(self, record: AnyRecord) -> set[str]:
        """The nodes that a record changes."""
        match record:
            case records.NodeAdded(node=node) | records.NodeUpdated(node=node):
                return {node.name}
            case records.NodeDeleted(name=name):
                return {name}
            case records.PodDeleted(uid=uid):
                return {self._homes[uid]} if uid in self._homes else set()
            case PodDecided() if record.outcome.value in _PLACED:
                return {record.node}
            case records.PodAdded(pod=pod) if pod.node_name:
                return {pod.node_name}
            case records.PodUnreserved(node=node):
                return {node}
        return set()
