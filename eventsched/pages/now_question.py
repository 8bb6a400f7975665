"""What the page Now asks."""

from eventsched.pages.api_call import call_of
from eventsched.pages.page_question import PageQuestion, PageRequest, command

_SQL = """\
SELECT state, count(*) AS pods, min(waiting_since) AS oldest
FROM eventsched.pods_now GROUP BY state ORDER BY pods DESC;"""


def question(request: PageRequest) -> PageQuestion:
    """The request for what happens now."""
    stream = request.query.get("stream")
    return PageQuestion(call_of("/now", stream=stream), _SQL, command("queue", stream=stream))
