"""Finds few changes with which a pod lands on a node, and proves them by deciding again.

Changes are collected until the pod lands, refusal by refusal. Then each is left out in turn: what
is not needed goes, so in the end no change can be left out. Fewer others may still
be enough. Numbers are tightened last: the largest request and the smallest skew with which the pod
lands.

Of pods to remove for room, few are preferred, none of them more important than needed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from eventsched.history.why_not.case import Case, Side
from eventsched.history.why_not.change_value import unit_of
from eventsched.history.why_not.changes import (
    AnyChange,
    NodeRequired,
    PodRemoved,
    RequestLimited,
    SpreadConstraintChanged,
)
from eventsched.history.why_not.hypothesis import Hypothesis, Landing
from eventsched.history.why_not.proposals import proposals

_ROUNDS = 24
"""Refusals that are answered one after the other; more than a profile has filters."""
_LARGEST_SKEW = 2**20


class Remedy(NamedTuple):
    """The result of a search. ``landing`` is what happens without a change, ``changes`` those that
    are needed. If none were found, ``changes`` is empty and ``stuck`` says what refuses in the
    end."""

    landing: Landing
    changes: tuple[AnyChange, ...] = ()
    stuck: Landing | None = None


def remedies(hypothesis: Hypothesis) -> list[Remedy]:
    """The remedies of both sides, the more useful one first: one that does not pin the pod to the
    node, and of these the one with fewer changes. One that leaves hardly anything of a request is
    left out if there is another. They are by changes of the pod, and by changes of
    the cluster if there is a choice. Equal ones are given once. The first one has no changes if the
    pod lands already, and is ``stuck`` if there is no remedy."""
    found = [_remedy(hypothesis, side) for side in Side]
    if found[0].changes == found[1].changes:
        return found[:1]
    helpful = [remedy for remedy in found if remedy.stuck is None]
    helpful = [remedy for remedy in helpful if not _is_drastic(remedy)] or helpful
    return sorted(helpful, key=_usefulness) or found[:1]


def _is_drastic(remedy: Remedy) -> bool:
    return any(isinstance(each, RequestLimited) and each.is_drastic for each in remedy.changes)


def _usefulness(remedy: Remedy) -> tuple[bool, int]:
    """A pod that is pinned to a node waits as soon as that node is full, so it comes last."""
    pins = any(isinstance(change, NodeRequired) for change in remedy.changes)
    return pins, len(remedy.changes)


def _remedy(hypothesis: Hypothesis, side: Side) -> Remedy:
    """The remedy with few pods to remove for room. After their removal something else may be
    needed, a weight for example, that is not needed without the least important pods. Then the
    more useful of both ways is taken."""
    steps = list(_steps(hypothesis, side, is_thrifty=True))
    thrifty = _ended(hypothesis, steps[-1])
    removed = _removed(steps[-1])
    if not removed or (thrifty.stuck is None and isinstance(steps[-1][-1], PodRemoved)):
        return thrifty
    made: tuple[AnyChange, ...] = ()
    for made in _steps(hypothesis, side, is_thrifty=False):
        if _removed(made) == removed:
            return thrifty
    ways = (_ended(hypothesis, made), thrifty)
    return min(ways, key=lambda way: (way.stuck is not None, *_usefulness(way)))


def _removed(made: tuple[AnyChange, ...]) -> list[AnyChange]:
    return [change for change in made if isinstance(change, PodRemoved)]


def _steps(
    hypothesis: Hypothesis, side: Side, *, is_thrifty: bool
) -> Iterator[tuple[AnyChange, ...]]:
    """All changes so far, refusal by refusal, until the pod lands or no more change is known."""
    made: tuple[AnyChange, ...] = ()
    yield made
    for _ in range(_ROUNDS):
        landing = hypothesis.landing(made)
        if landing.lands:
            return
        proposed = proposals(Case(hypothesis, made, landing, side, is_thrifty))
        new = [change for change in proposed if change not in made]
        if not new:
            return
        made = (*made, *new)
        yield made


def _ended(hypothesis: Hypothesis, made: tuple[AnyChange, ...]) -> Remedy:
    """The remedy of a search that ends with these changes."""
    first, landing = hypothesis.landing(()), hypothesis.landing(made)
    if not landing.lands:
        return Remedy(first, stuck=landing)
    return Remedy(first, _tightened(hypothesis, _needed(hypothesis, made)))


def _needed(hypothesis: Hypothesis, made: Sequence[AnyChange]) -> tuple[AnyChange, ...]:
    """The changes without those that can be left out, until none can."""
    needed = tuple(made)
    is_smaller = True
    while is_smaller:
        is_smaller = False
        # The last ones first: a later change answers a refusal that an earlier one has exposed.
        for change in reversed(needed):
            without = tuple(each for each in needed if each != change)
            if hypothesis.landing(without).lands:
                needed, is_smaller = without, True
    return needed


def _tightened(hypothesis: Hypothesis, made: tuple[AnyChange, ...]) -> tuple[AnyChange, ...]:
    """The same changes with the numbers that are nearest to the present ones. A number is kept if
    no part of the whole could be left out with another."""
    for index, change in enumerate(made):
        lands = partial(_lands_with, hypothesis, made, index)
        tighter: AnyChange | None = None
        match change:
            case RequestLimited():
                tighter = _largest_request(change, lands)
            case SpreadConstraintChanged():
                before = hypothesis.pod.spec.spread[change.index].max_skew
                tighter = _smallest_skew(change, before, lands)
        if tighter is None:
            continue
        tried = _replaced(made, index, tighter)
        if _needed(hypothesis, tried) == tried:
            made = tried
    return made


def _lands_with(
    hypothesis: Hypothesis, made: tuple[AnyChange, ...], index: int, other: AnyChange
) -> bool:
    return hypothesis.landing(_replaced(made, index, other)).lands


def _replaced(made: tuple[AnyChange, ...], index: int, other: AnyChange) -> tuple[AnyChange, ...]:
    return (*made[:index], other, *made[index + 1 :])


def _largest_request(
    change: RequestLimited, lands: Callable[[AnyChange], bool]
) -> RequestLimited | None:
    unit = unit_of(change.resource)
    low, high = 0, -(-change.before // unit)
    while high - low > 1:
        middle = (low + high) // 2
        if lands(replace(change, limit=middle * unit)):
            low = middle
        else:
            high = middle
    return replace(change, limit=low * unit) if low else None


def _smallest_skew(
    change: SpreadConstraintChanged, before: int, lands: Callable[[AnyChange], bool]
) -> SpreadConstraintChanged | None:
    low, high = before, _LARGEST_SKEW
    if not lands(replace(change, max_skew=high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if lands(replace(change, max_skew=middle)):
            high = middle
        else:
            low = middle
    return replace(change, max_skew=high)
