"""The messages about a database that does not answer."""

from eventsched.runtime.live.database_health import DatabaseHealth


def test_health_of_a_fast_a_slow_and_an_unreachable_database() -> None:
    """And how long that was so."""
    now = [100.0]
    health = DatabaseHealth(lambda: now[0])
    assert health.trouble == ""
    with health.asking():
        now[0] += 5
        assert health.trouble == ""
        now[0] += 2
        assert health.trouble == "no answer for 7 s"
        assert health.lacking == 7
    assert (health.trouble, health.lacking) == ("", 0)
    assert health.answered() is None
    assert health.missed("refused")
    now[0] += 3
    assert not health.missed("refused")
    assert health.missed("gone")
    assert health.trouble == "unreachable for 3 s: gone"
    with health.asking():
        assert health.lacking == 3
    now[0] += 1
    assert health.answered() == 4
    assert health.trouble == ""
