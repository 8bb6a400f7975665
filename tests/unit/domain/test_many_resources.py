"""Pods that name resources which no node has: any number of them, and nothing grows with it."""

from typing import Any

import msgspec
import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.nodes.pod_counts import PodQuery
from eventsched.domain.objects import Container, Node, Pod, PodSpec, Requirement
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.cycle import judgement_recording
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed

MANY = 2000
CYCLE = Cycle(now=0, seed="")


def invented(number: int = MANY, amount: int = 1, start: int = 0) -> dict[str, int]:
    """Resources that no node has."""
    return {f"example.com/r{n:05}": amount for n in range(start, start + number)}


def greedy(name: str = "p1", requests: dict[str, int] | None = None, **fields: Any) -> Pod:
    """A pod that asks for them."""
    container = Container(requests=invented() if requests is None else requests)
    return msgspec.structs.replace(make_pod(name, **fields), spec=PodSpec(containers=(container,)))


def with_gpus(number: int, name: str = "n1", **fields: Any) -> Node:
    """A node with devices."""
    return make_node(name, **fields, extra={"example.com/gpu": number})


class Watched(NodeView):
    """A view that counts how many resources it was asked for at a time."""

    asked: tuple[int, ...] = ()

    def books(self, resources: tuple[str, ...]) -> Any:
        self.asked += (len(resources),)
        return super().books(resources)


def held(engine: Engine, resource: str) -> list[int]:
    """What each node's pods request of a resource that has a column."""
    nodes = engine.state.nodes
    return nodes.books[: nodes.size, 1, nodes.resource_index[resource]].tolist()


def test_a_pod_that_waits_for_them_needs_no_arrays_of_them() -> None:
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node("n1"), make_node("n2")), *added(greedy()))
    view = Watched(engine.state.nodes)
    codes = NodeResourcesFit().filter(CYCLE, greedy(), view)
    assert codes is not None
    assert (codes != 0).tolist() == [True, True]
    assert view.asked == (1,)  # the number of pods
    [_, decided, _] = attempted(engine)
    assert isinstance(decided, records.PodDecided)
    assert decided.message == "0/2 nodes are available: {}.".format(
        ", ".join(f"2 Insufficient {name}" for name in invented())
    )
    assert engine.state.nodes.books.shape[2] == 4


def test_a_pod_on_a_node_takes_no_columns() -> None:
    engine = engine_of(NodeResourcesFit())
    told = observed(engine, *added(make_node(), greedy(node_name="n1")))
    assert told[-1] == records.NodeOvercommitted(
        node="n1", by="p1", resources=dict.fromkeys(invented(), (1, 0))
    )
    nodes = engine.state.nodes
    assert (len(nodes.resource_index), nodes.books.shape[2], nodes.overbooked([0])) == (4, 4, 1)
    observed(engine, records.PodDeleted(uid="p1"))
    assert (nodes.unoffered, nodes.overbooked([0])) == ({}, 0)


def test_what_a_node_offers_later_counts_what_is_held_of_it() -> None:
    """On all nodes, and in the sums; the pods that come and go after that find it there."""
    engine = engine_of(NodeResourcesFit())
    asks = {"example.com/gpu": 2, "example.com/other": 1}
    pods = [greedy(f"p{n}", asks, node_name=f"n{n}") for n in (1, 2)]
    observed(engine, *added(make_node("n1"), make_node("n2"), *pods))
    observed(engine, records.NodeUpdated(node=with_gpus(3)))
    nodes = engine.state.nodes
    assert held(engine, "example.com/gpu") == [2, 2]
    assert nodes.totals[:, nodes.resource_index["example.com/gpu"]].tolist() == [3, 4]
    assert nodes.unoffered == {0: {"example.com/other": 1}, 1: {"example.com/other": 1}}
    observed(engine, records.PodDeleted(uid="p1"))
    observed(engine, *added(greedy("p3", {"example.com/gpu": 1}, node_name="n2")))
    assert held(engine, "example.com/gpu") == [0, 3]
    assert nodes.unoffered == {1: {"example.com/other": 1}}
    observed(engine, *added(greedy("p4", {"example.com/gpu": 3})))
    assert attempted(engine)[-1].node == "n1"


def test_columns_grow_by_doubling() -> None:
    engine = engine_of()
    widths = []
    for number in range(20):
        node = make_node(f"n{number}", extra=invented(1, start=number))
        observed(engine, *added(node))
        widths.append(engine.state.nodes.books.shape[2])
    assert widths == [8] * 4 + [16] * 8 + [32] * 8


