"""The fewest pods of a node whose removal makes room, by the sums of their requests.

Which pods are enough is a covering problem, hard in general: the largest ones first are the fewest
if one resource is short. If several are, smaller sets are tried, up to a number of them.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.objects import PODS, pod_requests
from eventsched.domain.state.pod_state import PodState
from eventsched.history.why_not.case import Case

MOST_SETS = 5_000
"""Sets of pods that are tried for one with fewer pods than the largest ones first."""


class _Shortage(NamedTuple):
    """What is short on the node (``amounts``, one of each resource, above 0), and what each pod
    of the node would free of it (``freed``, a row for each)."""

    amounts: NDArray[np.float64]
    freed: NDArray[np.float64]

    def is_covered_by(self, places: Sequence[int]) -> bool:
        """Whether the removal of the pods at these places is enough."""
        return bool((self.freed[list(places)].sum(axis=0) >= self.amounts).all())


class Fewer(NamedTuple):
    """``victims`` free what is lacking. ``more`` could go, too, the largest first, if the pod then
    fits but another node has a higher total; all of these are still fewer than the least important
    ones that it takes."""

    victims: list[PodState]
    more: list[PodState]


def fewer_victims(case: Case, lacking: Sequence[str]) -> Fewer | None:
    """Pods of the node, fewer than if the least important ones are taken first, that free what is
    lacking. None of them is more important than the most important one that it takes in any case.
    None if there are none. The sums are those of the present requests: a decision has to prove
    that the pod fits."""
    residents = case.residents()
    shortage = _shortage(case, residents, lacking)
    if shortage is None:
        return None
    enough = next(
        (n for n in range(1, len(residents) + 1) if shortage.is_covered_by(range(n))), None
    )
    if enough is None:
        return None
    freeing = [n for n in range(len(residents)) if shortage.freed[n].any()]
    plain = _irreducible(shortage, [n for n in freeing if n < enough])
    highest = residents[enough - 1].pod.priority
    able = [n for n in freeing if residents[n].pod.priority <= highest]
    fewest = _fewest(shortage, able, len(plain))
    if fewest is None:
        return None
    sizes = (shortage.freed / shortage.amounts).sum(axis=1)
    others = sorted((n for n in able if n not in fewest), key=lambda n: -sizes[n])
    more = others[: len(plain) - 1 - len(fewest)]
    return Fewer([residents[n] for n in fewest], [residents[n] for n in more])


def _shortage(
    case: Case, residents: Sequence[PodState], lacking: Sequence[str]
) -> _Shortage | None:
    """None if nothing is short by the sums."""
    own = {**pod_requests.of(case.pod.spec).effective, PODS: 1}
    room = case.hypothesis.node.allocatable
    requests = [{**pod_requests.of(each.pod.spec).effective, PODS: 1} for each in residents]
    freed = np.array(
        [[each.get(name, 0) for name in lacking] for each in requests], dtype=np.float64
    ).reshape(len(residents), len(lacking))
    wanted = [own.get(name, 0) - room.get(name, 0) for name in lacking]
    amounts = np.array(wanted, dtype=np.float64) + freed.sum(axis=0)
    short = amounts > 0
    return _Shortage(amounts[short], freed[:, short]) if short.any() else None


def _irreducible(shortage: _Shortage, places: Sequence[int]) -> list[int]:
    """The places without those that can be left out, the last ones first."""
    needed = list(places)
    for place in reversed(places):
        without = [each for each in needed if each != place]
        if shortage.is_covered_by(without):
            needed = without
    return needed


def _fewest(shortage: _Shortage, able: Sequence[int], than: int) -> list[int] | None:
    """The fewest of these places that cover the shortage, in their order, if they are fewer
    ``than`` a number."""
    least = _least_number(shortage, able)
    if least >= than:
        return None
    largest = _irreducible(shortage, _largest_first(shortage, able))
    found = sorted(largest) if len(largest) < than else None
    tried = 0
    for size in range(least, min(than, len(largest))):
        tried += comb(len(able), size)
        if tried > MOST_SETS:
            break
        sets = np.array(list(combinations(able, size)))
        covering = (shortage.freed[sets].sum(axis=1) >= shortage.amounts).all(axis=1)
        if covering.any():
            return [int(place) for place in sets[covering.argmax()]]
    return found


def _least_number(shortage: _Shortage, able: Sequence[int]) -> int:
    """Fewer places than these cannot cover one of the resources."""
    descending = np.sort(shortage.freed[list(able)], axis=0)[::-1]
    return int((np.cumsum(descending, axis=0) < shortage.amounts).sum(axis=0).max()) + 1


def _largest_first(shortage: _Shortage, able: Sequence[int]) -> list[int]:
    """The place that covers most of what is still short, again and again until nothing is; of
    equal ones the first."""
    taken: list[int] = []
    left = shortage.amounts.copy()
    while (left > 0).any():
        parts = np.minimum(shortage.freed[list(able)], left).clip(min=0) / shortage.amounts
        shares = parts.sum(axis=1)
        shares[[able.index(each) for each in taken]] = -1
        taken.append(able[int(shares.argmax())])
        left = np.maximum(left - shortage.freed[taken[-1]], 0)
    return taken
