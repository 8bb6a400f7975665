"""Bounded plugin memory: a fold of the log, a restart from a snapshot and the live state agree, the
order of the entries included; and the memory is that of a naive model."""

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.objects import Pod
from eventsched.domain.records import MemoryChanged, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.port import StoredRecord
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle, MemoryBounds
from tests.builders import SECOND, engine_of, make_node, make_pod

from .strategies import deterministic

KEYS = "abcdefgh"


class Notes:
    """Each pod changes the memory as its labels say."""

    def __init__(self, name: str, bounds: MemoryBounds) -> None:
        self.name = name
        self.memory_bounds = bounds

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        key = pod.labels[self.name]
        value = None if "forgets" in pod.labels else {"seen": sorted(cycle.memory)}
        cycle.remember(key, value, used_by=pod.uid if "uses" in pod.labels else "")


bounds = st.builds(
    MemoryBounds, ttl=st.sampled_from([3, 10, 0]), max_entries=st.sampled_from([1, 2, 4, 0])
)
keys = st.sampled_from(KEYS)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("place"), keys, keys, st.sampled_from(["", "uses", "forgets"])),
        st.tuples(st.just("place"), keys, keys, st.sampled_from(["", "uses"])),
        st.tuples(st.just("delete"), st.integers(0, 30)),
        st.tuples(st.just("wait"), st.integers(1, 4)),
        st.tuples(st.just("forget"), keys),
    ),
    min_size=12,
    max_size=40,
)


class Play:
    """An engine, the time, and the log."""

    def __init__(self, one: MemoryBounds, other: MemoryBounds) -> None:
        self.bounds = {"One": one, "Other": other}
        self.engine = self.fresh()
        self.now, self.born = 0, 0
        self.log: list[LogEntry] = []
        opening = records.StreamStarted(format=1, engine="0", seed="s", flags=CURRENT)
        self.observe(opening)
        self.observe(records.NodeAdded(node=make_node(pods=10_000)))

    def fresh(self) -> Engine:
        return engine_of(*(Notes(name, bounds) for name, bounds in self.bounds.items()))

    def observe(self, stimulus: records.Stimulus) -> list[LogEntry]:
        return self.logged(self.engine.observe(stimulus, self.now))

    def logged(self, entries: list[LogEntry]) -> list[LogEntry]:
        self.log += entries
        return entries

    def play(self, operation: Any) -> list[LogEntry]:
        what, *arguments = operation
        if what == "wait":
            self.now += arguments[0] * SECOND
            return self.observe(records.TimePassed())
        if what == "delete":
            return self.observe(records.PodDeleted(uid=f"pod-{arguments[0]}"))
        if what == "forget":
            return self.observe(
                records.MemoryForgotten(plugin="One", key=arguments[0], by="ada", request=1)
            )
        one, other, more = arguments
        labels = {"One": one, "Other": other, more: ""}
        self.born += 1
        pod = make_pod(f"pod-{self.born}", cpu=0, memory=0, labels=labels)
        return [
            *self.observe(records.PodAdded(pod=pod)),
            *self.logged(self.engine.schedule_next()),
        ]


class Naive:
    """The same memory with lists: entries as [key, user, since], those changed last at the end."""

    def __init__(self, bounds: MemoryBounds) -> None:
        self.bounds = bounds
        self.entries: list[list[Any]] = []

    def change(self, changed: MemoryChanged, now: int) -> None:
        self.entries = [entry for entry in self.entries if entry[0] != changed.key]
        if changed.value is not None:
            self.entries.append([changed.key, changed.used_by, now])

    def delete(self, uid: str, now: int) -> None:
        released = sorted(entry for entry in self.entries if entry[1] == uid)
        self.entries = [entry for entry in self.entries if entry[1] != uid]
        self.entries += [[key, "", now] for key, _, _ in released]

    def unused(self) -> list[tuple[str, int]]:
        return [(key, since) for key, user, since in self.entries if not user]

    def due(self, now: int) -> list[str]:
        """What is over the bounds, the oldest first."""
        unused, (ttl, most) = self.unused(), (self.bounds.ttl, self.bounds.max_entries)
        many = len(unused) - most if most else 0
        return [
            key
            for number, (key, since) in enumerate(unused)
            if number < many or (ttl and since <= now - ttl * SECOND)
        ]


@deterministic(150)
@given(bounds, bounds, operations)
def test_the_memory_is_the_naive_one(one: MemoryBounds, other: MemoryBounds, plays: Any) -> None:
    """Each change is followed by the removal of what is over the bounds, two entries at most."""
    play = Play(one, other)
    naive = {name: Naive(bounds) for name, bounds in play.bounds.items()}
    for operation in plays:
        held = {name: play.engine.state.memory_use.users(name).values() for name in naive}
        before = {name: set(uids) for name, uids in held.items()}
        made: list[Record] = [entry.record for entry in play.play(operation)]
        while made:
            record = made.pop(0)
            if isinstance(record, records.PodDeleted):
                for model in naive.values():
                    model.delete(record.uid, play.now)
                touched = [name for name in naive if record.uid in before[name]]
            elif isinstance(record, MemoryChanged):
                naive[record.plugin].change(record, play.now)
                is_request = operation[0] == "forget"
                touched = [] if is_request else [record.plugin]
            else:
                continue
            for name in touched:
                for key in naive[name].due(play.now)[:2]:
                    removed = MemoryChanged(plugin=name, key=key)
                    assert made.pop(0) == removed
                    naive[name].change(removed, play.now)
                    event("removed")
        for name, model in naive.items():
            use = play.engine.state.memory_use
            assert list(use.unused(name).items()) == model.unused()
            assert use.users(name) == {key: user for key, user, _ in model.entries if user}
            keys_now = {key for key, _, _ in model.entries}
            assert play.engine.state.memory.get(name, {}).keys() == keys_now


@deterministic(60)
@given(bounds, bounds, operations)
def test_fold_restart_and_live_state_agree(
    one: MemoryBounds, other: MemoryBounds, plays: Any
) -> None:
    """At every position; each restarted engine goes on with the same records."""
    play = Play(one, other)
    folded = play.fresh()
    position, restarted = 0, list[Engine]()
    for operation in plays:
        now, born = play.now, play.born
        made = play.play(operation)
        for engine in restarted[-4:]:
            copy = Play.__new__(Play)
            copy.engine, copy.now, copy.born, copy.log = engine, now, born, []
            assert stored(copy.play(operation)) == stored(made)
            assert_equal(engine, play.engine)
        for entry in play.log[position:]:
            folded.apply(entry)
        position = len(play.log)
        assert_equal(folded, play.engine)
        again = play.fresh()
        again.restore(play.engine.snapshot(), play.engine.position)
        assert_equal(again, play.engine)
        restarted.append(again)


def stored(logged: list[LogEntry]) -> list[StoredRecord]:
    return [StoredRecord.of(entry) for entry in logged]


def assert_equal(one: Engine, other: Engine) -> None:
    assert one.state.digest() == other.state.digest()
    for name in ("One", "Other"):
        first, second = one.state.memory_use, other.state.memory_use
        assert list(first.unused(name).items()) == list(second.unused(name).items())
        assert dict(first.users(name)) == dict(second.users(name))