def test_amounts_beyond_what_fits_wrap_as_elsewhere() -> None:
    engine = engine_of(NodeResourcesFit())
    pods = [greedy(f"p{n}", {"example.com/a": 2**63 - 1}, node_name="n1") for n in range(3)]
    observed(engine, *added(make_node(), *pods))
    assert engine.state.nodes.unoffered == {0: {"example.com/a": 2**63 - 3}}
    observed(engine, records.NodeUpdated(node=make_node(extra={"example.com/a": 1})))
    assert held(engine, "example.com/a") == [2**63 - 3]


@pytest.mark.parametrize("number", [3, 30])
def test_only_what_a_node_is_short_of_is_named(number: int) -> None:
    """Of few resources and of many, in upstream's order: those that fit are left out."""
    engine = engine_of(NodeResourcesFit())
    asks = {**invented(number), "example.com/gpu": 2, "example.com/s": 1, "cpu": 5000}
    offered = {"example.com/gpu": 1, "example.com/s": 1}
    observed(engine, *added(make_node(cpu=8000, extra=offered), make_node("n2", cpu=4000)))
    pod = greedy("p1", asks)
    status = {}
    fit = NodeResourcesFit()
    codes = fit.filter(CYCLE, pod, NodeView(engine.state.nodes))
    assert isinstance(codes, np.ndarray)
    for name, code in zip(("n1", "n2"), codes.tolist(), strict=True):
        status[name] = fit.explain(CYCLE, pod, code)
    rest = [f"Insufficient {name}" for name in invented(number)]
    assert {name: each.code for name, each in status.items()} == dict.fromkeys(
        ("n1", "n2"), Code.UNRESOLVABLE
    )
    assert status["n1"].reasons == ("Insufficient example.com/gpu", *rest)
    assert status["n2"].reasons == (
        "Insufficient cpu", "Insufficient example.com/gpu", *rest, "Insufficient example.com/s",
    )  # fmt: skip


# --- resources that nodes no longer offer ---------------------------------------------------

BEFORE = tuple(flag for flag in CURRENT if flag != Behaviour.FREES_COLUMNS)
GPU = "example.com/gpu"


def started(flags: tuple[int, ...] = CURRENT) -> Engine:
    engine = engine_of(NodeResourcesFit())
    observed(engine, records.StreamStarted(format=1, engine="0", seed="s", flags=flags))
    return engine


def replaced(engine: Engine, times: int = 40) -> None:
    """Nodes come and go, each with a resource of its own and a pod that requests it."""
    for number in range(times):
        name, resource = f"n{number}", invented(1, start=number)
        pod = greedy(f"p{number}", resource, node_name=name)
        observed(engine, *added(make_node(name, extra=resource), pod))
        node_first = [records.NodeDeleted(name=name), records.PodDeleted(uid=pod.uid)]
        observed(engine, *(node_first if number % 2 else reversed(node_first)))


def columns(engine: Engine) -> list[str]:
    """The names of the columns beyond those of every node."""
    return engine.state.nodes.columns.names[4:]


def test_resources_of_nodes_that_are_gone_leave_no_columns() -> None:
    engine = started()
    replaced(engine)
    nodes = engine.state.nodes
    assert (columns(engine), nodes.books.shape[2], nodes.columns.withdrawn) == ([""], 8, set())


def test_a_stream_without_the_behaviour_keeps_them() -> None:
    engine = started(BEFORE)
    replaced(engine)
    assert columns(engine) == list(invented(40))
    observed(engine, records.TermBegan(epoch=2, token="t", engine="1", flags=CURRENT))
    assert columns(engine) == [""] * 40


def test_a_resource_keeps_its_column_while_a_pod_on_a_node_requests_it() -> None:
    """Another one on the same node has the first free column, and its own numbers."""
    engine = started()
    observed(engine, *added(with_gpus(4), greedy("p1", {GPU: 3}, node_name="n1")))
    observed(engine, *added(make_node("n2", extra={"example.com/other": 1})))
    update = records.NodeUpdated(node=make_node())
    assert observed(engine, update) == [
        update, records.NodeOvercommitted(node="n1", by="", resources={GPU: (3, 0)}),
    ]  # fmt: skip
    assert columns(engine) == [GPU, "example.com/other"]
    observed(engine, records.PodDeleted(uid="p1"))
    assert columns(engine) == ["", "example.com/other"]

    observed(engine, *added(greedy("p2", {GPU: 2}, node_name="n1")))
    observed(engine, records.NodeUpdated(node=make_node(extra=invented(1))))
    assert columns(engine) == [*invented(1), "example.com/other"]
    assert engine.state.nodes.unoffered == {0: {GPU: 2}}
    observed(engine, *added(greedy("p3", invented(1)), greedy("p4", invented(1))))
    first, second = (
        record for record in attempted(engine) + attempted(engine)
        if isinstance(record, records.PodDecided)
    )  # fmt: skip
    assert first.node == "n1"
    assert second.message == "0/2 nodes are available: 2 Insufficient example.com/r00000."


