"""What differs between two attempts of a pod, and what happened in between."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import AnyRecord, PodDecided
from eventsched.eventlog.port import StoredRecord
from eventsched.history.decision_vectors import VectorSource
from eventsched.history.evidence_until import EvidenceUntil, explain_newest
from eventsched.history.explain.evidence import Evidence, is_about
from eventsched.history.explain.record_text import describe_with_pod, pod_of, pods_named_in
from eventsched.output.headline_output import story_lines
from eventsched.output.time_format import iso, moment
from eventsched.questions.answer_shapes import Decision, RefusedNodes
from eventsched.questions.attempts.attempt_answers import (
    AttemptDifference,
    BetweenAttempts,
    NodeDifference,
    ScoreChange,
    VerdictChange,
)
from eventsched.questions.attempts.attempt_conclusions import (
    Sides,
    conclusion,
    gained,
    node_sides,
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
_MAKES_ROOM = records.NodeAdded | records.NodeUpdated | records.PodDeleted | records.PodUnreserved


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
    tables = [_table(stream, entry.position, record) for entry, record in stored]
    sides = [node_sides(table) for table in tables if table is not None]
    is_compared = len(sides) == len(tables)
    differing = _node_differences(*sides) if is_compared else []
    turned = [node for node in differing if node.before != node.after]
    end = min(len(differing), offset + limit)
    between = max(0, high - low - 1)
    read = min(between, MOST_READ)
    last = list(islice(stream.log.read(high - read), read))
    is_whole = all(table and table.source is VectorSource.ALL for table in tables)
    concluded = None
    if is_whole:
        old, new = sides
        causes = _causes(stream, sees, last, set(gained(old, new)))
        concluded = conclusion((before.decision.node, after.decision.node), old, new, causes)
    return AttemptDifference(
        stream=stream.name,
        before=before.decision,
        after=after.decision,
        counts=_verdict_changes(before.refusals, after.refusals),
        compared=is_compared,
        conclusion=concluded,
        turned=len(turned),
        differing=len(differing),
        nodes=differing[offset:end],
        next=end if end < len(differing) else None,
        records=between,
        read=len(last),
        between=_between(stream, sees, before.decision, last, turned),
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


def _node_differences(before: Sides, after: Sides) -> list[NodeDifference]:
    """The nodes whose verdict differs, in the order of the log with those last that other pods do
    not matter to, then those whose scores moved, the total that moved furthest first."""
    found = []
    for node in dict.fromkeys([*before, *after]):
        old, new = before.get(node), after.get(node)
        if (old and old.shown) == (new and new.shown):
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
                unresolvable=all(side and side.is_unresolvable for side in (old, new)),
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


def _how_much(node: NodeDifference) -> tuple[bool, bool, int]:
    moved = abs((node.total_after or 0) - (node.total_before or 0))
    is_same = node.before == node.after
    return is_same, node.unresolvable, -moved if is_same else 0


# --- what happened in between -----------------------------------------------------------------


def _between(
    stream: LoggedStream,
    sees: Visibility,
    decision: Decision,
    stored: list[StoredRecord],
    nodes: list[NodeDifference],
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
    explained = explain_newest(EvidenceUntil(evidence, last + 1), decision.uid)
    kinds = {step.position: type(step.record).__name__ for step in explained.steps}
    return [
        BetweenAttempts(
            position=line.position,
            at=iso(line.at),
            kind=kinds[line.position],
            text=line.text,
            of_pod=True,
            on_candidate=False,
        )
        for line in story_lines(explained, between=(decision.position, last))
        if line.position > decision.position
    ]


def _elsewhere(
    evidence: Evidence, uid: str, stored: list[StoredRecord], nodes: list[NodeDifference]
) -> list[BetweenAttempts]:
    """What records that are not about the pod say about the nodes."""
    homes = _Homes(evidence, stored)
    turned = {node.node for node in nodes}
    candidates = {node.node for node in nodes if not node.unresolvable}
    about_nodes = (
        entry
        for entry in stored
        if turned & homes.touched(entry.record) and not is_about(entry.record, uid)
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
            on_candidate=bool(candidates & homes.touched(record)),
        )
        for entry, record in chosen
    ]


def _causes(
    stream: LoggedStream, sees: Visibility, stored: list[StoredRecord], nodes: set[str]
) -> dict[str, str]:
    """What ``stored`` records say last that made room on nodes, in words; for those who may see
    all pods."""
    if not nodes or not sees.is_whole:
        return {}
    evidence = visible_evidence(stream, sees)
    homes = _Homes(evidence, stored)
    made_room = {
        node: entry
        for entry in stored
        if isinstance(entry.record, _MAKES_ROOM)
        for node in nodes & homes.touched(entry.record)
    }
    names = evidence.names({uid for entry in made_room.values() for uid in _uids(entry.record)})
    return {node: _cause(entry, names) for node, entry in made_room.items()}


def _cause(entry: StoredRecord, names: Mapping[str, str]) -> str:
    at = moment(entry.at)
    match entry.record:
        case records.NodeAdded():
            return f"it joined at {at}"
        case records.NodeUpdated():
            return f"it changed at {at}"
        case record:
            uid = pod_of(record) or ""
            return f"{names.get(uid, uid)} left it at {at}"


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
