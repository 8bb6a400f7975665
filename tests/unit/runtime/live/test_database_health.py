"""The messages about a database that does not answer."""

from eventsched.runtime.live.database_health import DatabaseHealth


def test_health_of_a_fast_a_slow_and_an_unreachable_database() -> None:
    """And how long that was so."""
    now = [100.0]
    health = DatabaseHealth(lambda: now[0])
    assert health.problem == ""
    with health.asking():
        now[0] += 5
        assert health.problem == ""
        now[0] += 2
        assert health.problem == "no answer for 7 s"
        assert health.unanswered_seconds == 7
    assert (health.problem, health.unanswered_seconds) == ("", 0)
    assert health.answered() is None
    assert health.failed("refused")
    now[0] += 3
    assert not health.failed("refused")
    assert health.failed("gone")
    assert health.problem == "unreachable for 3 s: gone"
    with health.asking():
        assert health.unanswered_seconds == 3
    now[0] += 1
    assert health.answered() == 4
    assert health.problem == ""
