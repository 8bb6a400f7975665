"""What the page Pods asks: a page of pods, or of their groups."""

from typing import Any

from eventsched.domain.workload_kinds import HASH_PATTERN
from eventsched.pages.api_call import call_of
from eventsched.pages.page_question import (
    PageQuestion,
    PageRequest,
    command,
    literal,
    queue_command,
)

FIELDS = {
    "namespace": "Namespace", "name": "Name contains", "owner": "Owner",
    "reason": "Reason contains", "plugin": "Plugin", "node": "Node", "profile": "Profile",
    "from": "Last attempt from", "until": "Last attempt before", "state": "State",
    "by": "Group by",
}  # fmt: skip
"""Filter → its title."""
COLUMNS = {
    "namespace": "namespace", "state": "state",
    "node": "node", "profile": "scheduler_name",
}  # fmt: skip
"""Filter → the column of the view pods_now that it restricts."""
_OWNED = (
    "(owner_name = {name} OR (owner_kind = 'ReplicaSet' AND"
    f" regexp_replace(owner_name, '-{HASH_PATTERN}$', '') = {{name}}))"
)
"""The pods of a controller, also by the name of a Deployment."""
_PENDING = "state IN ('active', 'backoff', 'unschedulable', 'gated')"
_ONLY_API = ("ever", "at", "plugin", "reason", "group")
_ORDERS = {
    "position": "seq", "since": "since", "waiting": "waiting_since",
    "-position": "seq DESC", "-since": "since DESC", "-waiting": "waiting_since DESC",
    "attempts": "attempts", "-attempts": "attempts DESC",
    "node": "node", "-node": "node DESC NULLS LAST",
    "owner": "owner_name", "-owner": "owner_name DESC NULLS LAST",
}  # fmt: skip
_OWN = ("show", "open", "stream")
"""Parameters of the page that the API does not take, or that come first."""
_OF_LIST, _OF_GROUPS = ("sort", "cursor", "ever"), ("by", "offset")
"""Parameters of one form of the table."""
_OWNER = "namespace, owner_kind, owner_name"
_OPENED = "10"
"""Pods of an open group that the page lists."""


def question(request: PageRequest) -> PageQuestion:
    """The request for a page of pods, or with ``by`` for their groups."""
    by, stream = request.query.get("by"), request.query.get("stream")
    query = _filters(request, _OF_LIST if by else _OF_GROUPS)
    if query.get("group") or query.get("ever") != "true":  # groups are of pods that exist
        query.pop("ever", None)
    else:  # the newest attempts first is the only order
        query.pop("sort", None)
    if by:
        sql = _groups_sql(query)
        cli = command("sql", "-c", " ".join(sql.split()), stream=stream) if sql else ""
        return PageQuestion(call_of("/pods/groups", {"stream": stream}, **query), sql, cli)
    call = call_of("/pods", {"stream": stream}, **query)
    # The queues are without bound pods: of the past, the command's answer would be another one.
    cli = "" if "at" in request.query else queue_command(stream, None)
    return PageQuestion(call, _sql(query), cli)


def further(request: PageRequest, answer: Any) -> dict[str, str]:
    """The first pods of the group that is open, those that wait longest."""
    key = request.query.get("open")
    if not (key and request.query.get("by")):
        return {}
    query = _filters(request, (*_OF_LIST, *_OF_GROUPS, "limit"))
    asked = {**query, "group": key, "sort": "waiting", "limit": _OPENED}
    return {"opened": call_of("/pods", {"stream": request.query.get("stream")}, **asked)}


def _filters(request: PageRequest, without: tuple[str, ...]) -> dict[str, str]:
    """The filters as the API names them: the page's name is a part of one."""
    return {
        "name_contains" if name == "name" else name: value
        for name, value in request.query.items()
        if name not in (*_OWN, *without)
    }


def _sql(query: dict[str, str]) -> str:
    """The same pods in SQL; "" where one view does not have them by one row each: those that are
    gone, those of the past, and those by any refusal of their last attempt."""
    where = _where(query)
    if where is None:
        return ""
    order = _ORDERS.get(query.get("sort", ""), "seq DESC")
    return f"SELECT * FROM eventsched.pods_now{where}\nORDER BY {order} LIMIT 100;"


def _groups_sql(query: dict[str, str]) -> str:
    """The same groups in SQL; "" if the view does not have them. Its refusals are those of most
    nodes, so it has no groups by the refusal to name first."""
    where = _where(query)
    if where is None or query["by"] != "owner":
        return ""
    return (
        f"SELECT {_OWNER}, count(*) AS pods, min(waiting_since) AS oldest\n"
        f"FROM eventsched.pods_now{where} GROUP BY {_OWNER} ORDER BY pods DESC LIMIT 100;"
    )


def _where(query: dict[str, str]) -> str | None:
    """The filters as a condition; None if the view does not have them: only the API finds the
    positions of times."""
    bounds = [(name, sign) for name, sign in (("from", ">="), ("until", "<")) if name in query]
    if any(name in query for name in _ONLY_API) or "/" in query.get("owner", ""):
        return None
    if not all(query[name].isascii() and query[name].isdecimal() for name, _ in bounds):
        return None
    conditions = [
        _PENDING
        if (name, query[name]) == ("state", "pending")
        else f"{column} = {literal(query[name])}"
        for name, column in COLUMNS.items()
        if name in query
    ]
    if "owner" in query:
        conditions.append(_OWNED.replace("{name}", literal(query["owner"])))
    if part := query.get("name_contains"):
        column = "namespace || '/' || pod" if "/" in part else "pod"
        conditions.append(f"strpos(lower({column}), lower({literal(part)})) > 0")
    conditions += [f"decided_seq {sign} {query[name]}" for name, sign in bounds]
    return f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
