"""Samples against the plainest code, while nodes come and go and time passes."""

from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.records import SamplesTaken, Stimulus
from eventsched.plugins.gallery.network_traffic import NetworkTraffic, NetworkTrafficArgs
from eventsched.scheduling.engine import Engine
from tests.builders import SECOND, added, engine_of, make_node, make_pod, observed
from tests.properties.strategies import deterministic

NAMES = st.sampled_from("abcd")
VALUES = st.dictionaries(NAMES, st.floats(0, 1e12), max_size=4)
STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.one_of(
            NAMES.map(lambda name: added(make_node(name))[0]),
            NAMES.map(lambda name: records.NodeDeleted(name=name)),
            st.tuples(VALUES, st.integers(1, 6)),
        ),
    ),
    max_size=25,
)


def fresh() -> Engine:
    """With the plugin alone."""
    args = NetworkTrafficArgs(prometheus_address="http://p", device_name="d")
    return engine_of(NetworkTraffic(args))


def scores(engine: Engine) -> dict[str, int]:
    """What each node scores."""
    judged = engine.judge(make_pod())
    names = engine.state.nodes.names
    return {names[row]: int(total) for row, total in enumerate(judged.totals) if total >= 0}


def plain(nodes: set[str], values: dict[str, float]) -> dict[str, int]:
    """The rule."""
    busiest = max(values.values(), default=0.0)
    raw = {name: int(values.get(name, busiest)) for name in nodes}
    largest = max(raw.values(), default=0)
    return {name: 100 - 100 * each // largest if largest else 100 for name, each in raw.items()}


@deterministic(100)
@given(STEPS)
def test_scores_are_those_of_the_rule(steps: list[tuple[int, object]]) -> None:
    """Kept up to date from step to step, and after a restart at any of them."""
    engine, now, nodes = fresh(), 0, set[str]()
    values, until = dict[str, float](), 0
    for later, step in steps:
        now += later
        if isinstance(step, tuple):
            given_values, lasts = step
            told: Stimulus = SamplesTaken(
                source="NetworkTraffic", values=given_values, until=(now + lasts) * SECOND
            )
            known = {name: value for name, value in given_values.items() if name in nodes}
            if known:
                values, until = known, now + lasts
        else:
            assert isinstance(step, Stimulus)
            told = step
        before = engine.position
        observed(engine, told, at=now * SECOND)
        if isinstance(told, records.NodeAdded | records.NodeDeleted):
            name = told.node.name if isinstance(told, records.NodeAdded) else told.name
            (nodes.add if isinstance(told, records.NodeAdded) else nodes.discard)(name)
        if engine.position > before and now >= until:
            values = {}
        if engine.position > before:
            again = fresh()
            again.restore(engine.snapshot(), engine.position)
            assert scores(engine) == scores(again) == plain(nodes, values)
