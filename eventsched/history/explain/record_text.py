"""Records in words: one line each, for people. Names come from whoever has looked them up."""

from collections import Counter
from collections.abc import Callable
from typing import Any

from eventsched.domain import records
from eventsched.domain.objects import canonical
from eventsched.domain.objects.registry import title
from eventsched.domain.records import AnyRecord, Outcome, PodDecided, PodQueued
from eventsched.domain.records.extender_questions import BIND, PREEMPT, PRIORITIZE, rows_of

Namer = Callable[[str], str]
"""``namespace/name`` of a uid; the uid itself where nobody knows it."""


CRITERIA = {
    "only": "the only candidate",
    "violations": "fewest budgets broken",
    "highest": "its most important victim matters least",
    "total": "least sum of priorities (each counted from -2^31 on)",
    "number": "fewest victims",
    "start": "its most important victims started last",
    "first": "the first of several that are alike",
}
"""What a criterion of a preemption says of the node."""


def pod_of(record: AnyRecord) -> str | None:
    """The uid of the pod that a record is about; None where it is about none."""
    if isinstance(record, records.PodAdded | records.PodUpdated):
        return record.pod.uid
    uid: str | None = getattr(record, "uid", None)
    return uid or None


def concerns(record: AnyRecord, uid: str) -> bool:
    """Whether a record is part of a pod's story: it is about it, or says that it has to go."""
    if isinstance(record, records.PreemptionDecided) and uid in record.victims:
        return True
    return pod_of(record) == uid


def named_in(record: AnyRecord) -> set[str]:
    """The uids of other pods that the words of a record name."""
    match record:
        case records.PermitGranted(by=by) | records.NominationCleared(by=by) if by:
            return {by}
        case records.PreemptionDecided():
            return {record.uid, *record.victims}
        case _:
            return set()


def displaced(record: records.PreemptionDecided, uid: str, name: Namer = str) -> str:
    """What a preemption says of one of its victims."""
    text = f"has to leave {record.node} for {name(record.uid)}"
    if uid in record.leaving:
        return f"{text}; it is being deleted already"
    return f"{text}; its bind still waits, and it is sent back" if uid in record.sent_back else text


def sentence(record: AnyRecord, name: Namer) -> str:
    """What a record says, with who it is about."""
    uid = pod_of(record)
    if uid is None:
        return _without_pod(record)
    if isinstance(record, records.PodAdded | records.PodUpdated):
        return f"{record.pod.full_name} {told(record)}"
    return f"{name(uid)} {told(record, name)}"


def told(record: AnyRecord, name: Namer = str) -> str:
    """What a record says of its pod, without naming it."""
    match record:
        case PodQueued():
            return move(record)
        case PodDecided():
            return attempt(record)
        case records.PodAdded():
            return f"arrived on {record.pod.node_name}" if record.pod.node_name else "arrived"
        case records.PodUpdated():
            node = record.pod.node_name
            return f"changed; it is on {node}" if node else "changed"
        case records.PodDeleted():
            return "is gone"
        case records.PreemptionDecided():
            victims = ", ".join(map(name, record.victims))
            several = "candidate" if record.candidates == 1 else "candidates"
            return (
                f"nominated to {record.node}, which {victims} {_has(record.victims)} to leave: "
                f"{CRITERIA.get(record.criterion, record.criterion)}; {record.candidates} "
                f"{several}, {record.looked} of {record.nodes} nodes tried"
            )
        case records.NominationCleared():
            by = f" for {name(record.by)}" if record.by else ""
            return f"no longer nominated to {record.node}: {record.cause}{by}"
        case records.PluginOverran():
            return f"attempt {record.attempt} is void and made again: {_overran(record)}"
        case records.ExtenderAsked() | records.ExtenderAnswered():
            return consultation(record)
        case records.ExtenderInquired() | records.ExtenderReplied():
            return inquiry(record)
        case records.PodSkipped():
            return f"leaves the queue without an attempt: {record.message}"
        case records.PermitGranted():
            by = f" on behalf of {name(record.by)}" if record.by else ""
            return f"may go on: {record.plugin} at Permit{by}"
        case _:
            return _binding(record)


