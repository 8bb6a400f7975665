"""Describes records, one line each. The caller looks up the names of pods."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from eventsched.domain import records
from eventsched.domain.nodes.row_ranges import rows_of
from eventsched.domain.objects import canonical
from eventsched.domain.objects.registry import title
from eventsched.domain.records import (
    AnyRecord,
    MoveCause,
    Outcome,
    PlacementMatch,
    PodDecided,
    PodQueued,
    Record,
)
from eventsched.domain.records.extender_records import BIND, PREEMPT, PRIORITIZE
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.records.stimuli import WHAT_IF

Namer = Callable[[str], str]
"""Gives ``namespace/name`` for a uid, or the uid itself if it is unknown."""


CRITERIA = {
    "only": "the only candidate",
    "violations": "fewest disruption budgets violated",
    "highest": "the priority of its most important victim is lowest",
    "total": "lowest sum of the victims' priorities (each plus 2^31)",
    "number": "fewest victims",
    "start": "its most important victims started latest",
    "first": "the first of several equal candidates",
}
"""What the criterion of a preemption says about the chosen node."""
_UIDS = {row.record: row.uid for row in CATALOGUE if row.pod}


def pod_of(record: AnyRecord) -> str | None:
    """The uid of the pod that a record is about; None if it is about none."""
    uid_of = _UIDS.get(type(record))
    return None if uid_of is None else uid_of(record) or None


def concerns(record: AnyRecord, uid: str) -> bool:
    """Whether a record is about a pod, or is a preemption with the pod as a victim."""
    if isinstance(record, records.PreemptionDecided) and uid in record.victims:
        return True
    return pod_of(record) == uid


def pods_named_in(record: AnyRecord) -> set[str]:
    """The uids of other pods that the description of a record names."""
    match record:
        case records.PermitGranted(by=by) | records.NominationCleared(by=by) if by:
            return {by}
        case records.PreemptionDecided():
            return {record.uid, *record.victims}
        case _:
            return set()


def describe_victim(record: records.PreemptionDecided, uid: str, name: Namer = str) -> str:
    """What a preemption says about one of its victims."""
    text = f"has to leave {record.node} for {name(record.uid)}"
    if uid in record.leaving:
        return f"{text}; it is being deleted already"
    return f"{text}; its bind still waits, and it is sent back" if uid in record.sent_back else text


def describe_with_pod(record: AnyRecord, name: Namer) -> str:
    """The description of a record, with the name of its pod."""
    text = describe(record, name)
    if isinstance(record, records.PodAdded | records.PodUpdated):
        return f"{record.pod.full_name} {text}"
    uid = pod_of(record)
    return text if uid is None else f"{name(uid)} {text}"


def describe(record: AnyRecord, name: Namer = str) -> str:
    """The description of a record, without the name of its pod."""
    kind = type(record)
    template = _TEMPLATES.get(kind)
    return _TEXTS[kind](record, name) if template is None else template.format(record)


_TEMPLATES: dict[type[Record], str] = {
    records.HistoryLost: "history was lost: the database is on {0.timeline}",
    records.WatchRelisted: (
        "the watch of {0.resource} had a gap, from {0.since} to {0.upto}: listed again"
    ),
    records.NodeAdded: "{0.node.name} joined",
    records.NodeUpdated: "{0.node.name} changed",
    records.NodeDeleted: "{0.name} left",
    records.PodDeleted: "is gone",
    records.ObjectChanged: "{0.object.title} changed",
    records.BindSucceeded: "is on {0.node}: the cluster accepted the bind",
    records.BindFailed: "bind to {0.node} failed: {0.message}",
    records.EvictionSucceeded: "is being deleted: the cluster accepted the eviction",
    records.EvictionFailed: "eviction failed: {0.message}",
    records.BindRetried: "bind to {0.node} is retried (attempt {0.attempt})",
    records.BindVoided: "bind to {0.node} was given up: {0.reason}",
    records.WriteSucceeded: "the cluster accepted {0.write}",
    records.WriteFailed: "the cluster refused {0.write}: {0.message}",
    records.MemoryForgotten: ("{0.plugin} has to forget {0.key}: request {0.request}, by {0.by}"),
    records.TimePassed: "time passed",
    records.BindIntended: "is to be bound to {0.node} (attempt {0.attempt})",
    records.PodSkipped: "leaves the queue without an attempt: {0.message}",
}
"""Kinds whose description is a template for the record's fields."""


