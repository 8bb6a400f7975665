"""Bounds of a plugin's memory: what is removed, when, and in which order."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.records import MemoryChanged
from eventsched.plugins import IN_TREE
from eventsched.plugins.node_name import NodeName
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    MemoryBounds,
    NodeView,
    Status,
)
from eventsched.scheduling.framework.cycle_context import Memory
from eventsched.scheduling.framework.plugin import wider
from tests.builders import SECOND, added, attempted, engine_of, make_node, make_pod, observed

BEFORE = tuple(flag for flag in CURRENT if flag != Behaviour.BOUNDS_MEMORY)


class Diary:
    """Remembers each pod by the label ``key``; the pod uses the entry if it has the label ``uses``.
    A pod with the label ``waits`` is refused while the entry of that key is there."""

    name = "Diary"
    wakes_on: Any = ()

    def __init__(self, ttl: float = 0, max_entries: int = 0) -> None:
        self.memory_bounds = MemoryBounds(ttl=ttl, max_entries=max_entries)
        self.seen: list[str] = []

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        self.seen = list(cycle.memory)
        assert len(cycle.memory) == len(self.seen)
        assert all(cycle.memory[key] == "x" for key in self.seen)
        return Status.unschedulable("taken") if pod.labels.get("waits") in cycle.memory else None

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        used_by = pod.uid if "uses" in pod.labels else ""
        cycle.remember(pod.labels.get("key", pod.name), "x", used_by=used_by)


class WaitingDiary(Diary):
    wakes_on = (ClusterEvent.MEMORY_FORGOTTEN,)

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        return pod.labels.get("waits") not in cycle.memory


def started(plugin: Diary, flags: tuple[int, ...] = CURRENT) -> Engine:
    engine = engine_of(plugin)
    opening = records.StreamStarted(format=1, engine="0", seed="s", flags=flags)
    observed(engine, opening, *added(make_node(pods=10_000)))
    return engine


def placed(engine: Engine, name: str, at: int = 0, **labels: str) -> list[MemoryChanged]:
    """A new pod gets a node at a time (s); the changes of memory."""
    observed(engine, *added(make_pod(name, cpu=0, memory=0, labels=labels)), at=at * SECOND)
    return [record for record in attempted(engine) if isinstance(record, MemoryChanged)]


def remembers(key: str, used_by: str = "") -> MemoryChanged:
    return MemoryChanged(plugin="Diary", key=key, value="x", used_by=used_by)


def forgets(*keys: str) -> list[MemoryChanged]:
    return [MemoryChanged(plugin="Diary", key=key) for key in keys]


def kept(engine: Engine) -> list[str]:
    return sorted(engine.state.memory["Diary"])


def test_the_entry_that_was_not_used_for_the_longest_time_goes_first() -> None:
    engine = started(Diary(max_entries=2))
    for name in "ab":
        assert placed(engine, name) == [remembers(name)]
    placed(engine, "again", key="a")  # now b is the oldest

    changes = placed(engine, "c")

    assert changes == [remembers("c"), *forgets("b")]
    assert list(engine.state.memory_use.unused("Diary")) == ["a", "c"]


def test_a_change_removes_two_entries_at_most() -> None:
    """So a bound that was lowered is reached after some changes, each of which costs little."""
    plugin = Diary()
    engine = started(plugin)
    for name in "abcdefg":
        placed(engine, name)
    lowered = engine_of(Diary(max_entries=3))
    lowered.restore(engine.snapshot(), engine.position)

    changes = [placed(lowered, name)[1:] for name in "hijkl"]

    assert changes == [
        forgets("a", "b"), forgets("c", "d"), forgets("e", "f"), forgets("g", "h"), forgets("i"),
    ]  # fmt: skip
    assert kept(lowered) == ["j", "k", "l"]


def test_an_expired_entry_is_not_seen_and_soon_removed() -> None:
    plugin = Diary(ttl=10)
    engine = started(plugin)
    for name, at in [("a", 0), ("b", 1), ("c", 2), ("d", 9)]:
        placed(engine, name, at)

    changes = placed(engine, "e", at=12)

    assert plugin.seen == ["d"]
    assert changes == [remembers("e"), *forgets("a", "b")]
    assert kept(engine) == ["c", "d", "e"]
    assert placed(engine, "f", at=13) == [remembers("f"), *forgets("c")]


@pytest.mark.parametrize("bounds", [{"ttl": 10}, {"max_entries": 1}])
def test_an_entry_in_use_stays(bounds: dict[str, Any]) -> None:
    """Its time begins when the pod is gone."""
    engine = started(Diary(**bounds))
    assert placed(engine, "long", uses="") == [remembers("long", "long")]
    placed(engine, "a")
    placed(engine, "b", at=20)
    placed(engine, "c", at=40)
    assert kept(engine) == ["c", "long"]
    gone = records.PodDeleted(uid="long")
    past = forgets("c") if "max_entries" in bounds else []
    assert observed(engine, gone, at=45 * SECOND) == [gone, *past]

    changes = placed(engine, "d", at=54)

    assert "long" in engine.state.memory["Diary"] or changes[1:] == forgets("long")
    assert forgets("long")[0] in [*changes, *placed(engine, "e", at=55)]


def test_deleted_pods_do_not_leave_more_than_the_bound() -> None:
    engine = started(Diary(max_entries=2))
    for name in "abcd":
        placed(engine, name, uses="")
    assert kept(engine) == ["a", "b", "c", "d"]

    for name in "bdac":
        observed(engine, records.PodDeleted(uid=name))

    assert kept(engine) == ["a", "c"]


def test_an_entry_of_a_pod_that_is_not_there_is_unused() -> None:
    engine = started(Diary(max_entries=1))
    engine.state.apply(remembers("a", used_by="nobody"), 0)

    assert placed(engine, "b")[1:] == forgets("a")


def test_another_user_takes_an_entry_over() -> None:
    engine = started(Diary(ttl=10))
    placed(engine, "one", key="k", uses="")
    placed(engine, "two", key="k", uses="")
    observed(engine, records.PodDeleted(uid="one"))
    assert engine.state.memory_use.users("Diary") == {"k": "two"}

    placed(engine, "three", key="k", at=5)

    assert engine.state.memory_use.users("Diary") == {}
    assert dict(engine.state.memory_use.unused("Diary")) == {"k": 5 * SECOND}
    observed(engine, records.PodDeleted(uid="two"), at=7 * SECOND)
    assert dict(engine.state.memory_use.unused("Diary")) == {"k": 5 * SECOND}


def test_a_removal_wakes_the_pods_that_the_entry_kept_out() -> None:
    engine = started(WaitingDiary(max_entries=1))
    placed(engine, "a")
    placed(engine, "late", waits="a")
    assert engine.state.pods["late"].queue is records.Queue.UNSCHEDULABLE

    observed(engine, *added(make_pod("b", cpu=0, memory=0)), at=20 * SECOND)
    *_, removed, woken = attempted(engine)

    assert [removed] == forgets("a")
    assert (woken.uid, woken.cause) == ("late", "MemoryForgotten")


def test_a_stream_without_the_behaviour_keeps_everything() -> None:
    """Its digest does not have the order of the entries either."""
    plugin = Diary(ttl=1, max_entries=1)
    engine = started(plugin, BEFORE)
    for at, name in enumerate("abc"):
        assert placed(engine, name, at, uses="") == [remembers(name)]
    assert plugin.seen == ["a", "b"]
    digest = engine.state.digest()
    assert engine.state.memory_use.plugins() == []
    engine.state.memory_use.begin(engine.state.memory, 7)
    assert digest != engine.state.digest()


def test_the_entries_of_an_older_stream_count_from_the_term_with_the_behaviour() -> None:
    engine = started(Diary(ttl=10), BEFORE)
    for name in "ba":
        placed(engine, name)
    term = records.TermBegan(epoch=2, token="t", engine="1", flags=CURRENT)
    observed(engine, term, at=100 * SECOND)
    assert list(engine.state.memory_use.unused("Diary").items()) == [
        ("a", 100 * SECOND), ("b", 100 * SECOND),
    ]  # fmt: skip

    assert placed(engine, "c", at=105)[1:] == []
    assert placed(engine, "d", at=110)[1:] == forgets("a", "b")
    observed(
        engine, records.TermBegan(epoch=3, token="u", engine="0", flags=BEFORE), at=120 * SECOND
    )
    assert engine.state.memory_use.plugins() == []


def test_a_snapshot_without_the_use_of_an_entry_is_refused() -> None:
    engine = started(Diary(max_entries=5))
    placed(engine, "a")
    body = engine.snapshot().replace(b'"memory_use":{"Diary":[{},{"a":0}]}', b'"memory_use":{}')
    assert b'"memory_use":{}' in body

    with pytest.raises(ValueError, match="use of the memory of Diary"):
        engine_of(Diary()).restore(body, engine.position)


def test_an_old_snapshot_is_read() -> None:
    engine = started(Diary(), BEFORE)
    placed(engine, "a")
    body = engine.snapshot().replace(b',"memory_use":{}', b"")
    assert b"memory_use" not in body

    again = engine_of(Diary())
    again.restore(body, engine.position)

    assert again.state.digest() == engine.state.digest()


def test_the_memory_of_a_plugin_that_no_profile_runs_does_not_grow() -> None:
    """It is there when a profile runs the plugin again; its bounds hold from then on."""
    engine = started(Diary(max_entries=1))
    for name in "abc":
        placed(engine, name, uses="")
    other = engine_of(NodeName())
    other.restore(engine.snapshot(), engine.position)

    for number in range(20):
        assert placed(other, f"p{number}", uses="") == []
        observed(other, records.PodDeleted(uid=f"p{number}"))
    for name in "abc":
        observed(other, records.PodDeleted(uid=name))

    assert kept(other) == ["a", "b", "c"]
    assert list(other.state.memory_use.unused("Diary")) == ["a", "b", "c"]
    again = engine_of(Diary(max_entries=1))
    again.restore(other.snapshot(), other.position)
    assert placed(again, "d")[1:] == forgets("a", "b")
    assert placed(again, "e")[1:] == forgets("c", "d")


# --- declarations --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ttl", -1), ("ttl", float("nan")), ("ttl", float("inf")), ("ttl", "1h"), ("ttl", True),
        ("max_entries", -1), ("max_entries", 1.5), ("max_entries", 2**40),
    ],
)  # fmt: skip
def test_a_wrong_bound_is_named(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"MemoryBounds.{field}: .* is not a number of 0 or more"):
        MemoryBounds(**{field: value})


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Diary}]}}}]
"""