def test_a_snapshot_has_free_columns() -> None:
    """What comes after it gets the columns that it would have got without."""
    engine = started()
    nodes = [make_node(f"n{n}", extra=invented(1, start=n)) for n in range(3)]
    observed(engine, *added(*nodes))
    observed(engine, records.NodeDeleted(name="n1"))
    again = engine_of(NodeResourcesFit())
    again.restore(engine.snapshot(), engine.position)
    for each in (engine, again):
        assert columns(each) == ["example.com/r00000", "", "example.com/r00002"]
        observed(each, *added(with_gpus(2, "n4"), greedy("p1", {GPU: 1}, node_name="n4")))
        assert columns(each) == ["example.com/r00000", GPU, "example.com/r00002"]
    assert held(again, GPU) == held(engine, GPU)


@pytest.mark.parametrize(
    "wrong", ['["cpu","pods"]', '["cpu","memory","ephemeral-storage","pods","a","a"]']
)
def test_a_snapshot_whose_columns_contradict_each_other_is_refused(wrong: str) -> None:
    engine = started()
    listed = b'["cpu","memory","ephemeral-storage","pods"]'
    body = engine.snapshot()
    assert listed in body
    with pytest.raises(ValueError, match="contradict"):
        engine_of().restore(body.replace(listed, wrong.encode()), engine.position)


# --- the dictionary of verdicts -----------------------------------------------------------


def verdicts(engine: Engine) -> list[tuple[str, ...]]:
    """The dictionary's entries."""
    return [each.reasons for each in engine.state.verdicts if each is not None]


def messages(engine: Engine, pods: list[Pod]) -> list[str]:
    """The message for each of the pods."""
    observed(engine, *added(*pods))
    made = [record for _ in pods for record in attempted(engine)]
    return [each.message for each in made if isinstance(each, records.PodDecided)]


def test_pods_cannot_use_up_the_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a bound verdicts share an entry; each pod still gets its own message, and what
    has an entry keeps it."""
    monkeypatch.setattr(judgement_recording, "MOST_VERDICTS", 3)
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node()))
    pods = [greedy(f"p{n}", invented(1, start=n)) for n in range(6)]
    said = [f"Insufficient example.com/r0000{n}" for n in range(6)]
    assert messages(engine, pods) == [f"0/1 nodes are available: 1 {each}." for each in said]
    shared = (judgement_recording.ONE_OF_MANY,)
    assert verdicts(engine) == [(said[0],), (said[1],), shared]
    assert engine.state.verdicts[-1] == Verdict(
        plugin="NodeResourcesFit", code=Code.UNRESOLVABLE, reasons=shared
    )
    again = greedy("again", {"example.com/r00001": 7})
    observed(engine, *added(again))
    decided = attempted(engine)[-2]
    assert isinstance(decided, records.PodDecided)
    assert decided.counts == ((2, 1),)


def test_a_verdict_of_many_words_has_no_entry_of_its_own() -> None:
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node()))
    [message] = messages(engine, [greedy()])
    assert len(message) > judgement_recording.LONGEST_VERDICT
    assert verdicts(engine) == [(judgement_recording.ONE_OF_MANY,)]


def test_pods_that_are_booked_together_are_booked_as_one_by_one() -> None:
    query = PodQuery(None, (Requirement(key="app", operator="In", values=("a0",)),))
    pods = [
        (number % 2, make_pod(f"p{number}", cpu=100 * number, labels={"app": f"a{number % 3}"}))
        for number in range(20)
    ]
    pods += [(1, greedy(f"g{number}", invented(3, start=number))) for number in range(4)]
    pods.append((0, make_pod("port", ports=[80])))
    one_by_one, together = NodeTable(), NodeTable()
    for table in (one_by_one, together):
        for name in ("n1", "n2"):
            table.add(make_node(name, extra={"example.com/r00001": 8}))
        table.count(query)
    for row, pod in pods:
        one_by_one.place(row, pod)
    together.place_all(pods)
    assert together.books.tolist() == one_by_one.books.tolist()
    assert together.totals.tolist() == one_by_one.totals.tolist()
    assert together.unoffered == one_by_one.unoffered != {}
    assert list(map(list, together.residents)) == list(map(list, one_by_one.residents))
    for table in (one_by_one, together):
        changed = table.usage_journal.since(0)
        assert changed is not None
        assert changed.tolist() == [0, 1]
        assert table.count(query).column[:2].tolist() == [4, 3]
