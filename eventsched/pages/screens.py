"""The pages: one row per screen, in the order of the navigation."""

from collections.abc import Callable
from dataclasses import dataclass

from eventsched.pages import now_question, pods_question
from eventsched.pages.page_question import PageQuestion, PageRequest


@dataclass(frozen=True)
class Screen:
    """A page. ``name`` is that of its template and of its module in ``static``. ``path`` is
    Starlette's, and ``question`` makes the request to the API from its parts and the query.
    ``has_time``: it can show a past position (parameter ``at``)."""

    name: str
    title: str
    path: str
    question: Callable[[PageRequest], PageQuestion]
    has_time: bool = True
    in_navigation: bool = True


SCREENS = (
    Screen("now", "Now", "/", now_question.question, has_time=False),
    Screen("pods", "Pods", "/pods", pods_question.question, has_time=False),
    Screen(
        "story", "Story", "/pods/{namespace}/{name}/story", pods_question.story,
        has_time=False, in_navigation=False,
    ),
)  # fmt: skip
