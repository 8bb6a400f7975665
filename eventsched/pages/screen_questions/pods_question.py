"""What the page Pods asks."""

from eventsched.pages.api_call import call_of
from eventsched.pages.page_question import PageQuestion, PageRequest, literal, queue_command

COLUMNS = {
    "namespace": "namespace", "name": "pod", "owner": "owner_name", "state": "state",
    "node": "node", "profile": "scheduler_name",
}  # fmt: skip
"""Filter → the column of the view pods_now that it restricts."""
_ONLY_API = ("ever", "at", "plugin", "reason")
_ORDERS = {
    "position": "seq", "since": "since", "waiting": "waiting_since",
    "-position": "seq DESC", "-since": "since DESC", "-waiting": "waiting_since DESC",
}  # fmt: skip
_OWN = ("show", "stream")
"""Parameters of the page that the API does not take, or that come first."""


def question(request: PageRequest) -> PageQuestion:
    """The request for a page of pods."""
    query = {name: value for name, value in request.query.items() if name not in _OWN}
    if query.get("ever") == "true":  # the newest attempts first is the only order
        query.pop("sort", None)
    stream = request.query.get("stream")
    call = call_of("/pods", {"stream": stream}, **query)
    return PageQuestion(call, _sql(query), queue_command(stream, request.query.get("at")))


def _sql(query: dict[str, str]) -> str:
    """The same pods in SQL; "" where one view does not have them by one row each: those that are
    gone, those of the past, and those by any refusal of their last attempt."""
    if any(name in query for name in _ONLY_API):
        return ""
    conditions = [
        f"{column} = {literal(query[name])}" for name, column in COLUMNS.items() if name in query
    ]
    where = f"\nWHERE {' AND '.join(conditions)}" if conditions else ""
    order = _ORDERS.get(query.get("sort", ""), "seq DESC")
    return f"SELECT * FROM eventsched.pods_now{where}\nORDER BY {order} LIMIT 100;"