def _stream_started(started: records.StreamStarted, _: Namer) -> str:
    text = f"stream started by eventsched {started.engine}, seed {started.seed}"
    return text + _origin(started.inputs)


def _origin(inputs: Mapping[str, str]) -> str:
    """Where a stream comes from that is the result of a what-if run."""
    return f"; what if, of {inputs[WHAT_IF]}" if WHAT_IF in inputs else ""


def _term_began(began: records.TermBegan, _: Namer) -> str:
    text = f"epoch {began.epoch} began{_origin(began.inputs)}"
    if not began.engine:
        return text
    return f"{text}; a new version or configuration takes effect (eventsched {began.engine})"


def _pod_added(added: records.PodAdded, _: Namer) -> str:
    return f"arrived on {added.pod.node_name}" if added.pod.node_name else "arrived"


def _pod_updated(updated: records.PodUpdated, _: Namer) -> str:
    node = updated.pod.node_name
    return f"changed; it is on {node}" if node else "changed"


def _object_deleted(deleted: records.ObjectDeleted, _: Namer) -> str:
    return f"{title(deleted.type, deleted.namespace, deleted.name)} is gone"


def _plugin_overran(overran: records.PluginOverran, _: Namer) -> str:
    took = f"took longer than {overran.limit / 1e6:g} s"
    text = f"{overran.plugin} {took} in {overran.point} and is not called there"
    if not overran.uid:
        return f"{text} any more"
    return f"attempt {overran.attempt} is void and is repeated: {text}"


def _samples_taken(taken: records.SamplesTaken, _: Namer) -> str:
    number = f"{len(taken.values)} {'node' if len(taken.values) == 1 else 'nodes'}"
    text = f"{taken.source}: samples of {number}" if taken.values else f"{taken.source}: none"
    return f"{text}; {taken.problem}" if taken.problem else text


def _partition_sealed(sealed: records.PartitionSealed, _: Namer) -> str:
    files = f"archived in {len(sealed.archived)} files" if sealed.archived else "not archived"
    return (
        f"the records from {sealed.first} to before {sealed.next} are sealed, {files}, "
        f"with a checkpoint at {sealed.checkpoint}"
    )


def _verdict_defined(defined: records.VerdictDefined, _: Namer) -> str:
    verdict = defined.verdict
    reasons = ", ".join(verdict.reasons)
    return f"verdict {defined.number}: {verdict.plugin or 'PreFilter'} {verdict.code}: {reasons}"


def _scoring_defined(defined: records.ScoringDefined, _: Namer) -> str:
    columns = ", ".join(f"{column.plugin} x {column.weight}" for column in defined.columns)
    return f"scoring {defined.number}: {columns}"


def _memory_changed(changed: records.MemoryChanged, _: Namer) -> str:
    if changed.value is None:
        return f"{changed.plugin} forgets {changed.key}"
    value = changed.value if isinstance(changed.value, str) else canonical(changed.value).decode()
    return f"{changed.plugin} remembers {changed.key} = {value}"


def _node_overcommitted(crowded: records.NodeOvercommitted, _: Namer) -> str:
    excess = [
        f"{requested} of {allocatable} {name}"
        for name, (requested, allocatable) in crowded.resources.items()
    ]
    return f"pods on {crowded.node} request more than it has: {', '.join(excess)}"


