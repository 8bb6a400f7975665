"""The operations of the API: what each path asks, with its parameters and the shape of its answer.
Requests are dispatched from these rows, and the OpenAPI document is made from them."""

from typing import Any

from eventsched.api import parameters as p
from eventsched.api.arrow import arrow_stream
from eventsched.api.desk import present_or_past as past
from eventsched.api.desk.asked import Asked, Operation
from eventsched.api.desk.position_range import position_range
from eventsched.api.findings.finding_operations import FINDING_OPERATIONS
from eventsched.domain.errors import InputError
from eventsched.history.past_state.waiting_pods import PLACES
from eventsched.output.queues.group_keys import BY
from eventsched.questions import answer_shapes as answers
from eventsched.questions.attempts import attempt_answers
from eventsched.questions.attempts.attempt_differences import attempt_difference
from eventsched.questions.attempts.verdict_columns import verdict_columns
from eventsched.questions.decisions import DecisionFilter, decisions_page
from eventsched.questions.difference_pages import difference_page
from eventsched.questions.explanations import (
    pod_remedies,
    workload_explanation,
)
from eventsched.questions.overviews.grouped_pods import GroupedPods
from eventsched.questions.overviews.recent_activity import RecentActivity
from eventsched.questions.past.positions import LogPosition
from eventsched.questions.pods.pod_orders import SORTS
from eventsched.questions.pods.pod_rows import PENDING, STATES
from eventsched.questions.states import PARTS, QUEUES, StateQuestion, state_answer
from eventsched.questions.trials import MOST_PODS, trial_answer
from eventsched.questions.verdict_pages import verdict_table, verdicts_page
from eventsched.questions.waiting import anomalies_answer, queue_page


def _streams(asked: Asked) -> Any:
    return asked.desk.streams.answer()


_SCHEMA_OUTCOMES = ("scheduled", "unschedulable", "waiting", "error")


