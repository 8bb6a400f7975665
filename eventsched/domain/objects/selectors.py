"""Label selectors: whether one selects a set of labels, and an index of many selectors.

Upstream: apimachinery pkg/labels (Requirement.Matches). A malformed selector selects nothing here;
``flaw`` says what is wrong with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from eventsched.domain.objects.labels import key_problem, value_problem
from eventsched.domain.objects.placement_terms import Requirement, Selector

Item = TypeVar("Item")


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether all requirements hold; None selects nothing, the empty selector everything."""
    return selector is not None and all(_holds(requirement, labels) for requirement in selector)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    return False


def flaw(selector: Selector) -> str:
    """What is wrong with a selector, in upstream's words; "" if nothing is (meta/v1
    LabelSelectorAsSelector, labels.NewRequirement)."""
    for requirement in selector or ():
        if requirement.operator not in _OPERATORS:
            return f"{_quoted(requirement.operator)} is not a valid label selector operator"
        flaws = list(dict.fromkeys(_flaws(requirement)))
        if flaws:
            return flaws[0] if len(flaws) == 1 else f"[{', '.join(flaws)}]"
    return ""


def _flaws(requirement: Requirement) -> Iterator[str]:
    if problem := key_problem(requirement.key):
        yield f"key: Invalid value: {_quoted(requirement.key)}: {problem}"
    if requirement.operator in ("In", "NotIn") and not requirement.values:
        yield "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"
    if requirement.operator in ("Exists", "DoesNotExist") and requirement.values:
        problem = "values set must be empty for exists and does not exist"
        yield f"values: Invalid value: {_quoted(requirement.values)}: {problem}"
    for index, value in enumerate(requirement.values):
        if problem := value_problem(value):
            yield f"values[{index}][{requirement.key}]: Invalid value: {_quoted(value)}: {problem}"


def _quoted(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class SelectorIndex(Generic[Item]):
    """Items by their selectors. The items that may select given labels are found without looking at
    all of them: by the values of a selector's first In requirement, or without one by the key of
    its first Exists requirement."""

    def __init__(self, selector_of: Callable[[Item], Selector]) -> None:
        """Items are hashable and unique."""
        self._selector_of = selector_of
        self._anchored: dict[tuple[str, str | None], dict[Item, None]] = {}
        """Label → items; (key, None) → items that need the key with any value."""
        self._others: dict[Item, None] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, item: Item) -> None:
        """Adds an item."""
        for bucket in self._buckets(item):
            bucket[item] = None
        self._length += 1

    def remove(self, item: Item) -> None:
        """Removes an item. Raises KeyError if it is not there."""
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
        for requirement in selector:
            if requirement.operator == "In":
                return [(requirement.key, value) for value in dict.fromkeys(requirement.values)]
        existing = (requirement for requirement in selector if requirement.operator == "Exists")
        return [(requirement.key, None) for requirement in existing][:1]

    def _buckets(self, item: Item) -> Iterator[dict[Item, None]]:
        anchors = self._anchors(item)
        selector = self._selector_of(item) or ()
        is_anchored = any(requirement.operator in ("In", "Exists") for requirement in selector)
        if not is_anchored:
            yield self._others
        for label in anchors:
            yield self._anchored.setdefault(label, {})