def move(queued: PodQueued) -> str:
    """A move: the queue and its cause, in the records' own words."""
    text = f"queue {queued.queue.value}: {queued.cause}"
    if queued.plugin:
        text += f" ({queued.plugin})"
    if queued.cause == "AttemptFailed" and queued.rejectors:
        text += f", refused by {', '.join(queued.rejectors)}"
    return f"{text}: {queued.message}" if queued.message else text


def attempt(decided: PodDecided) -> str:
    """An attempt and how it ended."""
    text = f"attempt {decided.attempt}: "
    if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
        text += f"{decided.node} with {decided.score}, "
        text += f"{decided.feasible} of {decided.evaluated} nodes feasible"
        if decided.nominated:
            text += "; it was nominated to it"
        if decided.deadlines:
            text += f"; waits at Permit for {', '.join(decided.deadlines)}"
        if decided.binder:
            text += f"; extender {decided.binder} binds it"
        return text
    text += decided.outcome.value
    if decided.plugin:
        where = f" on {decided.node}" if decided.node else ""
        text += f" by {decided.plugin}{where}"
    return f"{text}: {decided.message}" if decided.message else text


def _overran(record: records.PluginOverran) -> str:
    took = f"took longer than {record.limit / 1e6:g} s"
    return f"{record.plugin} {took} in {record.point} and is not asked there"


def consultation(record: records.ExtenderAsked | records.ExtenderAnswered) -> str:
    """A question to an extender, or its answer."""
    if isinstance(record, records.ExtenderAsked):
        asked = f"extender {record.name} is asked to {_about(record.verb, record.number)}"
        return f"attempt {record.attempt}: {asked}"
    if record.problem:
        return f"extender {record.name} failed to {record.verb}: {record.problem}"
    text = f"extender {record.name} {_answer(record)}"
    return f"{text}; {record.remark}" if record.remark else text


def inquiry(record: records.ExtenderInquired | records.ExtenderReplied) -> str:
    """A question of another scheduler to us as its extender, or our answer."""
    if isinstance(record, records.ExtenderReplied):
        if record.problem:
            return f"answer: no {record.verb}: {record.problem}"
        if record.verb != BIND:
            return f"answer: {_answer(record)}"
        way = "on its way to" if record.waits else "on"
        return f"answer: it is {way} {record.node}"
    if record.verb == BIND:
        return f"another scheduler asks to bind it to {record.node}"
    number = len(rows_of(record.nodes)) + len(record.strange)
    text = f"another scheduler asks to {_about(record.verb, number)}"
    return f"{text}, {len(record.strange)} of them not known" if record.strange else text


def _about(verb: str, number: int) -> str:
    """``filter 1 node``, ``preempt 2 candidates``."""
    what = "candidate" if verb == PREEMPT else "node"
    return f"{verb} {number} {what}{'' if number == 1 else 's'}"


def _answer(answered: records.ExtenderAnswered | records.ExtenderReplied) -> str:
    if answered.verb == PREEMPT:
        return f"leaves the candidates {', '.join(answered.victims) or '(none)'}"
    if answered.verb == PRIORITIZE:
        given = [f"{score} to {len(rows_of(rows))}" for score, rows in reversed(answered.scores)]
        return f"gives scores: {', '.join(given)}" if given else "gives 0 to all nodes"
    refused = Counter[str]()
    for groups in (answered.failed, answered.unresolvable):
        for reason, rows in groups.items():
            refused[reason or "without a reason"] += len(rows_of(rows))
    if not refused:
        return "refused no node"
    said = ", ".join(f"{number} {reason}" for reason, number in sorted(refused.items()))
    number = sum(refused.values())
    return f"refused {number} {'node' if number == 1 else 'nodes'}: {said}"


def _has(pods: tuple[str, ...]) -> str:
    return "has" if len(pods) == 1 else "have"


