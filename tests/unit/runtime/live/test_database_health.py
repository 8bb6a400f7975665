"""What is said of a database that does not answer."""

from eventsched.runtime.live.database_health import DatabaseHealth


def test_it_answers_it_is_slow_it_is_away() -> None:
    """And how long that was so."""
    now = [100.0]
    reach = DatabaseHealth(lambda: now[0])
    assert reach.trouble == ""
    with reach.asking():
        now[0] += 5
        assert reach.trouble == ""
        now[0] += 2
        assert reach.trouble == "no answer for 7 s"
        assert reach.lacking == 7
    assert (reach.trouble, reach.lacking) == ("", 0)
    assert reach.answered() is None
    assert reach.missed("refused")
    now[0] += 3
    assert not reach.missed("refused")
    assert reach.missed("gone")
    assert reach.trouble == "unreachable for 3 s: gone"
    with reach.asking():
        assert reach.lacking == 3
    now[0] += 1
    assert reach.answered() == 4
    assert reach.trouble == ""
