"""The parameters of requests: what each means, and their values checked."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from eventsched.domain.errors import InputError
from eventsched.output.terminal.colours import painted, plain
from eventsched.output.terminal.display import Display

MOST = 2**62
"""The largest number in a request: positions are below it."""
LONGEST = 512
"""Characters of a text at most: a name with its namespace has 507."""
LONGEST_WAIT = 60
"""Seconds that a request may wait for what is new."""
LIMIT, MOST_ITEMS = 100, 1_000
"""Items of a page, unless ``limit`` says otherwise, and at most."""


class Parameter(NamedTuple):
    """A parameter of a path or a query. ``kind``: string, integer,
    boolean or seconds (``20s``). Integers are from
    ``least`` to ``most``; texts are one of ``values`` if there are any."""

    name: str
    text: str
    kind: str = "string"
    place: str = "query"
    required: bool = False
    values: tuple[str, ...] = ()
    least: int = 0
    most: int = MOST
    default: Any = None

    @property
    def schema(self) -> dict[str, Any]:
        """The parameter's JSON Schema."""
        if self.kind == "seconds":
            return {"type": "string", "pattern": "^([0-9]|[1-5][0-9]|60)s$"}
        schema: dict[str, Any] = {"type": self.kind}
        if self.kind == "integer":
            schema |= {"minimum": self.least, "maximum": self.most}
        elif self.values:
            schema["enum"] = list(self.values)
        elif self.kind == "string":
            # No control characters and no halves of surrogates: the database takes neither.
            pattern = r"^[^\u0000-\u001f\u007f]*$"
            schema |= {"minLength": 1, "maxLength": LONGEST, "pattern": pattern}
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def value(self, text: str) -> Any:
        """The value of a text. Raises InputError."""
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise InputError(self.name, f"{text!r} is neither true nor false", "write one")
            return text == "true"
        if self.kind == "integer":
            return self._number(text)
        if self.kind == "seconds":
            return self._seconds(text)
        if self.values and text not in self.values:
            known = ", ".join(self.values)
            raise InputError(self.name, f"{text!r} is unknown", f"take one of {known}")
        if not text or len(text) > LONGEST:
            problem = "is empty" if not text else f"has {len(text)} characters"
            raise InputError(self.name, problem, f"give 1 to {LONGEST}, or leave it out")
        if not text.isprintable() and any(c < " " or c == "\x7f" for c in text):
            raise InputError(self.name, "has control characters", "leave them out")
        return text

    def _seconds(self, text: str) -> int:
        number = text.removesuffix("s")
        is_short = number != text and _is_number(number) and len(number) < 3
        if not is_short or int(number) > LONGEST_WAIT:
            problem = f"{text[:40]!r} is not a number of seconds"
            raise InputError(self.name, problem, f"write 0s to {LONGEST_WAIT}s")
        return int(number)

    def _number(self, text: str) -> int:
        if not _is_number(text) or len(text) > len(str(MOST)):
            raise InputError(
                self.name, f"{text[:40]!r} is not a number", "write digits, such as 20"
            )
        number = int(text)
        if not self.least <= number <= self.most:
            problem = f"{number} is out of range"
            raise InputError(self.name, problem, f"give one from {self.least} to {self.most}")
        return number


def display_of(values: Mapping[str, Any]) -> Display:
    """What the client's terminal shows, as WIDTH, BARS and COLOURS say."""
    paint = painted if values.get(COLOURS.name) else plain
    return Display(values.get(WIDTH.name, 0), values.get(BARS.name, False), paint)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def values_of(
    parameters: Sequence[Parameter], path: Mapping[str, str], query: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The value of each parameter, None or the default for one that is left out. Raises InputError
    for unknown, repeated, missing and wrong ones."""
    known = {parameter.name: parameter for parameter in parameters}
    values = {parameter.name: parameter.default for parameter in parameters}
    seen: set[str] = set()
    for name, text in (*path.items(), *query):
        parameter = known.get(name)
        if parameter is None or (parameter.place == "path" and name not in path):
            near = get_close_matches(name, known, 1)
            there = ", ".join(known) or "none"
            remedy = f"did you mean {near[0]}?" if near else f"there are: {there}"
            raise InputError(name[:80], "is no parameter of this path", remedy)
        if name in seen:
            raise InputError(name, "is given twice", "give it once")
        seen.add(name)
        values[name] = parameter.value(text)
    for parameter in parameters:
        if parameter.required and parameter.name not in seen:
            raise InputError(parameter.name, "is missing", f"give {parameter.text}")
    return values


STREAM = Parameter("stream", "the stream; the only one by default")
NAMESPACE = Parameter("namespace", "pods of this namespace")
OWNER = Parameter("owner", "pods that exist with a controller of this name")
PLUGIN = Parameter("plugin", "a refusal by this plugin")
REASON = Parameter("reason", "a refusal whose reason has this text, in any case")
NODE = Parameter("node", "pods that were placed on this node")
PROFILE = Parameter("profile", "pods of this schedulerName")
AT = Parameter(
    "at", "before the record at this position; or at a time: 2026-11-21T15:00, or 10m, 2h, 1d ago"
)
PAGE_LIMIT = Parameter(
    "limit", "items of the page", "integer", least=1, most=MOST_ITEMS, default=LIMIT
)
OFFSET = Parameter("offset", "the first item of the page, as next says", "integer", default=0)
POSITION = Parameter("position", "a position in the stream", "integer", "path", required=True)
POD_NAMESPACE = Parameter("namespace", "the pod's namespace", place="path", required=True)
POD_NAME = Parameter("name", "the pod's name", place="path", required=True)
POD_UID = Parameter("uid", "the pod's uid, if several had the name; the newest by default")
ATTEMPT = Parameter("attempt", "the attempt to explain; the last one by default", "integer")
WIDTH = Parameter(
    "width", "characters of a line, of an answer in words; 0: no limit", "integer", most=1_000,
    default=0,
)  # fmt: skip
FULL = Parameter(
    "full", "of an answer in words: everything, not only the first rows", "boolean", default=False
)
WIDE = Parameter("wide", "of an answer in words: more columns", "boolean", default=False)
BARS = Parameter(
    "bars", "of an answer in words: bars before scores, if `width` has room for them", "boolean",
    default=False,
)  # fmt: skip
COLOURS = Parameter(
    "colours", "of an answer in words: with a terminal's colours", "boolean", default=False
)
FROM = Parameter("from", "from this position or time on, as `at` of /state takes it")
UNTIL = Parameter("until", "before this position or time")
BEFORE = Parameter(
    "before", "before this position, the newest first: next of the page before", "integer"
)
