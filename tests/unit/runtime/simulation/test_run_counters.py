"""What is counted of a run, and what was said last of pods that wait."""

from eventsched.domain import records
from eventsched.domain.records import PodBound, PodUnreserved
from eventsched.runtime.simulation.run_counters import RunCounters
from tests.builders import refused, scheduled


def said_of(*told: records.Record) -> dict[str, str]:
    """The last words of waiting pods, after these."""
    counters = RunCounters()
    for each in told:
        counters.count(each)
    return counters.messages


def test_the_last_message_of_a_waiting_pod() -> None:
    """Also of one that had a node and gave it up; none of one that is bound or gone."""
    first, back = refused("p1", "full"), PodUnreserved(uid="p1", node="n1", message="too late")
    assert said_of(first) == {"p1": "full"}
    assert said_of(first, scheduled("p1"), back) == {"p1": "too late"}
    assert said_of(back, scheduled("p1"), PodBound(uid="p1", node="n1", attempt=2)) == {}
    assert said_of(back, records.PodDeleted(uid="p1")) == {}
