"""The operations about what stands out: evictions, refusals by plugin and of a node, and pods that
only a flush brought to a node."""

from typing import Any

from eventsched.api import parameters as p
from eventsched.api.desk.asked import Asked, Operation
from eventsched.api.desk.position_range import position_range
from eventsched.history.evictor_outcomes import EVICTOR_OUTCOMES
from eventsched.questions.findings.finding_answers import (
    EvictionsAnswer,
    FlushedPodsAnswer,
    NodeVerdictsAnswer,
    RefusalsAnswer,
    RefusingNodesAnswer,
)
from eventsched.questions.findings.flushed_pods import flushed_pods_page
from eventsched.questions.findings.node_verdicts import node_verdicts
from eventsched.questions.findings.preemption_rows import EvictionFilter, evictions_page
from eventsched.questions.findings.refusal_counts import RefusalFilter, refusal_counts
from eventsched.questions.findings.refusing_nodes import refusing_nodes
from eventsched.questions.past.positions import kept_position_of


def _evictions(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    low, high = position_range(asked, stream)
    if values["before"] is not None:
        high = values["before"] if high is None else min(high, values["before"])
    wanted = EvictionFilter(
        namespace=values["namespace"], node=values["node"], outcome=values["outcome"], low=low,
        high=high,
    )  # fmt: skip
    end = None if values["at"] is None else kept_position_of(stream, values["at"])
    return evictions_page(stream, asked.sees, wanted, values["limit"], end)


def _refusals(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    low, high = position_range(asked, stream)
    wanted = RefusalFilter(
        namespace=values["namespace"], profile=values["profile"], low=low, high=high
    )
    return refusal_counts(stream, asked.sees, wanted)


def _refusing_nodes(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    low, high = position_range(asked, stream)
    wanted = RefusalFilter(
        namespace=values["namespace"], profile=values["profile"], low=low, high=high
    )
    refusal = values["plugin"], values["reason"]
    return refusing_nodes(stream, asked.sees, wanted, refusal, values["limit"])


def _flushed(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    end = None if values["at"] is None else kept_position_of(stream, values["at"])
    return flushed_pods_page(stream, asked.sees, values["before"], values["limit"], end)


def _node_verdicts(asked: Asked) -> Any:
    values, stream = asked.values, asked.stream()
    end = None if values["at"] is None else kept_position_of(stream, values["at"])
    return node_verdicts(stream, asked.sees, values["node"], end)


FINDING_OPERATIONS = (
    Operation(
        "/evictions", "Who evicted whom: preemptions with their victims, newest first",
        (p.STREAM,
         p.Parameter("namespace", "with a pod of this namespace, on either side"),
         p.Parameter("node", "on this node"),
         p.Parameter("outcome", "what happened to the evictor", values=EVICTOR_OUTCOMES),
         p.FROM, p.UNTIL, p.BEFORE, p.PAGE_LIMIT, p.AT),
        EvictionsAnswer, _evictions,
    ),
    Operation(
        "/refusals", "Which plugins refuse most, by reason, in the newest attempts of a range",
        (p.STREAM, p.NAMESPACE, p.PROFILE, p.FROM, p.UNTIL), RefusalsAnswer, _refusals,
    ),
    Operation(
        "/refusals/nodes", "Which nodes a plugin refuses most, in the newest attempts of a range",
        (p.STREAM, p.Parameter("plugin", "the plugin", required=True),
         p.Parameter("reason", "its reason, as /refusals has it"),
         p.NAMESPACE, p.PROFILE, p.FROM, p.UNTIL, p.PAGE_LIMIT),
        RefusingNodesAnswer, _refusing_nodes, slow=True,
    ),
    Operation(
        "/nodes/{node}/verdicts", "What the newest attempts found for one node",
        (p.Parameter("node", "the node", place="path", required=True), p.STREAM, p.AT),
        NodeVerdictsAnswer, _node_verdicts, slow=True,
    ),
    Operation(
        "/queue/flushed", "Pods that only the flush of the unschedulable queue brought to a node",
        (p.STREAM, p.BEFORE, p.PAGE_LIMIT, p.AT), FlushedPodsAnswer, _flushed,
    ),
)  # fmt: skip