def test_a_wrong_declaration_is_named() -> None:
    class Careless(Diary):
        def __init__(self) -> None:
            super().__init__()
            self.memory_bounds = 5  # type: ignore[assignment]

    known = {**IN_TREE, "Diary": Careless}
    with pytest.raises(InputError) as refused:
        assemble_loaded(configuration.load(CONFIGURATION, "c.yaml"), "c.yaml", known)
    assert "plugin Diary: memory_bounds: 5 is not a MemoryBounds" in str(refused.value)


def test_a_third_party_plugin_is_bounded() -> None:
    """Through the guard and the adapter for methods of one node."""

    class Small(Diary):
        memory_bounds = MemoryBounds(max_entries=1)

        def __init__(self) -> None:
            pass

        def filter_node(self, pod: Pod, node: Any) -> Status | None:
            return None

    known = {**IN_TREE, "Diary": Small}
    assembly = assemble_loaded(configuration.load(CONFIGURATION, "c.yaml"), "c.yaml", known)
    engine = Engine(assembly.profiles)
    opening = records.StreamStarted(format=1, engine="0", seed="s", flags=CURRENT)
    observed(engine, opening, *added(make_node()))
    placed(engine, "a")

    assert placed(engine, "b") == [remembers("b"), *forgets("a")]


def test_profiles_share_the_wider_bounds() -> None:
    small, large = MemoryBounds(ttl=1, max_entries=5), MemoryBounds(ttl=2, max_entries=3)
    assert wider(small, large) == MemoryBounds(ttl=2, max_entries=5)
    assert wider(small, MemoryBounds(max_entries=9)) == MemoryBounds(max_entries=9)
    assert wider(MemoryBounds(), small) == MemoryBounds()


def test_a_key_and_a_uid_have_to_be_texts() -> None:
    """The log could not be read back otherwise."""
    cycle = Cycle(now=0, seed="")
    for key, uid in ((1, ""), ("a", None)):
        with pytest.raises(TypeError, match="have to be texts"):
            cycle.remember(key, "x", used_by=uid)  # type: ignore[arg-type]
    assert cycle.remembered == []


def test_an_expired_entry_is_not_in_the_memory() -> None:
    memory = Memory({"b": 1, "a": 2, "used": 3}, {"a": 5, "b": 6}, deadline=5)

    assert dict(memory) == {"b": 1, "used": 3}
    assert len(memory) == 2
    assert memory.get("a") is None
    assert "a" not in memory
