"""Nodes and objects of a simulated cluster that the scheduler knows already."""

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain import records
from eventsched.domain.objects.registry import Namespace
from tests.builders import make_node, make_pod


def test_they_give_no_event_as_they_are() -> None:
    """One that is equal to a known one but another object has changed in between, or may have."""
    known, new, pod = make_node("n1"), make_node("n2"), make_pod("p")
    objects = [Namespace(name="a"), Namespace(name="b")]
    cluster = InMemoryCluster(
        [known, new], [TracePod(pod)], objects=objects, known=[known, objects[1], make_node("n2")]
    )
    assert cluster.due_stimuli(0) == [
        records.ObjectChanged(object=objects[0]),
        records.NodeAdded(node=new),
        records.PodAdded(pod=pod),
    ]
