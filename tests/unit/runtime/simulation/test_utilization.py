"""Utilization: shares of the allocatable total, weighted by the time they lasted."""

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Container, Node, Pod, PodSpec
from eventsched.runtime.simulation.utilization import Meter, Utilization


def node(name: str, cpu: int) -> Node:
    return Node(name=name, allocatable={"cpu": cpu, "pods": 10})


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
