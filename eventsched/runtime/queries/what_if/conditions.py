"""Conditions on a result, for CI: ``preempted(priority>=1000) > 0 or waited(p99) > 30s``."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from eventsched.domain.errors import InputError

MEASURES = ("moved", "pending", "preempted", "waited", "empty")
"""What can be compared: pods on another node, pods without a node, evicted pods, a waiting time in
seconds (of pods that were placed), and nodes without pods at the end."""
_REMEDY = "write one such as moved() > 0, preempted(priority>=1000) > 0 or waited(p99) > 30s"
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?P<unit>[smh]?)(?![\w.])|(?P<operator>>=|<=|==|!=|=|>|<)"
    r"|(?P<word>[A-Za-z_][\w./-]*)|(?P<mark>[(),]))"
)
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le,
    "==": operator.eq, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_QUANTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)|mean|max")


class PodFilter(NamedTuple):
    """Pods with a priority or a namespace that compares like this."""

    field: str
    compare: str
    value: str

    def matches(self, namespace: str, priority: int) -> bool:
        """Whether it holds for a pod."""
        if self.field == "namespace":
            return (namespace == self.value) == (self.compare != "!=")
        return _COMPARE[self.compare](priority, int(self.value))


class Measured(NamedTuple):
    """A call such as ``waited(p99, namespace=team-a)``; ``which`` is ``p99``."""

    name: str
    which: str = ""
    filters: tuple[PodFilter, ...] = ()

    def selects(self, namespace: str, priority: int) -> bool:
        """Whether a pod counts."""
        return all(each.matches(namespace, priority) for each in self.filters)

    @property
    def text(self) -> str:
        """The call as a condition has it."""
        filters = ("".join(each) for each in self.filters)
        return f"{self.name}({', '.join(filter(None, (self.which, *filters)))})"


class Comparison(NamedTuple):
    """A measure compared with a number."""

    measured: Measured
    compare: str
    number: float


@dataclass(frozen=True)
class Condition:
    """``text`` as it was written: one of the ``ways`` holds if all its comparisons do."""

    text: str
    ways: tuple[tuple[Comparison, ...], ...]

    def holds(self, value: Callable[[Measured], float]) -> bool:
        """Whether the condition is true for these values."""
        return any(
            all(_COMPARE[each.compare](value(each.measured), each.number) for each in way)
            for way in self.ways
        )

    @property
    def measured(self) -> tuple[Measured, ...]:
        """What it compares, each once, in the order in which it is written."""
        return tuple(dict.fromkeys(each.measured for way in self.ways for each in way))

    @property
    def measures(self) -> set[str]:
        """The names of what it compares."""
        return {measured.name for measured in self.measured}


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    unit: str = ""


def parse_condition(text: str) -> Condition:
    """Reads a condition. Raises InputError that points at the place which does not parse."""
    return _Parser(text).condition()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[_Token] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._error("this is not part of a condition", at + _blanks(text[at:]))
            kind = match.lastgroup or ""
            kind = "number" if kind == "unit" else kind
            self._tokens.append(_Token(kind, match[kind], match.start(kind), match["unit"] or ""))
            at = match.end()
        self._next = 0

    def condition(self) -> Condition:
        ways = [self._way()]
        while self._takes("word", "or"):
            ways.append(self._way())
        if self._next < len(self._tokens):
            raise self._expected("and, or, or the end")
        return Condition(self._text, tuple(ways))

    def _way(self) -> tuple[Comparison, ...]:
        comparisons = [self._comparison()]
        while self._takes("word", "and"):
            comparisons.append(self._comparison())
        return tuple(comparisons)

    def _comparison(self) -> Comparison:
        measured = self._measured()
        compare = self._take("operator", "a comparison such as >")
        number = self._take("number", "a number")
        return Comparison(measured, compare.text, float(number.text) * _UNITS[number.unit])

    def _measured(self) -> Measured:
        word = self._take("word", f"one of {', '.join(MEASURES)}")
        if word.text not in MEASURES:
            raise self._error(f"there is no {word.text}, only {', '.join(MEASURES)}", word.at)
        self._take("mark", "(", "(")
        which, filters = "", []
        if word.text == "waited":
            which = self._quantile()
            if not self._takes("mark", ")"):
                self._take("mark", ", or )", ",")
                filters = self._filters()
        elif not self._takes("mark", ")"):
            if word.text == "empty":
                raise self._expected(")")
            filters = self._filters()
        return Measured(word.text, which, tuple(filters))

    def _quantile(self) -> str:
        word = self._take("word", "p50, p99, mean or max")
        if _QUANTILE.fullmatch(word.text) is None:
            raise self._error("expected p50, p99, mean or max", word.at)
        return word.text

    def _filters(self) -> list[PodFilter]:
        """The filters up to the closing parenthesis."""
        filters = [self._filter()]
        while not self._takes("mark", ")"):
            self._take("mark", ", or )", ",")
            filters.append(self._filter())
        return filters

    def _filter(self) -> PodFilter:
        field = self._take("word", "priority or namespace")
        if field.text not in ("priority", "namespace"):
            raise self._error("expected priority or namespace", field.at)
        compare = self._take("operator", "a comparison such as >=")
        if field.text == "namespace":
            if compare.text not in ("=", "==", "!="):
                raise self._error("a namespace is compared by = or !=", compare.at)
            return PodFilter("namespace", compare.text, self._take("word", "a namespace").text)
        number = self._take("number", "a priority")
        if number.unit or "." in number.text:
            raise self._error("a priority is a whole number", number.at)
        return PodFilter("priority", compare.text, number.text)

    def _takes(self, kind: str, text: str) -> bool:
        """Whether the next token is this one; it is taken then."""
        if self._next < len(self._tokens) and self._tokens[self._next][:2] == (kind, text):
            self._next += 1
            return True
        return False

    def _take(self, kind: str, expected: str, text: str = "") -> _Token:
        if self._next < len(self._tokens):
            token = self._tokens[self._next]
            if token.kind == kind and text in ("", token.text):
                self._next += 1
                return token
        raise self._expected(expected)

    def _expected(self, what: str) -> InputError:
        if self._next == len(self._tokens):
            return self._error(f"expected {what}, and it ends here", len(self._text))
        token = self._tokens[self._next]
        return self._error(f"expected {what}, not {token.text!r}", token.at)

    def _error(self, problem: str, at: int) -> InputError:
        place = f"{self._text}\n{' ' * at}^"
        return InputError("--fail-if", f"column {at + 1}: {problem}", f"{_REMEDY}\n{place}")


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip())
