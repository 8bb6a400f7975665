"""Utilization: shares of the allocatable total, weighted by the time they lasted."""

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Container, Node, Pod, PodSpec
from eventsched.runtime.simulation.utilization import Meter, Utilization


def node(name: str, cpu: int, **more: int) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "pods": 10, **more})


def pod(cpu: int) -> Pod:
    return Pod(uid=str(cpu), name="p", spec=PodSpec(containers=(Container(requests={"cpu": cpu}),)))


def test_the_mean_is_weighted_by_time_and_the_peak_is_the_largest_share() -> None:
    table = NodeTable()
    row = table.add(node("n1", 1000))
    meter = Meter(table)
    meter.advance(0)
    table.place(row, pod(500))
    meter.advance(10)
    table.place(row, pod(400))
    meter.advance(20)
    table.place(row, pod(400), -1)
    meter.advance(40)
    assert meter.report()["cpu"] == Utilization((500 * 10 + 900 * 10 + 500 * 20) / 40_000, 0.9)


def test_the_totals_follow_nodes_that_come_change_and_go() -> None:
    table = NodeTable()
    table.add(node("n1", 1000))
    gone = table.add(node("n2", 3000))
    table.place(gone, pod(1000))
    meter = Meter(table)
    assert meter.report()["cpu"] == Utilization(0.25, 0.25)
    table.update(node("n1", 5000))
    assert Meter(table).report()["cpu"].mean == 1000 / 8000
    table.place(gone, pod(1000), -1)
    table.remove("n2", 0)
    assert Meter(table).report()["cpu"] == Utilization(0.0, 0.0)


def test_resources_that_no_node_offers_are_left_out() -> None:
    table = NodeTable()
    table.add(node("n1", 1000))
    assert set(Meter(table).report()) == {"cpu", "pods"}


def test_a_resource_in_the_column_of_another_begins_at_zero() -> None:
    table = NodeTable()
    table.free_columns(is_on=True)
    table.add(node("n1", 1000))
    meter = Meter(table)
    meter.advance(0)
    for at, name in ((10, "example.com/a"), (20, ""), (30, "example.com/b")):
        table.update(node("n1", 1000, **({name: 4} if name else {})))
        meter.advance(at)
    spec = PodSpec(containers=(Container(requests={"example.com/b": 3}),))
    table.place(0, Pod(uid="p", name="p", spec=spec))
    meter.advance(40)
    assert meter.report()["example.com/b"] == Utilization(0.75 * 10 / 20, 0.75)
