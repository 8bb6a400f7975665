"""What the page What-if asks: the configuration in force, and then, by its two forms, what would
have been with another one, or where pods would go."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from eventsched.pages.api_call import call_of
from eventsched.pages.configuration_changes import PLAIN, changed_form, require_known
from eventsched.pages.page_question import PageQuestion, PageRequest, command, literal

TRY, CHANGE = "try", "change"
"""The values of the field ``ask`` of the form with pods, and of the button that changes the
configuration by the fields beside it."""
_RANGE = ("from", "until", "nodes")
_MOST_LISTED = 1_000
"""Pods that differ in an answer, as many as the API gives."""
_ROWS = 25
"""Pods that differ on a page."""
_SIDES = """\
SELECT stream, state, count(*) AS pods FROM eventsched.pods_now
WHERE stream IN ({stream}, {stored}) GROUP BY stream, state ORDER BY state, stream;"""


def question(request: PageRequest) -> PageQuestion:
    """The request for the configuration in force."""
    return PageQuestion(call_of("/configuration", stream=request.query.get("stream")))


def prefilled(request: PageRequest, answer: Any) -> Mapping[str, str]:
    """The form of an address that names a plugin and its weight: the configuration in force with
    that weight. {} without one, or for a plugin that the server does not know."""
    change = {name: request.query[name] for name in ("plugin", "weight") if name in request.query}
    if len(change) < 2 or change["plugin"] not in answer["known_plugins"]:
        return {}
    changed = changed_form(change, answer["configuration"])
    return {"configuration": changed["configuration"]}


def filled(form: Mapping[str, str], answer: Any) -> Mapping[str, str]:
    """The form that the page shows after a form was sent: with the usual changes that its fields
    ask for, also if it decides at once. Raises InputError for a plugin that the server does not
    know, which would stay in the configuration."""
    if form.get("ask") == TRY:
        return form
    require_known(form, answer["known_plugins"])
    return changed_form(form, answer["configuration"])


def address(request: PageRequest, form: Mapping[str, str]) -> Mapping[str, str]:
    """The query of the page with an outcome: the time that other pages show, and the range."""
    names = ("at", *_RANGE)
    return {name: form.get(name, request.query.get(name, "")) for name in names}


def posted(request: PageRequest, form: Mapping[str, str], answer: Any) -> PageQuestion:
    """The request that a form makes. ``answer`` is the one to ``question``."""
    if form.get("ask") == TRY:
        return _trial(request, form)
    if form.get("ask") == CHANGE:
        text = form.get("configuration", "").strip() and form["configuration"]
        body = (text or answer["configuration"] or PLAIN).encode()
        checked = command("config", "check", "config.yaml")
        return PageQuestion(call_of("/configuration/check"), "", checked, body, "config.yaml")
    stream, store = request.query.get("stream"), form.get("store", "")
    values = {name: form.get(name, "") for name in _RANGE}
    sort = form.get("sort", "")
    asked = {**values, "store": store, "sort": sort, "limit": str(_MOST_LISTED)}
    call = call_of("/what-if", {"stream": stream, **asked})
    configuration = form.get("configuration", "")
    file = "config.yaml" if configuration.strip() else ""
    words = ["replay", "--what-if", *([file] if file else [])]
    first = values["from"] or ("" if values["until"] else str(answer["first"]))
    for option, value in (("from", first), ("until", values["until"]), ("nodes", values["nodes"])):
        words += [f"--{option}={value}"] if value else []
    sql = _SIDES.format(stream=literal(answer["stream"]), stored=literal(store)) if store else ""
    words += [f"--store={store}"] if store else []
    return PageQuestion(call, sql, command(*words, stream=stream), configuration.encode(), file)


def _trial(request: PageRequest, form: Mapping[str, str]) -> PageQuestion:
    stream, count, at = request.query.get("stream"), form.get("count", ""), request.query.get("at")
    words = ["try", "-f", "pods.yaml", *([f"--count={count}"] if count else [])]
    words += [f"--at={at}"] if at else []
    call = call_of("/try", stream=stream, at=at, count=count)
    body = form.get("pods", "").encode()
    return PageQuestion(call, "", command(*words, stream=stream), body, "pods.yaml")


class DifferencePage(NamedTuple):
    """A page of the pods that differ: its ``rows``, of which the first is number ``first``, counted
    from 1; the order ``by`` which they are ("": as the answer has them), with ``is_down`` the
    largest first; and the offsets of the pages before and after it, None if there is none."""

    rows: list[Any]
    first: int
    by: str
    is_down: bool
    previous: int | None
    next: int | None

    @property
    def sort(self) -> str:
        """Their order, as an address names it."""
        return f"{'-' if self.is_down else ''}{self.by}"

    def sorted_by(self, key: str) -> str:
        """The order that the title of a column leads to: the other way round if they are sorted by
        it. The highest priority comes first."""
        is_down = not self.is_down if key == self.by else key == "priority"
        return f"{'-' if is_down else ''}{key}"


def difference_page(listed: list[Any], query: Mapping[str, str]) -> DifferencePage:
    """The page that ``sort`` (a column's name, after "-" the other way round) and ``offset`` of an
    address ask for; what they cannot mean does not count."""
    keys: dict[str, Callable[[Any], Any]] = {
        "name": lambda pod: (pod["namespace"], pod["name"]),
        "priority": lambda pod: pod["priority"],
        "before": lambda pod: pod["before"]["node"],
        "node": lambda pod: pod["after"]["node"],
        "why": lambda pod: (pod["reason"]["plugin"], pod["reason"]["text"]),
    }
    asked = query.get("sort", "")
    by, is_down = asked.removeprefix("-"), asked.startswith("-")
    if by in keys:
        listed = sorted(listed, key=keys[by], reverse=is_down)
    given = query.get("offset", "")
    offset = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
    offset = offset if offset < len(listed) else 0
    end = offset + _ROWS
    return DifferencePage(
        listed[offset:end], offset + 1, by if by in keys else "", is_down and by in keys,
        max(offset - _ROWS, 0) if offset else None, end if end < len(listed) else None,
    )  # fmt: skip
