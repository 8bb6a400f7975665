"""Counts of pods by node: pods that a selector selects, and pods that own an affinity term.

Part of a NodeTable, which reports the pods that are added to a row and removed from it. A count is
made when it is first asked for and follows every placement from then on, and so do its sums by
topology domain: a cycle never looks at pods. Everything is derived from the pods on the rows.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.objects import AffinityTerm, Pod, Selector
from eventsched.domain.objects.selectors import SelectorIndex, flaw, selects

Int64s = NDArray[np.int64]

MOST_QUERIES = 4096
"""The most queries that are cached; the least recently used one is dropped first."""
_MAX_CACHED_KINDS = 512
"""The most kinds of pods for which the terms about them are cached."""
_LONGEST_LOG = 4096
_SPARSE = 16
"""A tally is summed up row by row while fewer than one row in 16 is not 0."""
_FEW = 64
"""Up to this number of steps are applied one by one; for more, summing up again is faster."""


class PodQuery(NamedTuple):
    """Pods in some namespaces (None: in all) that a selector selects; ``terminating`` says whether
    pods that are being deleted count."""

    namespaces: frozenset[str] | None
    selector: Selector
    terminating: bool = True

    def covers(self, pod: Pod) -> bool:
        """Whether a pod is one of them, its labels aside."""
        return (self.namespaces is None or pod.namespace in self.namespaces) and (
            self.terminating or not pod.deleting
        )

    def counts(self, pod: Pod) -> bool:
        """Whether a pod is one of them."""
        return self.covers(pod) and selects(self.selector, pod.labels)


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
    """A pod's term with its namespaces: the pod's own if the term has neither names nor a selector
    of namespaces (upstream: getNamespacesFromPodAffinityTerm)."""
    namespaces = frozenset(term.namespaces)
    if not namespaces and term.namespace_selector is None:
        namespaces = frozenset((pod.namespace,))
    return OwnedTerm(
        role, term.topology_key, namespaces, term.namespace_selector, term.selector, weight
    )


def terms_of(pod: Pod, role: Role) -> tuple[OwnedTerm, ...]:
    """A pod's terms in a role. Raises ValueError, in upstream's words, if one is malformed."""
    weighted: Iterable[tuple[AffinityTerm, int]]
    match role:
        case Role.REQUIRED:
            weighted = ((term, 0) for term in pod.spec.required_affinity)
        case Role.REQUIRED_ANTI:
            weighted = ((term, 0) for term in pod.spec.required_anti_affinity)
        case Role.PREFERRED:
            weighted = (
                (preference.term, preference.weight) for preference in pod.spec.preferred_affinity
            )
        case Role.PREFERRED_ANTI:
            weighted = (
                (preference.term, preference.weight)
                for preference in pod.spec.preferred_anti_affinity
            )
    terms = tuple(owned_term(pod, role, term, weight) for term, weight in weighted)
    for owned in terms:
        problem = flaw(owned.selector) or flaw(owned.namespace_selector)
        if problem:
            raise ValueError(problem)
    return terms


def owned_terms(pod: Pod) -> Iterator[OwnedTerm]:
    """All terms of a pod on a node. A malformed term drops all terms of its role (upstream:
    PodInfo.Update, whose errors NodeInfo ignores)."""
    for role in Role:
        with suppress(ValueError):
            yield from terms_of(pod, role)


class RowCounts:
    """A count for each row, and the log of its changes for readers that sum it up. ``total`` is the
    sum over all rows. Only rows that are not 0 take memory until ``column`` is read."""

    __slots__ = ("_base", "_capacity", "_column", "_rows", "_steps", "total")

    def __init__(self, capacity: int, rows: Mapping[int, int] | None = None) -> None:
        """``rows``: the initial counts."""
        self._capacity = capacity
        self._column: Int64s | None = None
        self._rows = dict(rows or {})
        self.total = sum(self._rows.values())
        self._steps: list[tuple[int, int]] = []
        self._base = 0

    @property
    def column(self) -> Int64s:
        """int64[capacity]."""
        if self._column is None:
            self._column = np.zeros(self._capacity, dtype=np.int64)
            self._column[list(self._rows)] = list(self._rows.values())
        return self._column

    @property
    def rows(self) -> tuple[list[int], list[int]]:
        """The rows that are not 0, and their counts."""
        return list(self._rows), list(self._rows.values())

    def sums(self, ids: NDArray[np.intp], size: int, eligible: NDArray[np.bool_] | None) -> Int64s:
        """int64[size]: the sums over the rows of each id, only over rows that are ``eligible``."""
        if self._column is None and len(self._rows) * _SPARSE < len(ids):
            rows, numbers = (np.array(column, dtype=np.intp) for column in self.rows)
            if eligible is not None:
                rows, numbers = rows[eligible[rows]], numbers[eligible[rows]]
            ids = ids[rows]
        else:
            numbers = self.column[: len(ids)]
            numbers = numbers if eligible is None else numbers * eligible
        return np.bincount(ids, weights=numbers, minlength=size).astype(np.int64)

    def grow(self, capacity: int) -> None:
        """Makes room for more rows."""
        self._capacity, self._column = capacity, None

    def add(self, row: int, step: int) -> None:
        """Adds to the count of a row; subtracts if ``step`` is below 0."""
        count = self._rows.get(row, 0) + step
        if count:
            self._rows[row] = count
        else:
            del self._rows[row]
        if self._column is not None:
            self._column[row] = count
        self.total += step
        self._steps.append((row, step))
        if len(self._steps) > _LONGEST_LOG:
            half = _LONGEST_LOG // 2
            del self._steps[:half]
            self._base += half

    @property
    def end(self) -> int:
        """The cursor of a reader that has seen all steps."""
        return self._base + len(self._steps)

    def since(self, cursor: int) -> Sequence[tuple[int, int]] | None:
        """(row, step) after a cursor; None if the log no longer reaches back that far."""
        return None if cursor < self._base else self._steps[cursor - self._base :]


class Tallies:
    """All counts of a table: by query and by owned term."""

    def __init__(self) -> None:
        self._queries: dict[PodQuery, RowCounts] = {}
        self._query_index: SelectorIndex[PodQuery] = SelectorIndex(lambda query: query.selector)
        self._owners: dict[OwnedTerm, RowCounts] = {}
        self._term_index: SelectorIndex[OwnedTerm] = SelectorIndex(lambda term: term.selector)
        self._terms: dict[tuple[bytes, str], tuple[OwnedTerm, ...]] = {}
        self._about: dict[Hashable, list[tuple[OwnedTerm, RowCounts]]] = {}
        """The cache of ``about``, cleared when a term is added or removed."""
        self._kinds: list[tuple[Pod, dict[int, int]]] | None = None
        """Groups of pods on nodes that every query treats alike: one of them, and how many are on
        each row."""

    def copied(self, capacity: int) -> "Tallies":
        """The same owned terms, counted on their own; queries are counted when they are asked."""
        other = Tallies()
        for term, tally in self._owners.items():
            other._owners[term] = RowCounts(capacity, dict(zip(*tally.rows, strict=True)))
            other._term_index.add(term)
        return other

    # --- changes, called by NodeTable only ------------------------------------------------

    def place(self, row: int, pod: Pod, sign: int, capacity: int) -> None:
        """Adds a pod to the counts of a row (``sign`` 1) or removes it (-1)."""
        self._kinds = None
        if self._queries:
            for query in self._query_index.selecting(pod.labels):
                if query.covers(pod):
                    self._queries[query].add(row, sign)
        if pod.spec.has_affinity:
            for term in self.terms(pod):
                self._own(term, row, sign, capacity)

    def grow(self, capacity: int) -> None:
        """Makes room for more rows."""
        for tally in (*self._queries.values(), *self._owners.values()):
            tally.grow(capacity)

    def _own(self, term: OwnedTerm, row: int, sign: int, capacity: int) -> None:
        tally = self._owners.get(term)
        if tally is None:
            tally = self._owners[term] = RowCounts(capacity)
        if not tally.total:
            self._term_index.add(term)
            self._about.clear()
        tally.add(row, sign)
        if not tally.total:
            self._term_index.remove(term)
            self._about.clear()
            del self._owners[term]

    # --- questions ------------------------------------------------------------------------

    def terms(self, pod: Pod) -> tuple[OwnedTerm, ...]:
        """A pod's affinity terms, one object for pods with equal spec and namespace."""
        key = (pod.spec.key, pod.namespace)
        terms = self._terms.get(key)
        if terms is None:
            if len(self._terms) > MOST_QUERIES:
                self._terms.clear()
            terms = self._terms[key] = tuple(owned_terms(pod))
        return terms

    def count(
        self, query: PodQuery, residents: Iterable[tuple[int, Iterable[Pod]]], capacity: int
    ) -> RowCounts:
        """The tally of a query; ``residents`` (row, its pods) are counted if the query is new."""
        tally = self._queries.pop(query, None)
        if tally is None:
            counted: Counter[int] = Counter()
            for pod, rows in self._grouped(residents):
                if query.counts(pod):
                    counted.update(rows)
            tally = RowCounts(capacity, counted)
            self._query_index.add(query)
            if len(self._queries) >= MOST_QUERIES:
                oldest = next(iter(self._queries))
                del self._queries[oldest]
                self._query_index.remove(oldest)
        self._queries[query] = tally  # the most recently used one is last
        return tally

    def _grouped(
        self, residents: Iterable[tuple[int, Iterable[Pod]]]
    ) -> list[tuple[Pod, dict[int, int]]]:
        """Cached until a pod is added or removed: a pod with a thousand terms has a thousand
        queries."""
        if self._kinds is None:
            kinds: dict[Hashable, tuple[Pod, dict[int, int]]] = {}
            for row, pods in residents:
                for pod in pods:
                    key = (pod.namespace, pod.deleting, tuple(pod.labels.items()))
                    rows = kinds.setdefault(key, (pod, {}))[1]
                    rows[row] = rows.get(row, 0) + 1
            self._kinds = list(kinds.values())
        return self._kinds

    def about(
        self, pod: Pod, namespace_labels: Mapping[str, str]
    ) -> list[tuple[OwnedTerm, RowCounts]]:
        """The terms of pods on nodes that are about a pod, and how many owners each row has. Read
        only: it is cached for pods with equal labels and namespaces."""
        if not len(self._term_index):
            return []
        labels = tuple(pod.labels.items()), tuple(namespace_labels.items())
        key = pod.namespace, *labels
        terms = self._about.get(key)
        if terms is None:
            if len(self._about) >= _MAX_CACHED_KINDS:
                self._about.clear()
            terms = self._about[key] = [
                (term, self._owners[term])
                for term in self._term_index.selecting(pod.labels)
                if pod.namespace in term.namespaces
                or selects(term.namespace_selector, namespace_labels)
            ]
        return terms

    @property
    def owning(self) -> bool:
        """Whether any pod on a node has affinity terms."""
        return bool(self._owners)


