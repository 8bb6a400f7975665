"""Label selectors: whether they select a set of labels, and an index of many of them.

Upstream: apimachinery pkg/labels (Requirement.Matches). What is malformed selects nothing here;
whoever has to say so asks ``flaw`` first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from eventsched.domain.objects.core import Requirement, Selector
from eventsched.domain.objects.labels import key_problem, value_problem

Item = TypeVar("Item")


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether all requirements hold; None selects nothing, the empty selector everything."""
    return selector is not None and all(_holds(each, labels) for each in selector)


def _holds(each: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(each.key)
    match each.operator:
        case "In":
            return value is not None and value in each.values
        case "NotIn":
            return value is None or value not in each.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def flaw(selector: Selector) -> str:
    """What is wrong with a selector, in upstream's words; "" where nothing is (meta/v1
    LabelSelectorAsSelector, labels.NewRequirement)."""
    for each in selector or ():
        if each.operator not in _OPERATORS:
            return f"{_quoted(each.operator)} is not a valid label selector operator"
        found = list(dict.fromkeys(_flaws(each)))
        if found:
            return found[0] if len(found) == 1 else f"[{', '.join(found)}]"
    return ""


def _flaws(each: Requirement) -> Iterator[str]:
    if problem := key_problem(each.key):
        yield f"key: Invalid value: {_quoted(each.key)}: {problem}"
    if each.operator in ("In", "NotIn") and not each.values:
        yield "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    if each.operator in ("Exists", "DoesNotExist") and each.values:
        problem = "values set must be empty for exists and does not exist"
        yield f"values: Invalid value: {_quoted(each.values)}: {problem}"
    for number, value in enumerate(each.values):
        if problem := value_problem(value):
            yield f"values[{number}][{each.key}]: Invalid value: {_quoted(value)}: {problem}"


def _quoted(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class SelectorIndex(Generic[Item]):
    """Items by their selectors, so that the few that may select some labels are found without
    looking at all of them: by the values of the first In requirement, or where there is none by the
    key of the first Exists."""

    def __init__(self, selector_of: Callable[[Item], Selector]) -> None:
        """Items are hashable; each is in the index once."""
        self._selector_of = selector_of
        self._anchored: dict[tuple[str, str | None], dict[Item, None]] = {}
        """By label; by (key, None) what needs the key and no certain value."""
        self._others: dict[Item, None] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, item: Item) -> None:
        """Takes an item in."""
        for bucket in self._buckets(item):
            bucket[item] = None
        self._length += 1

    def remove(self, item: Item) -> None:
        """Takes an item out. Raises KeyError where it is not there."""
        for bucket in self._buckets(item):
            del bucket[item]
        for label in self._anchors(item):
            if not self._anchored[label]:
                del self._anchored[label]
        self._length -= 1

    def selecting(self, labels: Mapping[str, str]) -> Iterator[Item]:
        """The items whose selectors select these labels."""
        for item in self._others:
            if selects(self._selector_of(item), labels):
                yield item
        if not self._anchored:
            return
        for key, value in labels.items():
            for label in ((key, value), (key, None)):
                for item in self._anchored.get(label, ()):
                    if selects(self._selector_of(item), labels):
                        yield item

    def _anchors(self, item: Item) -> Sequence[tuple[str, str | None]]:
        selector = self._selector_of(item) or ()
        for each in selector:
            if each.operator == "In":
                return [(each.key, value) for value in dict.fromkeys(each.values)]
        return [(each.key, None) for each in selector if each.operator == "Exists"][:1]

    def _buckets(self, item: Item) -> Iterator[dict[Item, None]]:
        anchors = self._anchors(item)
        selector = self._selector_of(item) or ()
        is_anchored = any(each.operator in ("In", "Exists") for each in selector)
        if not is_anchored:
            yield self._others
        for label in anchors:
            yield self._anchored.setdefault(label, {})