def _permit_granted(granted: records.PermitGranted, name: Namer) -> str:
    by = f" on behalf of {name(granted.by)}" if granted.by else ""
    return f"allowed by {granted.plugin} at Permit{by}"


def _preparation_intended(intended: records.PreparationIntended, _: Namer) -> str:
    text = f"before the bind to {intended.node} {', '.join(intended.deadlines)} waits"
    writes = [str(write) for requested in intended.writes.values() for write in requested]
    return f"{text} for {', '.join(dict.fromkeys(writes))}" if writes else text


def _pod_unreserved(unreserved: records.PodUnreserved, _: Namer) -> str:
    by = f" by {unreserved.plugin}" if unreserved.plugin else ""
    text = f"gives up {unreserved.node}{by}"
    return f"{text}: {unreserved.message}" if unreserved.message else text


def _pod_bound(bound: records.PodBound, _: Namer) -> str:
    text = f"bound to {bound.node}"
    return f"{text}; PostBind: {bound.message}" if bound.message else text


def _preemption_decided(decided: records.PreemptionDecided, name: Namer) -> str:
    victims = ", ".join(map(name, decided.victims))
    have = "has" if len(decided.victims) == 1 else "have"
    several = "candidate" if decided.candidates == 1 else "candidates"
    return (
        f"nominated to {decided.node}, which {victims} {have} to leave: "
        f"{CRITERIA.get(decided.criterion, decided.criterion)}; {decided.candidates} "
        f"{several}, {decided.looked} of {decided.nodes} nodes tried"
    )


def _nomination_cleared(cleared: records.NominationCleared, name: Namer) -> str:
    by = f" for {name(cleared.by)}" if cleared.by else ""
    return f"no longer nominated to {cleared.node}: {cleared.cause}{by}"


def _pod_queued(queued: PodQueued, _: Namer) -> str:
    text = f"queue {queued.queue.value}: {queued.cause}"
    if queued.plugin:
        text += f" ({queued.plugin})"
    if queued.cause == MoveCause.ATTEMPT_FAILED and queued.rejectors:
        text += f", refused by {', '.join(queued.rejectors)}"
    return f"{text}: {queued.message}" if queued.message else text


def _pod_decided(decided: PodDecided, _: Namer) -> str:
    text = f"attempt {decided.attempt}: "
    if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
        text += f"{decided.node} with {decided.score}, "
        text += f"{decided.feasible} of {decided.evaluated} nodes feasible"
        if decided.nominated:
            text += "; the pod was nominated to it"
        if decided.deadlines:
            text += f"; waits at Permit for {', '.join(decided.deadlines)}"
        if decided.binder:
            text += f"; extender {decided.binder} binds it"
        return text
    text += decided.outcome.value
    if decided.plugin:
        on_node = f" on {decided.node}" if decided.node else ""
        text += f" by {decided.plugin}{on_node}"
    return f"{text}: {decided.message}" if decided.message else text


def _extender_asked(question: records.ExtenderAsked, _: Namer) -> str:
    action = _about(question.verb, question.number)
    return f"attempt {question.attempt}: extender {question.name} is asked to {action}"


def _extender_answered(answered: records.ExtenderAnswered, _: Namer) -> str:
    if answered.problem:
        return f"extender {answered.name} failed to {answered.verb}: {answered.problem}"
    text = f"extender {answered.name} {_answer(answered)}"
    return f"{text}; {answered.remark}" if answered.remark else text


def _extender_inquired(inquired: records.ExtenderInquired, _: Namer) -> str:
    if inquired.verb == BIND:
        return f"another scheduler asks to bind it to {inquired.node}"
    number = len(rows_of(inquired.nodes)) + len(inquired.strange)
    text = f"another scheduler asks to {_about(inquired.verb, number)}"
    return f"{text}, {len(inquired.strange)} of them unknown" if inquired.strange else text


