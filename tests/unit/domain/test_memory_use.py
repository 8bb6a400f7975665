"""Which entries of the memory are in use, and the order of the others."""

from eventsched.domain.state.parts.memory_use import MemoryUse


def test_the_order_holds_however_many_were_removed() -> None:
    use = MemoryUse()
    for number in range(5000):
        use.changed("Sticky", f"k{number}", "", number)
        if number >= 10:
            use.removed("Sticky", f"k{number - 10}")

    assert list(use.unused("Sticky").items()) == [(f"k{n}", n) for n in range(4990, 5000)]


def test_the_first_entry_is_found_as_fast_after_many_removals() -> None:
    """Gaps before it are closed, so the dictionary is of the size that its entries need."""
    use = MemoryUse()
    for number in range(100_000):
        use.changed("Sticky", f"k{number}", "", number)
        use.removed("Sticky", f"k{number - 3}")

    unused = use.unused("Sticky")
    assert len(unused) == 3
    assert unused.__sizeof__() < 100_000


def test_a_change_moves_an_entry_to_the_end() -> None:
    use = MemoryUse()
    for at, key in enumerate("abca"):
        use.changed("Sticky", key, "", at)
    use.changed("Sticky", "b", "p1", 4)
    use.changed("Other", "b", "p1", 4)

    assert list(use.unused("Sticky").items()) == [("c", 2), ("a", 3)]
    assert use.users("Sticky") == {"b": "p1"}
    assert use.plugins_of("p1") == ["Other", "Sticky"]
    use.pod_deleted("p1", 9)
    assert list(use.unused("Sticky").items()) == [("c", 2), ("a", 3), ("b", 9)]
    assert (use.plugins_of("p1"), use.users("Sticky")) == ([], {})


def test_nothing_is_left_of_what_is_removed() -> None:
    use = MemoryUse()
    use.changed("Sticky", "a", "p1", 0)
    use.changed("Sticky", "b", "", 0)
    for key in "abc":
        use.removed("Sticky", key)
    use.removed("Nobody", "a")

    assert use.plugins() == []
    use.pod_deleted("p1", 1)
    assert use.plugins() == []