def _binding(record: AnyRecord) -> str:
    match record:
        case records.PreparationIntended():
            text = f"before the bind to {record.node} {', '.join(record.deadlines)} waits"
            writes = [str(each) for asked in record.writes.values() for each in asked]
            return f"{text} for {', '.join(dict.fromkeys(writes))}" if writes else text
        case records.WriteSucceeded():
            return f"the cluster took it: {record.write}"
        case records.WriteFailed():
            return f"the cluster refused {record.write}: {record.message}"
        case records.BindIntended():
            return f"is to be bound to {record.node} (attempt {record.attempt})"
        case records.BindSucceeded():
            return f"is on {record.node}: the cluster accepted the bind"
        case records.EvictionSucceeded():
            return "is being deleted: the cluster accepted the eviction"
        case records.EvictionFailed():
            return f"eviction failed: {record.message}"
        case records.BindFailed():
            return f"bind to {record.node} failed: {record.message}"
        case records.BindRetried():
            return f"bind to {record.node} goes on (attempt {record.attempt})"
        case records.BindVoided():
            return f"bind to {record.node} was given up: {record.reason}"
        case records.PodBound():
            text = f"bound to {record.node}"
            return f"{text}; PostBind: {record.message}" if record.message else text
        case records.PodUnreserved():
            by = f" by {record.plugin}" if record.plugin else ""
            text = f"gives {record.node} up{by}"
            return f"{text}: {record.message}" if record.message else text
        case _:
            return type(record).__name__


def _without_pod(record: AnyRecord) -> str:
    match record:
        case records.NodeAdded():
            return f"{record.node.name} joined"
        case records.NodeUpdated():
            return f"{record.node.name} changed"
        case records.NodeOvercommitted():
            excess = [f"{wants} of {has} {name}" for name, (wants, has) in record.resources.items()]
            return f"{record.node} holds more than it has: {', '.join(excess)}"
        case records.NodeDeleted():
            return f"{record.name} left"
        case records.ObjectChanged():
            return f"{record.object.title} changed"
        case records.ObjectDeleted():
            return f"{title(record.type, record.namespace, record.name)} is gone"
        case records.TimePassed():
            return "time passed"
        case records.VerdictDefined():
            said = record.verdict
            reasons = ", ".join(said.reasons)
            return f"verdict {record.number}: {said.plugin or 'PreFilter'} {said.code}: {reasons}"
        case records.ScoringDefined():
            columns = ", ".join(f"{each.plugin} x {each.weight}" for each in record.columns)
            return f"scoring {record.number}: {columns}"
        case records.MemoryChanged():
            if record.value is None:
                return f"{record.plugin} forgets {record.key}"
            return f"{record.plugin} remembers {record.key} = {_value(record.value)}"
        case records.PluginOverran():
            return f"{_overran(record)} any more"
        case records.MemoryForgotten():
            asked = f"asked by {record.by} (request {record.request})"
            return f"{record.plugin} is to forget {record.key}, {asked}"
        case _:
            return _of_the_stream(record)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


def _of_the_stream(record: AnyRecord) -> str:
    match record:
        case records.StreamStarted():
            return f"stream begun by eventsched {record.engine}, seed {record.seed}"
        case records.SamplesTaken(values=values, problem=problem):
            number = f"{len(values)} {'node' if len(values) == 1 else 'nodes'}"
            text = f"{record.source}: samples of {number}" if values else f"{record.source}: none"
            return f"{text}; {problem}" if problem else text
        case records.TermBegan(engine=""):
            return f"epoch {record.epoch} began"
        case records.TermBegan():
            return f"epoch {record.epoch} began, by eventsched {record.engine} configured anew"
        case records.HistoryLost():
            return f"history was lost: the database is on {record.timeline}"
        case records.WatchRelisted():
            gap = f"from {record.since} to {record.upto}"
            return f"the watch of {record.resource} had a gap, {gap}: listed again"
        case _:
            return type(record).__name__
