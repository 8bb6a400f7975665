"""What the page Now asks."""

from typing import Any

from eventsched.pages.api_call import call_of
from eventsched.pages.page_question import PageQuestion, PageRequest, queue_command

_SQL = """\
SELECT state, count(*) AS pods, min(waiting_since) AS oldest
FROM eventsched.pods_now GROUP BY state ORDER BY pods DESC;"""


def question(request: PageRequest) -> PageQuestion:
    """The request for what happens now, or happened."""
    stream, at = request.query.get("stream"), request.query.get("at")
    sql = "" if at else _SQL
    return PageQuestion(call_of("/now", stream=stream, at=at), sql, queue_command(stream, at))


def further(request: PageRequest, answer: Any) -> dict[str, str]:
    """Decisions and waiting times over the last hour."""
    asked = {name: request.query.get(name) for name in ("stream", "at")}
    return {"activity": call_of("/activity", asked)}