def _extender_replied(replied: records.ExtenderReplied, _: Namer) -> str:
    if replied.problem:
        return f"answer: no {replied.verb}: {replied.problem}"
    if replied.verb != BIND:
        return f"answer: {_answer(replied)}"
    way = "on its way to" if replied.waits else "on"
    return f"answer: it is {way} {replied.node}"


def _about(verb: str, number: int) -> str:
    """``filter 1 node``, ``preempt 2 candidates``."""
    noun = "candidate" if verb == PREEMPT else "node"
    return f"{verb} {number} {noun}{'' if number == 1 else 's'}"


def _answer(answered: records.ExtenderAnswered | records.ExtenderReplied) -> str:
    if answered.verb == PREEMPT:
        return f"leaves the candidates {', '.join(answered.victims) or '(none)'}"
    if answered.verb == PRIORITIZE:
        scores = [f"{score} to {len(rows_of(rows))}" for score, rows in reversed(answered.scores)]
        return f"gives scores: {', '.join(scores)}" if scores else "gives 0 to all nodes"
    refused = Counter[str]()
    for groups in (answered.failed, answered.unresolvable):
        for reason, rows in groups.items():
            refused[reason or "without a reason"] += len(rows_of(rows))
    if not refused:
        return "refused no node"
    reasons = ", ".join(f"{number} {reason}" for reason, number in sorted(refused.items()))
    number = sum(refused.values())
    return f"refused {number} {'node' if number == 1 else 'nodes'}: {reasons}"


def _placement_compared(compared: records.PlacementCompared, _: Namer) -> str:
    node, chosen, attempt = compared.node, compared.chosen, compared.attempt
    match compared.outcome:
        case PlacementMatch.SAME:
            return f"was placed on {node}, as attempt {attempt} decided here"
        case PlacementMatch.ONLY_HERE:
            return f"is gone unplaced; attempt {attempt} had chosen {chosen} here"
        case PlacementMatch.UNDECIDED:
            return f"was placed on {node} before it was decided here"
        case PlacementMatch.DIFFERENT:
            text = f"was placed on {node}; attempt {attempt} had chosen {chosen} here"
        case PlacementMatch.ONLY_THERE:
            text = f"was placed on {node}; attempt {attempt} had found no node here"
    if not compared.feasible:
        by = f" by {compared.plugin}" if compared.plugin else ""
        reasons = f": {', '.join(compared.reasons)}" if compared.reasons else ""
        return f"{text}. {node} is refused here{by}{reasons}"
    text = f"{text}. {node} has {compared.score} here"
    return f"{text}, {chosen} {compared.chosen_score}" if chosen else f"{text} now"


_TEXTS: dict[type[Record], Callable[[Any, Namer], str]] = {
    records.StreamStarted: _stream_started,
    records.TermBegan: _term_began,
    records.PodAdded: _pod_added,
    records.PodUpdated: _pod_updated,
    records.ObjectDeleted: _object_deleted,
    records.ExtenderAnswered: _extender_answered,
    records.ExtenderInquired: _extender_inquired,
    records.PluginOverran: _plugin_overran,
    records.SamplesTaken: _samples_taken,
    records.PartitionSealed: _partition_sealed,
    records.VerdictDefined: _verdict_defined,
    records.ScoringDefined: _scoring_defined,
    PodQueued: _pod_queued,
    PodDecided: _pod_decided,
    records.PermitGranted: _permit_granted,
    records.PreparationIntended: _preparation_intended,
    records.PodUnreserved: _pod_unreserved,
    records.PodBound: _pod_bound,
    records.PreemptionDecided: _preemption_decided,
    records.NominationCleared: _nomination_cleared,
    records.NodeOvercommitted: _node_overcommitted,
    records.MemoryChanged: _memory_changed,
    records.ExtenderAsked: _extender_asked,
    records.ExtenderReplied: _extender_replied,
    records.PlacementCompared: _placement_compared,
}
"""The functions that describe all other kinds."""
