"""An answer of a tool: bounded, with the positions of the log that it rests on."""

import json
from collections.abc import Mapping
from typing import Any

from eventsched.api.desk.asked import Asked, Desk
from eventsched.assistants.tools import Tool
from eventsched.domain.errors import InputError
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import EVERYTHING

MOST_CHARACTERS = 40_000
"""Characters of an answer at most: an assistant reads all of it."""
_KEPT_ITEMS = (100, 30, 10, 3, 1)
"""Items of each list that are left of an answer that is too long, whichever is short enough."""
_KEPT_CHARACTERS = 1_000
"""Characters of each text that are left of it."""


def answer_text(desk: Desk, tool: Tool, arguments: Mapping[str, Any]) -> str:
    """The answer as JSON: ``stream``, ``before`` (the position that it is of: that record and later
    ones are not in it), ``positions`` of the records that it shows, ``answer``, and
    ``left_out`` if lists were shortened. Raises InputError and UnavailableError."""
    values, body = tool.read(arguments)
    asked = Asked(desk, values, EVERYTHING, body)
    stream = asked.stream()
    head = stream.rows.head
    while True:
        answer = tool.make(asked)
        text = _document(tool, stream, head, answer, {})
        limit = asked.values.get("limit") or 1
        if len(text) <= MOST_CHARACTERS:
            return text
        if limit == 1:
            return _shortened(tool, stream, head, answer)
        # A shorter page says itself where to go on.
        asked = asked._replace(values={**asked.values, "limit": limit // 2})


def _document(
    tool: Tool, stream: LoggedStream, head: int, answer: Mapping[str, Any],
    left_out: Mapping[str, int],
) -> str:  # fmt: skip
    document = {
        "stream": stream.name,
        "before": answer.get("position", answer.get("head", head)),
        "positions": tool.positions(stream, answer),
        **({"left_out": left_out} if left_out else {}),
        "answer": answer,
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _shortened(tool: Tool, stream: LoggedStream, head: int, answer: Mapping[str, Any]) -> str:
    for items in _KEPT_ITEMS:
        left_out: dict[str, int] = {}
        part = _part(answer, items, "", left_out)
        text = _document(tool, stream, head, part, left_out)
        if len(text) <= MOST_CHARACTERS:
            return text
    problem = f"the answer has more than {MOST_CHARACTERS} characters"
    raise InputError(tool.name, problem, "ask about less: one attempt, one node, fewer pods")


def _part(value: Any, items: int, path: str, left_out: dict[str, int]) -> Any:
    """A value with at most ``items`` of each list. What is left out is counted by path."""
    if isinstance(value, str) and len(value) > _KEPT_CHARACTERS:
        left_out[path] = left_out.get(path, 0) + len(value) - _KEPT_CHARACTERS
        return value[:_KEPT_CHARACTERS] + "…"
    if isinstance(value, dict):
        return {
            name: _part(each, items, f"{path}.{name}".lstrip("."), left_out)
            for name, each in value.items()
        }
    if not isinstance(value, list):
        return value
    if len(value) > items:
        left_out[path] = left_out.get(path, 0) + len(value) - items
        # Of records the newest are kept; other lists have the most important items first.
        of_records = isinstance(value[0], dict) and "seq" in value[0]
        value = value[-items:] if of_records else value[:items]
    return [_part(each, items, path, left_out) for each in value]
