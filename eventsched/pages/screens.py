"""The pages: one row per screen, in the order of the navigation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eventsched.pages.page_question import PageQuestion, PageRequest
from eventsched.pages.screen_questions import (
    decision_question,
    findings_question,
    help_question,
    node_question,
    now_question,
    pod_question,
    pods_question,
    what_if_question,
    workload_question,
)


@dataclass(frozen=True)
class Screen:
    """A page. ``name`` is that of its template and of its module in ``static``. ``path`` is
    Starlette's, and ``question`` makes the request to the API from its parts and the query.
    ``further`` makes requests for what the page shows besides, by name, from its answer, and
    ``instead`` for what it shows if that is not found. ``posted`` makes the one of a form from its
    fields and the answer, ``prefilled`` the form before it is sent, ``filled`` the one that the
    page then shows, and ``address`` the query of the page with its outcome. ``below`` is the
    screen of the navigation that it belongs to.
    One that ``has_past`` takes ``at``; with ``is_of_past`` it is about one moment of the log, so it
    has no time bar without ``at``. ``fields`` are the titles of its filters by name: with a wrong
    one the page keeps its form."""

    name: str
    title: str
    path: str
    question: Callable[[PageRequest], PageQuestion]
    in_navigation: bool = True
    further: Callable[[PageRequest, Any], dict[str, str]] | None = None
    instead: Callable[[PageRequest], dict[str, str]] | None = None
    has_past: bool = False
    is_of_past: bool = False
    posted: Callable[[PageRequest, Mapping[str, str], Any], PageQuestion] | None = None
    prefilled: Callable[[PageRequest, Any], Mapping[str, str]] = lambda asked, answer: {}
    filled: Callable[[Mapping[str, str], Any], Mapping[str, str]] = lambda form, answer: form
    address: Callable[[PageRequest, Mapping[str, str]], Mapping[str, str]] = lambda asked, form: {}
    below: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """The methods of its requests."""
        return ["GET"] if self.posted is None else ["GET", "POST"]


SCREENS = (
    Screen(
        "now", "Now", "/", now_question.question, further=now_question.further, has_past=True
    ),
    Screen(
        "pods", "Pods", "/pods", pods_question.question, further=pods_question.further,
        has_past=True, fields=pods_question.FIELDS,
    ),
    Screen(
        "pod", "Pod", "/pods/{namespace}/{name}", pod_question.question,
        in_navigation=False, further=pod_question.further, has_past=True, below="pods",
        instead=pod_question.instead,
    ),
    Screen(
        "workload", "Workload", "/workloads/{namespace}/{kind}/{name}",
        workload_question.question, in_navigation=False, further=workload_question.further,
        below="pods",
    ),
    Screen(
        "node", "Node", "/nodes/{name}", node_question.question, in_navigation=False,
        further=node_question.further, has_past=True, below="now",
    ),
    Screen(
        "decision", "Decision", "/decisions/{position}", decision_question.question,
        in_navigation=False, further=decision_question.further, has_past=True,
        is_of_past=True, below="pods",
    ),
    Screen(
        "anomalies", "Findings", "/findings", findings_question.anomalies,
        further=findings_question.beside_anomalies, has_past=True,
    ),
    Screen(
        "evictions", "Evictions", "/findings/evictions", findings_question.evictions,
        in_navigation=False, further=findings_question.time_shown, below="anomalies",
        fields=findings_question.EVICTION_FIELDS,
    ),
    Screen(
        "refusals", "Refusals", "/findings/refusals", findings_question.refusals,
        in_navigation=False, further=findings_question.beside_refusals, below="anomalies",
        fields=findings_question.REFUSAL_FIELDS,
    ),
    Screen(
        "what_if", "What-if", "/what-if", what_if_question.question,
        posted=what_if_question.posted, prefilled=what_if_question.prefilled,
        filled=what_if_question.filled, address=what_if_question.address,
    ),
    Screen("help", "Help", "/help", help_question.question),
)  # fmt: skip
