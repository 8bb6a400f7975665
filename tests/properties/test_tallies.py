"""Counts of pods by node, and their sums by domain, follow every change of a table: they are what
counting the pods again gives."""

import random
from typing import Any

import numpy as np
import pytest

from eventsched.domain.nodes import pod_counts
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.pod_counts import PodQuery
from eventsched.domain.objects import AffinityTerm, Node, Pod, PodSpec, Requirement
from tests.builders import make_node

LABELS = ("zone", "host", "rare")
SELECTORS = (
    (),
    None,
    (Requirement(key="app", operator="In", values=("a",)),),
    (Requirement(key="app", operator="NotIn", values=("a", "b")),),
    (Requirement(key="tier", operator="Exists"),),
    (
        Requirement(key="app", operator="In", values=("a", "b")),
        Requirement(key="tier", operator="DoesNotExist"),
    ),
)
QUERIES = [
    PodQuery(namespaces, selector, terminating)
    for namespaces in (None, frozenset(("x",)), frozenset(("x", "y")), frozenset())
    for selector in SELECTORS
    for terminating in (True, False)
]
SPECS = [PodSpec()] * 3 + [
    PodSpec(required_anti_affinity=(AffinityTerm(topology_key=label, selector=selector),) * times)
    for label, selector, times in zip(LABELS, SELECTORS[2:], (1, 2, 1), strict=False)
]


class Cluster:
    """A table, and what is done to it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.table = NodeTable()
        self.placed: list[tuple[int, Pod]] = []
        for _ in range(60):
            self.add_node()

    def add_node(self) -> None:
        self.table.add(self._node(f"n{self.table.size}"))

    def _node(self, name: str) -> Node:
        pairs = {"zone": self.random.choice("abc"), "host": name}
        if self.random.random() < 0.1:
            pairs["rare"] = "yes"
        return make_node(
            name, labels={k: v for k, v in pairs.items() if self.random.random() < 0.9}
        )

    def step(self) -> None:
        kind = self.random.choice(["place"] * 6 + ["leave"] * 5 + ["relabel", "add", "burst"])
        if kind == "place" or not self.placed:
            self._place(self.random.randrange(self.table.size))
        elif kind == "leave":
            self._leave()
        elif kind == "relabel":
            self.table.update(self._node(self.random.choice(self.table.names)))
        elif kind == "add":
            self.add_node()
        else:
            row = self.random.randrange(self.table.size)
            for _ in range(self.random.choice([3, 80])):
                self._place(row)
            for _ in range(40):
                self._leave()

    def _place(self, row: int) -> None:
        r = self.random
        pairs = {"app": r.choice("abc"), "tier": "t"}
        pod = Pod(
            uid=f"p{r.random()}", name="p", namespace=r.choice("xyz"), deleting=r.random() < 0.2,
            labels={k: v for k, v in pairs.items() if r.random() < 0.7}, spec=r.choice(SPECS),
        )  # fmt: skip
        self.table.place(row, pod)
        self.placed.append((row, pod))

    def _leave(self) -> None:
        if self.placed:
            row, pod = self.placed.pop(self.random.randrange(len(self.placed)))
            self.table.place(row, pod, -1)

    def expected(self, counts: Any) -> np.ndarray:
        """int64[size]: what counts for each pod, summed up again."""
        found = np.zeros(self.table.size, dtype=np.int64)
        for row, pod in self.placed:
            found[row] += counts(pod)
        return found

    def check_sums(
        self, key: Any, tally: Any, column: np.ndarray, label: str, eligible: Any
    ) -> None:
        """The sums of a tally whose column is known."""
        domains = self.table.label(label)
        found = self.table.domain_sums((key, eligible is not None), tally, label, eligible)
        weights = column if eligible is None else column * eligible
        ids = domains.ids[: self.table.size]
        expected = np.bincount(ids, weights=weights, minlength=len(domains.values))
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("queries", [4096, 5])
@pytest.mark.parametrize("seed", range(3))
def test_counts_and_sums(seed: int, queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_counts, "MOST_QUERIES", queries)
    monkeypatch.setattr(pod_counts, "_LONGEST_LOG", 50)
    monkeypatch.setattr(pod_counts, "_FEW", 20)
    cluster = Cluster(seed)
    r, table = cluster.random, cluster.table
    for _ in range(300):
        cluster.step()
        label = r.choice(LABELS)
        query = r.choice(QUERIES)
        tally, column = table.count(query), cluster.expected(query.counts)
        cluster.check_sums(query, tally, column, label, None)
        # Which rows are eligible may not change under one key while the nodes stay.
        names = np.array([len(name) % 2 == 0 for name in table.names])
        cluster.check_sums(query, tally, column, label, names)
        assert tally.total == column.sum()
        if r.random() < 0.5:
            assert tally.column[: table.size].tolist() == column.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_owners(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(300):
        cluster.step()
        probe = Pod(uid="q", name="q", namespace="x", labels={"app": "a", "tier": "t"})
        found = cluster.table.tallies.about(probe, {})
        for term, tally in found:

            def counts(pod: Pod, term: Any = term) -> int:
                return sum(each == term for each in cluster.table.tallies.terms(pod))

            column = cluster.expected(counts)
            assert column.any()
            assert tally.total == column.sum()
            cluster.check_sums(term, tally, column, term.topology_key, None)
            cluster.check_sums(term, tally, column, "zone", None)
        concerned = {
            term
            for _, pod in cluster.placed
            for term in cluster.table.tallies.terms(pod)
            if term.selects(probe, {})
        }
        assert {term for term, _ in found} == concerned
    for row, pod in cluster.placed:
        cluster.table.place(row, pod, -1)
    assert not cluster.table.tallies.owning
