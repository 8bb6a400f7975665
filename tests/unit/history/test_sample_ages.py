"""How old the samples were that a pod's nodes were scored by, as ``explain`` shows it."""

import pytest

from eventsched.domain.records import SamplesTaken, Stimulus
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.explanation import explain
from eventsched.history.explain.sample_ages import MEASURING
from eventsched.output.explain_output import story_json, story_text
from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery.fixed_node import FixedNode
from eventsched.plugins.gallery.network_traffic import NetworkTraffic
from eventsched.runtime.effects.batches import BatchBuilder
from eventsched.scheduling.framework import DependsOn
from eventsched.testing import typed
from tests.builders import SECOND, added, engine_of, make_node, make_pod


def taken(at: int, *nodes: str, until: int = 0, source: str = "NetworkTraffic") -> SamplesTaken:
    """Samples of some nodes, taken at a second; none of any is a problem."""
    values = dict.fromkeys(nodes, 7.0)
    problem = "" if nodes else "Prometheus cannot be reached"
    return SamplesTaken(
        source=source, values=values, taken=at * SECOND, until=until * SECOND, problem=problem
    )


def evidence(plugin: object, *stimuli: tuple[int, Stimulus]) -> ScannedEvidence:
    """The log of two nodes, what happened at which second, and an attempt for a pod then."""
    engine, log = engine_of(plugin), MemoryEventLog("s")
    builder = BatchBuilder(engine.state)
    for each in added(make_node("a"), make_node("b")):
        builder.add(engine.observe(each, 0))
    last = 0
    for last, stimulus in stimuli:
        builder.add(engine.observe(stimulus, last * SECOND))
    for each in added(make_pod()):
        builder.add(engine.observe(each, last * SECOND))
    builder.add(engine.schedule_next())
    closed = builder.close()
    assert closed is not None
    log.begin(closed.batch)
    return ScannedEvidence(log, "s")


def traffic() -> NetworkTraffic:
    """With what it needs."""
    made: NetworkTraffic = typed(NetworkTraffic, prometheusAddress="http://p", deviceName="eth0")
    return made


@pytest.mark.parametrize(
    ("stimuli", "told"),
    [
        ([], []),
        (
            [(9, taken(8, "a", "b"))],
            ["NetworkTraffic had samples of 2 nodes, 1.0s old (position 2)"],
        ),
        (
            [(1, taken(1, "a", "b")), (5, taken(5, "a")), (7, taken(7))],
            ["NetworkTraffic had samples of 1 node, 2.0s old (position 3)"],
        ),
        ([(1, taken(1, "a", until=3)), (3, taken(3))], []),
        (
            [(1, taken(0, "a", source="Other")), (2, taken(2, "b"))],
            [
                "NetworkTraffic had samples of 1 node, 0.0s old (position 3)",
                "Other had samples of 1 node, 1.0s old (position 2)",
            ],
        ),
    ],
)  # fmt: skip
def test_what_held(stimuli: list[tuple[int, Stimulus]], told: list[str]) -> None:
    """The newest with values of each source, while they hold; where the time that they were taken
    at is not known, that of their record."""
    found = explain(evidence(traffic(), *stimuli), "p1")
    assert [line for line in story_text(found).splitlines() if "had samples" in line] == told


def test_the_object() -> None:
    """For programs."""
    story = story_json(explain(evidence(traffic(), (9, taken(8, "a"))), "p1"))
    [attempt] = story["attempts"]
    assert attempt["samples"] == [{"source": "NetworkTraffic", "seq": 2, "nodes": 1, "age": 1.0}]


def test_who_scores_by_other_things_has_none() -> None:
    """Whatever is in the log."""
    fixed: FixedNode = typed(FixedNode, nodeName="a")
    found = explain(evidence(fixed, (9, taken(8, "a"))), "p1").explained
    assert found is not None
    assert found.samples == ()


def test_the_plugins_that_read_samples_are_known() -> None:
    none = DependsOn(0)
    reading = {
        name
        for name, plugin in IN_TREE.items()
        if DependsOn.SAMPLES in getattr(plugin, "depends_on", none)
    }
    assert reading == MEASURING