class DomainSums:
    """A tally summed up by the values of a label (numbered as in the label's column) over eligible
    rows. Follows the tally's steps."""

    __slots__ = ("_cursor", "_tally", "eligible", "ids", "sums")

    def __init__(self, tally: RowCounts, ids: NDArray[np.intp], size: int, eligible: Any) -> None:
        """``ids``: intp[n], each row's domain; ``size``: how many domains there are; ``eligible``:
        bool[n], or None for all rows."""
        self.sums: Int64s = tally.sums(ids, size, eligible)
        self.ids, self.eligible = ids, eligible
        self._tally, self._cursor = tally, tally.end

    def follows(self, tally: RowCounts) -> bool:
        """Applies the tally's steps since the last call; False if the tally is another one, or if
        the steps were dropped or are too many."""
        if tally is not self._tally or tally.end - self._cursor > _FEW:
            return False
        steps = tally.since(self._cursor)
        if steps is None:
            return False
        for row, step in steps:
            if self.eligible is None or self.eligible[row]:
                self.sums[self.ids[row]] += step
        self._cursor = self._tally.end
        return True


class DomainIndex:
    """A cache of sums, each valid until a node changes."""

    def __init__(self) -> None:
        self._sums: dict[Hashable, tuple[int, DomainSums]] = {}

    def sums(
        self, key: Hashable, version: int, tally: RowCounts, ids: NDArray[np.intp], size: int,
        eligible: NDArray[np.bool_] | None,
    ) -> Int64s:  # fmt: skip
        """int64[size]: the sums of ``key`` (tally, label and eligibility) at a version of the
        nodes."""
        cached = self._sums.get(key)
        if cached is not None and cached[0] == version and cached[1].follows(tally):
            return cached[1].sums
        if len(self._sums) > MOST_QUERIES:
            self._sums.clear()
        domain_sums = DomainSums(tally, ids, size, eligible)
        self._sums[key] = (version, domain_sums)
        return domain_sums.sums
