"""Samples are state like any other: folded, kept, compared; and they wake who wants them."""

from math import inf, nan
from typing import Any

import numpy as np
import pytest

from eventsched.cluster.sources import manifests
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import DependsOn, Status
from eventsched.scheduling.framework.sampling import Sampling
from tests.builders import SECOND, added, attempted, engine_of, make_node, make_pod, observed, woken


class Quiet:
    """Refuses nodes whose sample is above 5; signed, so that its columns are kept."""

    name = "Quiet"
    depends_on = DependsOn.NODE | DependsOn.SAMPLES
    samples = Sampling("noise", "http://p", "noise", "node", 30.0, 60.0)
    wakes_on: tuple[Any, ...]

    def sign(self, pod: Any) -> tuple[()]:
        """Nothing of the pod matters."""
        return ()

    def filter(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        """Also asked by preemption, of rows without some pods."""
        return np.nan_to_num(nodes.sampled("noise"), nan=9) > 5

    def explain(self, cycle: Any, pod: Any, code: int) -> Status:
        """In words."""
        return Status.unschedulable("node(s) were loud")


def noise(until: int = 0, problem: str = "", **values: float) -> SamplesTaken:
    """Of the source that Quiet wants."""
    return SamplesTaken(source="noise", values=values, until=until, problem=problem)


def quiet(*nodes: str) -> Engine:
    """An engine that runs Quiet."""
    engine = engine_of(Quiet())
    observed(engine, *added(*map(make_node, nodes)))
    return engine


def held(engine: Engine) -> list[SamplesTaken]:
    """What holds now."""
    return engine.state.nodes.samples.held()


def test_newer_samples_wake_a_pod_that_was_refused_for_the_old_ones() -> None:
    """Of its plugin's source only; the columns of its class are computed again."""
    engine = quiet("n1")
    observed(engine, noise(n1=9.0), *added(make_pod()))
    assert attempted(engine)[-1].rejectors == ("Quiet",)
    other = SamplesTaken(source="other", values={"n1": 1.0})
    assert observed(engine, other, at=2 * SECOND) == [other]
    assert observed(engine, noise(n1=1.0), at=2 * SECOND) == [
        noise(n1=1.0), woken("SamplesTaken", "Quiet")
    ]  # fmt: skip
    assert attempted(engine)[-1].node == "n1"


def test_the_log_gets_numbers_of_nodes_in_the_cluster() -> None:
    """All else is left out; if nothing is left, the record says so."""
    engine = quiet("n1", "n2")
    assert observed(engine, noise(n1=1.0, n2=nan, gone=3.0)) == [noise(n1=1.0)]
    problem = "there are no numbers for nodes of the cluster, but for a, b, c"
    assert observed(engine, noise(d=1.0, c=1.0, b=1.0, a=1.0)) == [noise(problem=problem)]
    assert observed(engine, noise(n1=inf, problem="NaN")) == [noise(problem="NaN")]
    assert held(engine) == [noise(n1=1.0)]


def test_samples_hold_until_their_time_is_over() -> None:
    """By the log's own time, whatever moves it."""
    engine = quiet("n1")
    observed(engine, noise(until=5 * SECOND, n1=1.0), at=SECOND)
    observed(engine, *added(make_node("n2")), at=5 * SECOND - 1)
    assert held(engine) == [noise(until=5 * SECOND, n1=1.0)]
    observed(engine, *added(make_node("n3")), at=5 * SECOND)
    assert held(engine) == []
    observed(engine, noise(until=4 * SECOND, n1=1.0), at=6 * SECOND)
    assert held(engine) == []


def test_a_snapshot_holds_them() -> None:
    """The same digest, which differs without them."""
    engine = quiet("n1", "n2")
    observed(engine, noise(until=9 * SECOND, n1=1.0), at=SECOND)
    without = engine.state.digest()
    observed(engine, SamplesTaken(source="b", values={"n2": 0.1}), at=SECOND)
    other = engine_of(Quiet())
    other.restore(engine.snapshot(), engine.position)
    assert other.state.digest() == engine.state.digest() != without
    for each in (engine, other):
        observed(each, records.TimePassed(), at=9 * SECOND)
    assert held(other) == held(engine) == [SamplesTaken(source="b", values={"n2": 0.1})]
    assert other.state.digest() == engine.state.digest()


def test_a_log_read_back_holds_them() -> None:
    """Record by record."""
    engine, again = engine_of(Quiet()), engine_of(Quiet())
    stimuli = (*added(make_node()), noise(until=9 * SECOND, n1=1 / 3), *added(make_pod()))
    for stimulus in stimuli:
        for logged in engine.observe(stimulus, SECOND):
            record = records.decode(records.encode(logged.record))
            again.apply(logged._replace(record=record))
    assert held(again) == held(engine) == [noise(until=9 * SECOND, n1=1 / 3)]
    assert again.state.digest() == engine.state.digest()


def samples(text: str, tmp_path: Any) -> list[SamplesTaken]:
    """Read from a manifest."""
    path = tmp_path / "s.yaml"
    head = "apiVersion: eventsched.io/v1alpha1\nkind: Samples\n"
    path.write_text(head + text)
    return manifests.read(path).samples


def test_manifests_may_hold_samples(tmp_path: Any) -> None:
    """Whole numbers as well."""
    found = samples("metadata: {name: noise}\nvalues: {n1: 3, n2: 0.5}\n", tmp_path)
    assert found == [noise(n1=3.0, n2=0.5)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("values: {n1: 3}", "metadata.name: is missing; name the plugin's source"),
        ("metadata: {name: a}", "values: is not a mapping with numbers; write the number of each"),
        ("metadata: {name: a}\nvalues: {}", "values: is not a mapping with numbers"),
        ("metadata: {name: a}\nvalues: {n: x}", "values.n: 'x' is not a number"),
        ("metadata: {name: a}\nvalues: {n: true}", "values.n: True is not a number"),
        ("metadata: {name: a}\nvalues: {n: .nan}", "values.n: nan is not a number"),
        ("metadata: {name: a}\nvalues: {1: 2}", "values: 1 is not a node's name"),
    ],
)
def test_samples_that_are_none(text: str, told: str, tmp_path: Any) -> None:
    """File, object, field and remedy."""
    with pytest.raises(InputError) as refused:
        samples(text, tmp_path)
    assert told in str(refused.value)
    assert "s.yaml: Samples" in str(refused.value)
