"""RandomScore: 1 to 10 for each node, by a draw that can be repeated."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.draw import draw, mixed, name_hash
from eventsched.domain.records.log_entry import LogEntry
from eventsched.plugins.gallery.random_score import RandomScore
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed
from tests.properties.strategies import deterministic

WORD = 2**64


def mixed_by_hand(key: int, name: str) -> int:
    """As domain/draw.py describes it, in integers of any size."""
    z = ((name_hash(name) % WORD ^ key) + 0x9E3779B97F4A7C15) % WORD
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB % WORD
    return z ^ z >> 31


@deterministic(100)
@given(st.integers(0, WORD - 1), st.lists(st.text(max_size=20)))
def test_the_vector_is_what_the_formula_says(key: int, names: list[str]) -> None:
    """One element by one."""
    hashes = np.array([name_hash(name) for name in names], dtype=np.int64).view(np.uint64)
    assert mixed(key, hashes).tolist() == [mixed_by_hand(key, name) for name in names]


def test_a_known_value() -> None:
    """SplitMix64's first number from seed 0: other languages have it, too."""
    assert mixed(0, np.zeros(1, dtype=np.uint64)).tolist() == [0xE220A8397B1DCDAF]


def decided(seed: str = "s", names: str = "abcdefgh", attempt: int = 1) -> LogEntry:
    """The decision for one pod."""
    engine = engine_of(RandomScore())
    opening = records.StreamStarted(format=1, engine="t", seed=seed)
    observed(engine, opening, *added(*(make_node(name) for name in names), make_pod()))
    for _ in range(attempt - 1):
        node = attempted(engine)[-1].node
        observed(engine, records.BindFailed(uid="p1", node=node, message="no"))
        observed(engine, records.TimePassed(), at=engine.due or 0)
    return engine.schedule_next()[-1]


def scores(logged: LogEntry) -> list[int]:
    """The raw scores in a decision."""
    assert logged.detail is not None
    return np.asarray(logged.detail.scores[0]).tolist()


def test_scores_follow_from_seed_pod_attempt_and_name() -> None:
    """Nothing else: not from the order of nodes, nor from what else there is."""
    found = scores(decided())
    key = draw("s", "p1", 1, "RandomScore")
    assert found == [mixed_by_hand(key, name) % 10 + 1 for name in "abcdefgh"]
    assert scores(decided(names="hgfedcba")) == found[::-1]
    assert scores(decided(names="abc")) == found[:3]
    assert scores(decided(seed="t")) != found
    assert scores(decided(attempt=2)) != found


def test_the_best_draw_wins() -> None:
    """As it is in the decision."""
    logged = decided()
    assert isinstance(logged.record, records.PodDecided)
    assert logged.record.score == max(scores(logged))


def test_nodes_that_come_and_go() -> None:
    """A column that follows the nodes gives what a fresh one gives."""
    engine = engine_of(RandomScore())
    opening = records.StreamStarted(format=1, engine="t", seed="s")
    observed(engine, opening, *added(*(make_node(name) for name in "abx"), make_pod("p0")))
    attempted(engine)
    observed(engine, records.NodeDeleted(name="x"), *added(make_node("c"), make_pod()))
    found = scores(engine.schedule_next()[-1])
    assert [found[row] for row in (0, 1, 3)] == scores(decided(names="abc"))


def test_all_numbers_come_about_as_often() -> None:
    """Chi-squared over 10 classes, far below what chance allows (99.99 %: 33.7)."""
    hashes = np.array([name_hash(f"n{n}") for n in range(50_000)], dtype=np.int64)
    drawn = mixed(draw("s", "p", 1, "RandomScore"), hashes.view(np.uint64)) % np.uint64(10)
    counts = Counter(drawn.tolist())
    assert sum((count - 5000) ** 2 / 5000 for count in counts.values()) < 33.7
