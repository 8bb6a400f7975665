"""percentageOfNodesToScore: a search that stops early, from a start that moves on."""

from eventsched.domain.records import PodDecided
from eventsched.scheduling.engine import Engine
from tests.builders import added, attempted, engine_with, make_node, make_pod, observed

NODES = 250
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def engine(percentage: int, nodes: int = NODES, small: tuple[int, ...] = ()) -> Engine:
    """An engine over nodes of 4 cpu, those in ``small`` of too little for the pods."""
    made = engine_with(config=f"{HEAD}percentageOfNodesToScore: {percentage}\n")
    rooms = [100 if index in small else 4000 for index in range(nodes)]
    observed(made, *added(*(make_node(f"n{i:03}", cpu=cpu) for i, cpu in enumerate(rooms))))
    return made


def decided(made: Engine, name: str) -> PodDecided:
    """One pod's decision."""
    observed(made, *added(make_pod(name, cpu=500)))
    (found,) = (each for each in attempted(made) if isinstance(each, PodDecided))
    return found


def looked(found: PodDecided) -> tuple[int, int, int]:
    return found.start, found.evaluated, found.feasible


def test_the_search_goes_on_where_the_last_one_ended() -> None:
    made = engine(50)  # 125 of 250
    assert looked(decided(made, "p1")) == (0, 125, 125)
    assert looked(decided(made, "p2")) == (125, 125, 125)
    assert looked(decided(made, "p3")) == (0, 125, 125)
    assert made.state.next_start == 125


def test_never_fewer_than_a_hundred_and_what_is_refused_on_the_way_counts_as_looked_at() -> None:
    made = engine(10, small=tuple(range(0, 60, 2)))
    found = decided(made, "p1")
    assert looked(found) == (0, 130, 100)
    assert 130 <= sum(number for _, number in found.counts) + 100 == NODES
    assert made.state.next_start == 130


def test_a_small_cluster_and_a_percentage_of_0_or_100_are_looked_at_whole() -> None:
    assert looked(decided(engine(10, nodes=99), "p1")) == (0, 99, 99)
    assert looked(decided(engine(100), "p1")) == (0, NODES, NODES)
    assert looked(decided(engine(0), "p1")) == (-1, NODES, NODES)


def test_the_start_survives_a_snapshot() -> None:
    made, again = engine(50), engine(50, nodes=0)
    decided(made, "p1")
    again.restore(made.snapshot(), made.position)
    assert again.state.digest() == made.state.digest()
    assert decided(again, "p2") == decided(made, "p2")
