"""The pages: one row per screen, in the order of the navigation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from eventsched.pages import decision_question, now_question, pod_question, pods_question
from eventsched.pages.page_question import PageQuestion, PageRequest


@dataclass(frozen=True)
class Screen:
    """A page. ``name`` is that of its template and of its module in ``static``. ``path`` is
    Starlette's, and ``question`` makes the request to the API from its parts and the query.
    ``further`` makes requests for what the page shows besides, by name, from its answer."""

    name: str
    title: str
    path: str
    question: Callable[[PageRequest], PageQuestion]
    in_navigation: bool = True
    further: Callable[[PageRequest, Any], dict[str, str]] | None = None


SCREENS = (
    Screen("now", "Now", "/", now_question.question),
    Screen("pods", "Pods", "/pods", pods_question.question),
    Screen(
        "story", "Story", "/pods/{namespace}/{name}/story", pods_question.story,
        in_navigation=False,
    ),
    Screen(
        "pod", "Pod", "/pods/{namespace}/{name}", pod_question.question,
        in_navigation=False, further=pod_question.further,
    ),
    Screen(
        "decision", "Decision", "/decisions/{position}", decision_question.question,
        in_navigation=False, further=decision_question.further,
    ),
)  # fmt: skip