def _decisions(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    if values["before"] is not None and values["after"] is not None:
        raise InputError("after", "excludes before", "leave one of them out")
    if values.get("wait") and values["after"] is None:
        raise InputError("wait", "is for what comes after a position", "give after as well")
    low, high = position_range(asked, stream)
    if values["after"] is not None:
        low = max(low, values["after"])
    if values["before"] is not None:
        high = values["before"] if high is None else min(high, values["before"])
    names = ("namespace", "pod", "owner", "reason", "plugin", "node", "profile", "outcome")
    wanted = DecisionFilter(low=low, high=high, **{name: values[name] for name in names})
    newest = values["after"] is None
    return decisions_page(stream, asked.sees, wanted, values["limit"], newest=newest)


def _verdicts(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    table = verdict_table(stream, asked.sees, values["position"])
    return verdicts_page(stream, table, values["offset"], values["limit"])


def _verdicts_as_arrow(asked: Asked) -> bytes:
    table = verdict_table(asked.stream(), asked.sees, asked.values["position"])
    return arrow_stream(table)


def _columns(asked: Asked) -> Any:
    plugins = list(asked.desk.plugins)
    return verdict_columns(asked.stream(), asked.sees, asked.values["position"], plugins)


def _changes(asked: Asked) -> Any:
    values = asked.values
    places, page = (values["position"], values["other"]), (values["offset"], values["limit"])
    return attempt_difference(asked.stream(), asked.sees, *places, *page)


def _why_not(asked: Asked) -> Any:
    asked.sees.require_whole("why-not")  # before it shows whether a pod exists
    values, plugins, stream = asked.values, list(asked.desk.plugins), asked.stream()
    pod = past.pod_of_path(asked, stream)
    return pod_remedies(
        stream, asked.sees, asked.desk.states, pod, values["attempt"], values["node"], plugins
    )


def _workload(asked: Asked) -> Any:
    word, namespace = past.workload_of_path(asked), asked.values["namespace"]
    return workload_explanation(
        asked.stream(), asked.sees, asked.desk.states, namespace, word, list(asked.desk.plugins)
    )


def _state(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    given = [name for name in ("node", "pod", "queue") if values[name] is not None]
    if len(given) > 1:
        raise InputError(given[1], f"excludes {given[0]}", "leave one of them out")
    names = ("node", "pod", "queue", "part", "offset", "limit")
    question = StateQuestion(**{name: values[name] for name in names})
    with asked.desk.states.at(stream, values["at"]) as folded:
        return state_answer(stream, asked.sees, folded, question)


def _queue(asked: Asked) -> Any:
    values, stream, plugins = asked.values, asked.stream(), list(asked.desk.plugins)
    with asked.desk.states.at(stream, values["at"]) as folded:
        return queue_page(
            stream, asked.sees, folded, values["queue"], values["offset"], values["limit"],
            plugins, is_now=values["at"] is None,
        )  # fmt: skip


def _anomalies(asked: Asked) -> Any:
    stream, at = asked.stream(), asked.values["at"]
    past = None if at is None else asked.desk.states.past(stream, at)
    return anomalies_answer(stream, asked.sees, asked.values["limit"], past)


def _diff(asked: Asked) -> Any:
    values, desk = asked.values, asked.desk
    return difference_page(
        asked.stream(), asked.sees, desk.states, values["from"], values["to"], values["offset"],
        values["limit"],
    )  # fmt: skip


def _try(asked: Asked) -> Any:
    values, plugins = asked.values, list(asked.desk.plugins)
    return trial_answer(
        asked.stream(), asked.sees, asked.desk.states, values["at"], asked.body, values["count"],
        plugins, in_words=bool(values.get("text")), full=bool(values.get("full")),
        display=p.display_of(values),
    )  # fmt: skip


def new_decisions(asked: Asked) -> answers.Decisions:
    """The decisions of /events from position ``after`` on, the oldest first."""
    unset = dict.fromkeys(("from", "until", "before"), None)
    whole = asked._replace(values={**asked.values, **unset, "limit": p.LIMIT})
    found: answers.Decisions = _decisions(whole)
    return found


def head_of(asked: Asked) -> int:
    """The position of the next record of the stream."""
    return asked.stream().rows.head


_STATE = p.Parameter(
    "state", "in this state; pending: in a queue or gated", values=(PENDING, *STATES, "gone")
)
_POD_FILTERS = (
    p.STREAM, p.NAMESPACE, p.Parameter("name", "of this name"),
    p.Parameter("name_contains", "whose name has this text, or namespace/name for a text with a /"),
    p.Parameter("owner", "that exist with exactly this controller: NAME, or KIND/NAME (sts/db)"),
    _STATE, p.REASON, p.PLUGIN,
    p.NODE, p.PROFILE, p.Parameter("group", "of this group: a key of /pods/groups"),
    p.Parameter("from", "whose last attempt was at this position or time, or later"),
    p.Parameter("until", "whose last attempt was before this position or time"),
)  # fmt: skip
_NODES = p.Parameter("nodes", "false leaves the nodes out", "boolean", default=True)
_OF_POD = (p.POD_NAMESPACE, p.POD_NAME, p.POD_UID, p.STREAM)
_WORDS = (p.WIDTH, p.FULL, p.BARS, p.COLOURS)
_OUTCOME = p.Parameter("outcome", "with this outcome", values=_SCHEMA_OUTCOMES)
_AFTER = p.Parameter("after", "from this position on, the oldest first", "integer")
_WAIT = p.Parameter(
    "wait", "with after: seconds to wait for a decision, such as 20s", kind="seconds"
)

EVENTS = Operation(
    "/events", "New decisions as server-sent events, and the head of the log when it moves",
    (p.STREAM, p.NAMESPACE, p.Parameter("pod", "of pods of this name"), p.OWNER, p.REASON,
     p.PLUGIN, p.NODE, p.PROFILE, _OUTCOME,
     p.Parameter("after", "from this position on; by default what comes from now on", "integer")),
    answers.Decision, new_decisions,
)  # fmt: skip

OPERATIONS = (
    Operation("/streams", "The streams of the log", (), answers.Streams, _streams),
    Operation(
        "/position", "Where in the log a position or time is", (p.STREAM, p.AT),
        LogPosition, past.position_answer,
    ),
    Operation(
        "/now", "What happens now, or happened: queues, reasons, rates, nodes",
        (p.STREAM, _NODES, p.AT), answers.Now, past.now_answer, refresh=past.fill_nodes,
        slow_with="at",
    ),
    Operation(
        "/activity", "Decisions and waiting times over the last hour, in steps", (p.STREAM, p.AT),
        RecentActivity, past.activity_answer,
    ),
    Operation(
        "/decisions", "Decisions by position, newest first",
        (p.STREAM, p.NAMESPACE, p.Parameter("pod", "of pods of this name"), p.OWNER, p.REASON,
         p.PLUGIN, p.NODE, p.PROFILE, _OUTCOME, p.FROM, p.UNTIL, p.BEFORE, _AFTER, _WAIT,
         p.PAGE_LIMIT),
        answers.Decisions, _decisions, waits=True,
    ),
    Operation(
        "/decisions/{position}", "One decision", (p.POSITION, p.STREAM, p.AT),
        answers.DecisionDetail, past.decision_answer,
    ),
    Operation(
        "/decisions/{position}/verdicts", "Every node's verdict and scores in one decision",
        (p.POSITION, p.STREAM, p.OFFSET, p.PAGE_LIMIT), answers.Verdicts, _verdicts,
        arrow=_verdicts_as_arrow,
    ),
    Operation(
        "/decisions/{position}/columns", "The same of all nodes at once, by column",
        (p.POSITION, p.STREAM), attempt_answers.VerdictColumns, _columns,
    ),
    Operation(
        "/decisions/{position}/changes/{other}", "What differs between two attempts of a pod",
        (p.POSITION,
         p.Parameter("other", "the position of the other attempt", "integer", "path",
                     required=True),
         p.STREAM, p.OFFSET, p.PAGE_LIMIT),
        attempt_answers.AttemptDifference, _changes,
    ),
    Operation(
        "/pods", "Pods, one row each",
        (*_POD_FILTERS,
         p.Parameter("ever", "also pods that are gone, those of the newest attempts first",
                     "boolean", default=False),
         p.Parameter("sort", "the order; - turns it around", values=tuple(
             f"{sign}{each}" for each in SORTS for sign in ("-", ""))),
         p.Parameter("count", "true adds how many pods there are (`total`)", "boolean",
                     default=False),
         p.Parameter("cursor", "where to go on: next of the page before"), p.PAGE_LIMIT, p.AT),
        answers.Pods, past.pods_answer, slow_with="at",
    ),
    Operation(
        "/pods/groups", "Pods counted by owner, or by the refusal that is named first",
        (*_POD_FILTERS,
         p.Parameter("by", "what they are grouped by", values=BY, required=True), p.OFFSET,
         p.PAGE_LIMIT, p.AT),
        GroupedPods, past.pod_groups_answer, slow_with="at",
    ),
    Operation(
        "/pods/{namespace}/{name}/explain", "A pod's story: why it is there, or nowhere",
        (*_OF_POD, p.ATTEMPT, p.Parameter("node", "why not this node, or how it scored"), *_WORDS,
         p.AT),
        "Explanation", past.explanation_answer,
    ),
    Operation(
        "/pods/{namespace}/{name}/timeline", "A pod's queues, attempts and waits as bars over time",
        (*_OF_POD, p.AT), attempt_answers.Timeline, past.timeline_answer,
    ),
    Operation(
        "/pods/{namespace}/{name}/why-not",
        "A change with which it lands on a node, and of which no part can be left out",
        (*_OF_POD, p.ATTEMPT, p.Parameter("node", "the node", required=True), p.WIDTH,
         p.COLOURS),
        "Remedies", _why_not, slow=True,
    ),
    Operation(
        "/workloads/{namespace}/{kind}/{name}/explain", "A workload's pods, by why they wait",
        (p.Parameter("namespace", "the workload's namespace; - for any", place="path",
                     required=True),
         p.Parameter("kind", "deploy, job, rs, sts, ds or group; or as kubectl takes it",
                     place="path", required=True),
         p.Parameter("name", "the workload's name", place="path", required=True), p.STREAM,
         *_WORDS),
        "Workload", _workload, slow=True,
    ),
    Operation(
        "/state", "What the scheduler believed at a position",
        (p.STREAM, p.AT, p.Parameter("node", "this node, with its pods"),
         p.Parameter("pod", "this pod: namespace/name, a name or a uid"),
         p.Parameter("queue", "the pods in this queue", values=QUEUES),
         p.Parameter("part", "numbers only, or a page of nodes or pods", values=PARTS,
                     default="summary"),
         p.OFFSET, p.PAGE_LIMIT),
        "State", _state, slow=True,
    ),
    Operation(
        "/queue", "Which pods wait, in which order, and what for",
        (p.STREAM, p.AT, p.Parameter("queue", "only this one", values=PLACES), p.OFFSET,
         p.PAGE_LIMIT, p.WIDTH, p.FULL, p.WIDE, p.COLOURS),
        answers.QueueAnswer, _queue, slow=True,
    ),
    Operation(
        "/queue/anomalies", "Pods that starve, and evictions and nominations that do not help",
        (p.STREAM, p.PAGE_LIMIT, p.AT), answers.AnomaliesAnswer, _anomalies, slow=True,
    ),
    Operation(
        "/diff", "What differs between the states at two positions",
        (p.STREAM,
         p.Parameter("from", "a position or time, as `at` of /state takes it", required=True),
         p.Parameter("to", "a later one; now by default"), p.OFFSET, p.PAGE_LIMIT),
        "Differences", _diff, slow=True,
    ),
    Operation(
        "/try", "Where pods would go if they were submitted",
        (p.STREAM, p.AT, p.Parameter(
            "count", "the number of pods of the template", "integer", least=1, most=MOST_PODS),
         p.Parameter("text", "true adds the answer in words", "boolean", default=False),
         p.WIDTH, p.FULL, p.COLOURS),
        "Trial", _try, slow=True, method="POST",
        body="Pods, Deployments, ReplicaSets, StatefulSets, Jobs and what comes with them",
    ),
    *FINDING_OPERATIONS,
)  # fmt: skip
