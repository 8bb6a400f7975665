"""What the page of a node asks."""

from typing import Any

from eventsched.pages.api_call import call_of, segment
from eventsched.pages.page_question import PageQuestion, PageRequest, command, literal

_SQL = """\
SELECT namespace, pod, state, priority FROM eventsched.pods_now
WHERE node = {name} ORDER BY namespace, pod;"""


def question(request: PageRequest) -> PageQuestion:
    """The request for what is on the node, and what it has free."""
    name, stream, at = request.path["name"], *_kept(request).values()
    sql = "" if at else _SQL.format(name=literal(name))
    cli = command("state", "--node", name, *(("--at", at) if at else ()), stream=stream)
    return PageQuestion(call_of("/state", _kept(request), node=name), sql, cli)


def further(request: PageRequest, answer: Any) -> dict[str, str]:
    """What the last attempts found for it."""
    return {"verdicts": call_of(f"/nodes/{segment(request.path['name'])}/verdicts", _kept(request))}


def _kept(request: PageRequest) -> dict[str, str | None]:
    return {name: request.query.get(name) for name in ("stream", "at")}
