"""Counts of pods by node: those that a selector selects, and those that own an affinity term.

Part of a NodeTable, which says when pods come to a row and leave it. A count is made at the first
question and follows every placement from then on, and so do its sums by topology domain: a cycle
never looks at pods. All of it can be derived from the pods on the rows.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.objects import AffinityTerm, Pod, Selector
from eventsched.domain.selectors import SelectorIndex, selects

Int64s = NDArray[np.int64]

MOST_QUERIES = 4096
"""Queries kept; the one that was not asked for longest is dropped first."""
_LONGEST_LOG = 4096


class PodQuery(NamedTuple):
    """Pods in some namespaces that a selector selects; ``terminating`` says whether those that are
    being deleted count as well."""

    namespaces: frozenset[str]
    selector: Selector
    terminating: bool = True

    def counts(self, pod: Pod) -> bool:
        """Whether a pod is one of them."""
        return (
            pod.namespace in self.namespaces
            and (self.terminating or not pod.deleting)
            and selects(self.selector, pod.labels)
        )


class Role(StrEnum):
    """What an affinity term is to the pod that has it."""

    REQUIRED = "required"
    PREFERRED = "preferred"
    REQUIRED_ANTI = "required-anti"
    PREFERRED_ANTI = "preferred-anti"


class OwnedTerm(NamedTuple):
    """A pod's affinity term, its namespaces resolved as far as they depend on the pod alone
    (upstream: framework/types.go AffinityTerm). ``weight`` is 0 for required ones."""

    role: Role
    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    weight: int = 0

    def selects(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term is about a pod, given its namespace's labels."""
        return (
            pod.namespace in self.namespaces or selects(self.namespace_selector, namespace_labels)
        ) and selects(self.selector, pod.labels)


def owned_term(pod: Pod, role: Role, term: AffinityTerm, weight: int = 0) -> OwnedTerm:
    """A pod's own term with its namespaces: the pod's where neither names nor a selector are given
    (upstream: getNamespacesFromPodAffinityTerm)."""
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((pod.namespace,))
    return OwnedTerm(
        role, term.topology_key, namespaces, term.namespace_selector, term.selector, weight
    )


def owned_terms(pod: Pod) -> Iterator[OwnedTerm]:
    """All of a pod's affinity terms."""
    spec = pod.spec
    for role, terms in (
        (Role.REQUIRED, spec.required_affinity),
        (Role.REQUIRED_ANTI, spec.required_anti_affinity),
    ):
        for term in terms:
            yield owned_term(pod, role, term)
    for role, weighted in (
        (Role.PREFERRED, spec.preferred_affinity),
        (Role.PREFERRED_ANTI, spec.preferred_anti_affinity),
    ):
        for each in weighted:
            yield owned_term(pod, role, each.term, each.weight)


class Tally:
    """A number for each row, that moves by small steps; and the steps, for those who sum it up."""

    __slots__ = ("_base", "_steps", "column", "total")

    def __init__(self, capacity: int) -> None:
        self.column: Int64s = np.zeros(capacity, dtype=np.int64)
        self.total = 0
        self._steps: list[tuple[int, int]] = []
        self._base = 0

    def add(self, row: int, step: int) -> None:
        """Counts a pod in (1) or out (-1)."""
        self.column[row] += step
        self.total += step
        self._steps.append((row, step))
        if len(self._steps) > _LONGEST_LOG:
            half = _LONGEST_LOG // 2
            del self._steps[:half]
            self._base += half

    @property
    def end(self) -> int:
        """The cursor of one who has seen all steps."""
        return self._base + len(self._steps)

    def since(self, cursor: int) -> Sequence[tuple[int, int]] | None:
        """(row, step) after a cursor; None where that is forgotten."""
        return None if cursor < self._base else self._steps[cursor - self._base :]


