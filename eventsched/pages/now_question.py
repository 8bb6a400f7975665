"""What the page Now asks."""

from eventsched.pages.api_call import call_of
from eventsched.pages.page_question import PageQuestion, PageRequest, command

_SQL = """\
SELECT state, count(*) AS pods, min(waiting_since) AS oldest
FROM eventsched.pods_now GROUP BY state ORDER BY pods DESC;"""


def question(request: PageRequest) -> PageQuestion:
    """The request for what happens now, or happened at a past position."""
    place = request.place
    cli = command("state" if place["at"] else "queue", **place)
    return PageQuestion(call_of("/now", place), "" if place["at"] else _SQL, cli)
