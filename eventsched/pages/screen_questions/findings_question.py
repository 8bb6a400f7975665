"""What the pages Findings ask: anomalies, evictions, and refusals by plugin."""

from collections.abc import Mapping
from typing import Any

from eventsched.pages.anomaly_groups import anomaly_groups
from eventsched.pages.api_call import call_of, segment
from eventsched.pages.page_question import PageQuestion, PageRequest, command, literal

CASES, MOST_CASES = 200, 1_000
"""Anomalies of each kind that the page shows, and at most with ``limit=``."""
_RANGE = {"from": "From position or time", "until": "Until"}
EVICTION_FIELDS = {
    "namespace": "Namespace, either side", "node": "Node", "outcome": "The evictor",
    **_RANGE,
}  # fmt: skip
REFUSAL_FIELDS = {"namespace": "Namespace", "profile": "Profile", **_RANGE}
"""Filter → its title."""
STEPS = 5
"""Workloads that no node would take and whose own next step is shown."""
NODES = 100
"""Nodes that refuse most that are shown."""
FLUSHED = 20
"""Pods after a flush that it shows, unless ``limit=`` says otherwise."""
_ANOMALIES = """\
SELECT * FROM eventsched.starving_pods ORDER BY waiting_since;
SELECT * FROM eventsched.unplaceable_pods ORDER BY waiting_since;
SELECT * FROM eventsched.ping_pongs ORDER BY seq DESC;
SELECT * FROM eventsched.preempted_for_nothing ORDER BY seq DESC;"""
_EVICTIONS = """\
SELECT decided_at, namespace, pod, node, preemptor, outcome, gone_at
FROM eventsched.evictions{where} ORDER BY decided_seq DESC LIMIT 100;"""
_REFUSALS = """\
SELECT plugin, code, reason, count(*) AS attempts, sum(nodes) AS nodes
FROM eventsched.refusals{where} GROUP BY 1, 2, 3 ORDER BY 5 DESC;"""


def anomalies(request: PageRequest) -> PageQuestion:
    """The request for the anomalies."""
    stream, at = request.query.get("stream"), request.query.get("at")
    limit = request.query.get("limit", str(CASES))
    call = call_of("/queue/anomalies", stream=stream, limit=limit, at=at)
    if at:
        return PageQuestion(call)  # the views and the command are about the present
    cli = command("queue", "--anomalies", stream=stream)
    return PageQuestion(call, _ANOMALIES, cli)


def beside_anomalies(request: PageRequest, answer: Any) -> dict[str, str]:
    """The pods that only a flush brought to a node, how many preemptions there were whose pod
    went elsewhere, and the next steps of the first pods that no node would take."""
    asked = {name: request.query.get(name) for name in ("stream", "limit", "at")}
    stream, at = asked["stream"], asked["at"]
    return {
        **_own_steps(answer["anomalies"], stream, at),
        "flushed": call_of("/queue/flushed", {"limit": str(FLUSHED), **_given(asked)}),
        "evictions": call_of("/evictions", limit="1", stream=stream, at=at),
    }


def _own_steps(found: Any, stream: str | None, at: str | None) -> dict[str, str]:
    """The requests for the next steps: of the first pod of a workload, of the first workloads."""
    groups = anomaly_groups([each for each in found if each["kind"] == "unplaceable"])
    firsts = [group.cases[0] for group in groups[:STEPS]]
    return {
        f"step_{number}": call_of(
            f"/pods/{segment(first['namespace'])}/{segment(first['pod'])}/explain",
            uid=first["uid"], stream=stream, at=at,
        )
        for number, first in enumerate(firsts)
        if first["pod"]
    }  # fmt: skip


def time_shown(request: PageRequest, answer: Any) -> dict[str, str]:
    """The position that links lead to, with its time."""
    stream, at = request.query.get("stream"), request.query.get("at")
    return {"position": call_of("/position", stream=stream, at=at)} if at else {}


def evictions(request: PageRequest) -> PageQuestion:
    """The request for who evicted whom."""
    query = request.query
    names = ("stream", "namespace", "node", "outcome", "from", "until", "before", "limit", "at")
    call = call_of("/evictions", {name: query.get(name) for name in names})
    if not query.keys().isdisjoint(("outcome", "from", "until", "before", "at")):
        return PageQuestion(call)  # the view has neither these outcomes nor these positions
    conditions = [f"node = {literal(query['node'])}"] if "node" in query else []
    if "namespace" in query:
        begin = literal(query["namespace"] + "/")
        own = f"namespace = {literal(query['namespace'])}"
        conditions.append(f"({own} OR starts_with(preemptor, {begin}))")
    return _as_sql(call, _EVICTIONS, conditions, query.get("stream"))


def refusals(request: PageRequest) -> PageQuestion:
    """The request for which plugin refuses most."""
    query = _until_shown(request)
    names = ("stream", "namespace", "profile", "from", "until")
    call = call_of("/refusals", {name: query.get(name) for name in names})
    conditions = ["code <> 'NotEvaluated'"]
    if "namespace" in query:
        conditions.append(f"namespace = {literal(query['namespace'])}")
    conditions += _positions(query)
    if "profile" in query:  # the view has no profiles
        return PageQuestion(call)
    return _as_sql(call, _REFUSALS, conditions, query.get("stream"))


def beside_refusals(request: PageRequest, answer: Any) -> dict[str, str]:
    """The position that links lead to; with ``plugin`` the nodes that it refused most, with
    ``reason`` for this one."""
    query = _until_shown(request)
    names = ("stream", "plugin", "reason", "namespace", "profile", "from", "until")
    asked = {name: query.get(name) for name in names}
    nodes = {"nodes": call_of("/refusals/nodes", asked, limit=str(NODES))}
    return {**time_shown(request, answer), **(nodes if "plugin" in query else {})}


def _until_shown(request: PageRequest) -> Mapping[str, str]:
    """The query of a page of which other pages show the past: it ends there, too."""
    query = dict(request.query)
    if "at" in query:
        query.setdefault("until", query["at"])
    return query


def _positions(query: Any) -> list[str]:
    """The conditions on positions. Times are left out: the API finds their positions."""
    return [
        f"seq {sign} {query[name]}"
        for name, sign in (("from", ">="), ("until", "<"))
        if query.get(name, "").isdecimal()
    ]


def _as_sql(call: str, text: str, conditions: list[str], stream: str | None) -> PageQuestion:
    sql = text.format(where=f"\nWHERE {' AND '.join(conditions)}" if conditions else "")
    return PageQuestion(call, sql, command("sql", "-c", " ".join(sql.split()), stream=stream))


def _given(asked: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in asked.items() if value}