class Tallies:
    """All tallies of a table."""

    def __init__(self) -> None:
        self._queries: dict[PodQuery, Tally] = {}
        self._query_index: SelectorIndex[PodQuery] = SelectorIndex(lambda query: query.selector)
        self._owners: dict[OwnedTerm, Tally] = {}
        self._term_index: SelectorIndex[OwnedTerm] = SelectorIndex(lambda term: term.selector)
        self._terms: dict[tuple[bytes, str], tuple[OwnedTerm, ...]] = {}

    # --- changes, called by NodeTable only ------------------------------------------------

    def place(self, row: int, pod: Pod, sign: int, capacity: int) -> None:
        """Counts a pod in on a row, or out."""
        if self._queries:
            for query in self._query_index.selecting(pod.labels):
                if pod.namespace in query.namespaces and (query.terminating or not pod.deleting):
                    self._queries[query].add(row, sign)
        if pod.spec.has_affinity:
            for term in self.terms(pod):
                self._own(term, row, sign, capacity)

    def grow(self, capacity: int) -> None:
        """Makes room for more rows."""
        for tally in (*self._queries.values(), *self._owners.values()):
            wider = np.zeros(capacity, dtype=np.int64)
            wider[: len(tally.column)] = tally.column
            tally.column = wider

    def _own(self, term: OwnedTerm, row: int, sign: int, capacity: int) -> None:
        tally = self._owners.get(term)
        if tally is None:
            tally = self._owners[term] = Tally(capacity)
        if not tally.total:
            self._term_index.add(term)
        tally.add(row, sign)
        if not tally.total:
            self._term_index.remove(term)
            del self._owners[term]

    # --- questions ------------------------------------------------------------------------

    def terms(self, pod: Pod) -> tuple[OwnedTerm, ...]:
        """A pod's affinity terms, one object for pods of equal spec and namespace."""
        key = (pod.spec.key, pod.namespace)
        found = self._terms.get(key)
        if found is None:
            if len(self._terms) > MOST_QUERIES:
                self._terms.clear()
            found = self._terms[key] = tuple(owned_terms(pod))
        return found

    def count(
        self, query: PodQuery, residents: Iterable[tuple[int, Iterable[Pod]]], capacity: int
    ) -> Tally:
        """The tally of a query; ``residents`` (row, its pods) are counted where it is new."""
        found = self._queries.pop(query, None)
        if found is None:
            found = Tally(capacity)
            for row, pods in residents:
                number = sum(query.counts(pod) for pod in pods)
                if number:
                    found.column[row] = number
                    found.total += number
            self._query_index.add(query)
            if len(self._queries) >= MOST_QUERIES:
                oldest = next(iter(self._queries))
                del self._queries[oldest]
                self._query_index.remove(oldest)
        self._queries[query] = found  # the last one asked for
        return found

    def about(self, pod: Pod, namespace_labels: Mapping[str, str]) -> list[tuple[OwnedTerm, Tally]]:
        """The terms of pods on nodes that are about a pod, with how many owners each row has."""
        if not len(self._term_index):
            return []
        return [
            (term, self._owners[term])
            for term in self._term_index.selecting(pod.labels)
            if pod.namespace in term.namespaces
            or selects(term.namespace_selector, namespace_labels)
        ]

    @property
    def owning(self) -> bool:
        """Whether any pod on a node has affinity terms."""
        return bool(self._owners)


class DomainSums:
    """A tally summed up by the values of a label (numbered as in the label's column), over the rows
    that are eligible; follows the tally's steps."""

    __slots__ = ("_cursor", "_tally", "eligible", "ids", "sums")

    def __init__(self, tally: Tally, ids: NDArray[np.intp], size: int, eligible: Any) -> None:
        """``ids``: intp[n], each row's domain; ``size``: how many domains there are; ``eligible``:
        bool[n], or None for all rows."""
        column = tally.column[: len(ids)]
        weights = column if eligible is None else column * eligible
        self.sums: Int64s = np.bincount(ids, weights=weights, minlength=size).astype(np.int64)
        self.ids, self.eligible = ids, eligible
        self._tally, self._cursor = tally, tally.end

    def follows(self, tally: Tally) -> bool:
        """Takes in the tally's steps since the last time; False where it is another one, or these
        are forgotten."""
        steps = tally.since(self._cursor)
        if tally is not self._tally or steps is None:
            return False
        for row, step in steps:
            if self.eligible is None or self.eligible[row]:
                self.sums[self.ids[row]] += step
        self._cursor = self._tally.end
        return True


class DomainIndex:
    """The sums that are kept, each for as long as the nodes stay as they are."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[int, DomainSums]] = {}

    def sums(
        self, key: Hashable, version: int, tally: Tally, ids: NDArray[np.intp], size: int,
        eligible: NDArray[np.bool_] | None,
    ) -> Int64s:  # fmt: skip
        """int64[size]: the sums of ``key`` (tally, label and eligibility) at a version of the
        nodes."""
        found = self._kept.get(key)
        if found is not None and found[0] == version and found[1].follows(tally):
            return found[1].sums
        if len(self._kept) > MOST_QUERIES:
            self._kept.clear()
        made = DomainSums(tally, ids, size, eligible)
        self._kept[key] = (version, made)
        return made.sums
