"""Preemption against a naive reading of upstream's rules, node by node and pod by pod, over random
sequences; with what is remembered between attempts, and without."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.objects import AffinityTerm, Pod, Requirement
from eventsched.domain.objects.registry import PodDisruptionBudget
from eventsched.domain.objects.selectors import selects
from eventsched.domain.records import Outcome, PodDecided, PreemptionDecided
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Code, Detail
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import expand_deltas
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.scheduling.config.pluginargs import DefaultPreemptionArgs
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES, CycleKey
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.preemption.preemption_recording import window_of
from tests.builders import GIB, SECOND, engine_with, make_node, make_pod
from tests.displacing import APPS, budget
from tests.properties.strategies import deterministic

NODES = 4


# --- the naive reading --------------------------------------------------------------------


class Naive:
    """One attempt's preemption: the cluster is rebuilt for every question. A cluster that was built
    for one node also answers for the others."""

    def __init__(self, state: SchedulerState, pod: Pod) -> None:
        self.state, self.pod = state, pod
        self.nodes = state.nodes
        self.answers: dict[tuple[frozenset[str], str], Judgement] = {}

    def told(self, node: str, away: Sequence[Pod], here: Sequence[Pod]) -> Judgement:
        """What nodes say without some pods and with others."""
        key = frozenset(pod.uid for pod in away), node if here else ""
        if key not in self.answers:
            self.answers[key] = self.rebuilt(key[0], node, here)
        return self.answers[key]

    def rebuilt(self, gone: frozenset[str], node: str, here: Sequence[Pod]) -> Judgement:
        """What nodes say in a new engine without some pods and with others."""
        engine = engine_with()
        for name, row in self.nodes.rows.items():
            known = self.nodes.nodes[row]
            assert known is not None
            engine.observe(records.NodeAdded(node=known), 0)
            for pod in self.nodes.residents[row].values():
                if pod.uid not in gone:
                    there = msgspec.structs.replace(pod, node_name=name)
                    engine.observe(records.PodAdded(pod=there), 0)
        for pod in here:
            there = msgspec.structs.replace(pod, node_name=node, uid=f"{pod.uid} is here")
            engine.observe(records.PodAdded(pod=there), 0)
        return engine.judge(self.pod)

    def verdict(self, node: str, away: Sequence[Pod] = ()) -> Any:
        """The first refusal, with nominated pods or without; None if there is none."""
        nominated = self.state.preemptions.on(node).values()
        crowd = [p for p in nominated if p.priority >= self.pod.priority and p.uid != self.pod.uid]
        for here in (crowd, ()) if crowd else ((),):
            judged = self.told(node, away, here)
            key = CycleKey(int(judged.keys[list(self.nodes.rows).index(node)]))
            if key != KEY_PASSES:
                return judged.verdict(key)
        return None

    def trial(self, node: str) -> Any:
        """The victims and how many of them break a budget; or why there are none."""
        residents = self.nodes.residents[self.nodes.rows[node]].values()
        less = sorted((p for p in residents if p.priority < self.pod.priority), key=importance)
        if not less:
            return "No preemption victims found for incoming pod"
        refused = self.verdict(node, less)
        if refused is not None:
            return refused
        breaking = self.breaking(less)
        away = list(less)
        for pod in sorted(less, key=lambda p: p not in breaking):
            away.remove(pod)
            if self.verdict(node, away) is not None:
                away.append(pod)
        return sorted(away, key=importance), sum(pod in breaking for pod in away)

    def breaking(self, pods: Sequence[Pod]) -> list[Pod]:
        left = {b.name: b.allowed for b in self.state.registry.all(PodDisruptionBudget).values()}
        found = []
        for pod in pods:
            for each in self.state.registry.all(PodDisruptionBudget).values():
                counted = pod.name not in each.disrupted and pod.namespace == each.namespace
                if counted and selects(each.selector, pod.labels):
                    left[each.name] -= 1
                    if left[each.name] < 0 and pod not in found:
                        found.append(pod)
        return found

    def candidates(self) -> dict[str, Any]:
        """Node → trial, of all nodes that eviction might help."""
        found = {}
        for node in self.nodes.rows:
            refused = self.verdict(node)
            if refused is not None and refused.code is Code.UNSCHEDULABLE:
                found[node] = self.trial(node)
        return found


def importance(pod: Pod) -> tuple[int, int]:
    return -pod.priority, pod.started_at or 2**62


def criteria(trial: tuple[list[Pod], int]) -> tuple[int, ...]:
    """Smaller is better."""
    victims, violations = trial
    highest = max(pod.priority for pod in victims)
    start = min(p.started_at or 2**62 for p in victims if p.priority == highest)
    total = sum(pod.priority + 2**31 for pod in victims)
    return violations, highest, total, len(victims), -start


# --- the sequences ------------------------------------------------------------------------

apps = st.sampled_from(APPS)
pods = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from((500, 1000, 2000, 3500)),
        "priority": st.sampled_from((-1, 0, 0, 5, 10)),
        "ports": st.sampled_from(((), (), (80,))),
        "app": apps,
        "started_at": st.sampled_from((0, 3, 5)),
        "away_from": st.none() | st.none() | apps,
        "policy": st.sampled_from(("", "", "", "Never")),
    }
)
operations = st.one_of(
    st.tuples(st.just("pod"), pods),
    st.tuples(st.just("pod"), pods),
    st.tuples(st.just("pod"), pods),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("budget"), st.tuples(apps, st.integers(0, 2))),
    st.tuples(st.just("end"), st.integers(0, 30)),
    st.tuples(st.just("nominate"), st.tuples(st.integers(0, 30), st.integers(0, NODES))),
    st.tuples(st.just("node"), st.integers(0, NODES - 1)),
    st.tuples(st.just("later"), st.just(0)),
)


class Driver:
    """An engine with caches, one without, and if ``compares`` the naive model beside them, which
    costs most of the time."""

    def __init__(self, compares: bool = True) -> None:
        self.engine, self.fresh = engine_with(), engine_with()
        self.compares = compares
        self.details: dict[int, Detail] = {}
        self.now = 0
        self.born = 0
        self.made = 0
        for number in range(NODES):
            self.see(records.NodeAdded(node=make_node(f"n{number}", cpu=4000, pods=6)))

    def fill(self, wanted: Sequence[dict[str, Any]]) -> None:
        """Puts pods on the nodes, at most one with the host port on each."""
        taken = set()
        for number, value in enumerate(wanted):
            node = f"n{number % NODES}"
            ports = () if node in taken else value["ports"]
            taken |= {node} if ports else set()
            self.born += 1
            made = self.pod(**{**value, "ports": ports, "cpu": 1000})
            self.see(records.PodAdded(pod=msgspec.structs.replace(made, node_name=node)))

    def see(self, stimulus: records.Stimulus) -> None:
        self.compare(
            self.engine.observe(stimulus, self.now), self.fresh.observe(stimulus, self.now)
        )

    def compare(self, logged: list[LogEntry], other: list[LogEntry]) -> None:
        assert [each.record for each in logged] == [each.record for each in other]
        for each in logged:
            if each.detail is not None:
                self.details[each.position] = each.detail

    def do(self, name: str, value: Any) -> None:
        state = self.engine.state
        uids = sorted(state.pods)
        match name:
            case "pod":
                self.born += 1
                self.see(records.PodAdded(pod=self.pod(**value)))
            case "delete" if uids:
                self.see(records.PodDeleted(uid=uids[value % len(uids)]))
            case "end" if state.preemptions.evicting or any(p.pod.displaced for p in
                                                            state.pods.values()):  # fmt: skip
                leaving = [u for u in uids if state.pods[u].pod.displaced]
                going = sorted(state.preemptions.evicting)
                if leaving and (value % 2 or not going):
                    self.see(records.PodDeleted(uid=leaving[value % len(leaving)]))
                elif value % 5:
                    self.see(records.EvictionSucceeded(uid=going[value % len(going)]))
                else:
                    uid = going[value % len(going)]
                    self.see(records.EvictionFailed(uid=uid, message="no"))
            case "budget":
                self.see(records.ObjectChanged(object=budget(*value)))
            case "nominate" if uids:
                uid, number = uids[value[0] % len(uids)], value[1]
                pod = state.pods[uid].pod
                if not pod.node_name:
                    wanted = msgspec.structs.replace(pod, nominated_node=f"n{number}")
                    self.see(records.PodUpdated(pod=wanted))
            case "node":
                self.see(records.NodeUpdated(node=make_node(f"n{value}", cpu=3000, pods=6)))
            case "later":
                self.now += 20 * SECOND
                self.see(records.TimePassed())
        self.attempts()

    def pod(self, *, app: str, away_from: str | None, policy: str, **fields: Any) -> Pod:
        spec = {}
        if away_from is not None:
            selector = (Requirement(key="app", operator="In", values=(away_from,)),)
            term = AffinityTerm(topology_key="kubernetes.io/hostname", selector=selector)
            spec["required_anti_affinity"] = (term,)
        return make_pod(
            f"p{self.born:02}", memory=GIB // 4, labels={"app": app}, spec=spec,
            preemption_policy=policy, **fields,
        )  # fmt: skip

    def attempts(self) -> None:
        while (uid := self.engine._step.queue.head()) is not None:
            state = self.engine.state
            naive = Naive(state, state.pods[uid].pod)
            expected = naive.candidates() if self.compares else {}
            self.fresh._classes._classes.clear()
            before = self.engine.position
            logged = self.engine.schedule_next()
            if self.compares:
                self.check(naive, expected, logged)
            self.compare(logged, self.fresh.schedule_next())
            assert self.engine.position > before
            for each in logged:
                if isinstance(each.record, PodDecided) and each.record.outcome is Outcome.SCHEDULED:
                    done = records.BindSucceeded(uid=uid, node=each.record.node)
                    self.see(done)

    def check(self, naive: Naive, expected: dict[str, Any], logged: list[LogEntry]) -> None:
        decided = next(each.record for each in logged if isinstance(each.record, PodDecided))
        made = [each for each in logged if isinstance(each.record, PreemptionDecided)]
        if decided.outcome is not Outcome.UNSCHEDULABLE:
            assert not made
            return
        if not made:
            able = naive.pod.preemption_policy != "Never" and "terminating" not in decided.message
            assert not able or not any(isinstance(each, tuple) for each in expected.values())
            for trial in expected.values() if able else ():
                for said in (trial,) if isinstance(trial, str) else trial.reasons:
                    assert said in decided.message
            return
        [one] = made
        self.made += 1
        found = self.candidates(one)
        right = {n: ([p.uid for p in t[0]], t[1]) for n, t in expected.items()
                 if isinstance(t, tuple)}  # fmt: skip
        assert found == right
        chosen: Any = one.record
        assert chosen.victims == tuple(right[chosen.node][0])
        assert chosen.nodes == len(expected)
        best = min(criteria(trial) for trial in expected.values() if isinstance(trial, tuple))
        assert criteria(expected[chosen.node]) == best

    def candidates(self, made: LogEntry) -> dict[str, tuple[list[str], int]]:
        self.details[made.position] = made.detail  # type: ignore[assignment]
        detail = expand_deltas(made.position, self.details.get)
        assert detail is not None
        assert detail.codes is not None
        state = self.engine.state
        by_number = {each.number: uid for uid, each in state.pods.items()}
        found = {}
        decided = made.record
        assert isinstance(decided, PreemptionDecided)
        for row in window_of(decided.first, decided.last, detail.size).tolist():
            name, number = state.nodes.names[row], int(detail.codes[row])
            values = [int(column[row]) for column in detail.scores]  # type: ignore[index]
            if number:
                found[name] = ([by_number[n] for n in values[4 : 4 + number]], values[0])
        return found


@deterministic(40)
@given(st.lists(pods, min_size=10, max_size=16), st.lists(operations, min_size=10, max_size=20))
def test_as_upstream_would_node_by_node(
    there: list[dict[str, Any]], steps: list[tuple[str, Any]]
) -> None:
    driver = Driver()
    driver.fill(there)
    for name, value in steps:
        driver.do(name, value)


@deterministic(100)
@given(st.lists(pods, min_size=6, max_size=16))
def test_never_for_nothing(wanted: list[dict[str, Any]]) -> None:
    """No victim is as important as the pod, and with the victims gone it is placed where it was
    nominated to."""
    driver = Driver(compares=False)
    for value in wanted:
        driver.do("pod", {**value, "away_from": None, "policy": ""})
        for uid in sorted(driver.engine.state.preemptions.evicting):
            state = driver.engine.state
            eviction = state.preemptions.evicting[uid]
            assert state.pods[uid].pod.priority < state.pods[eviction.preemptor].pod.priority
        nominated = {u: driver.engine.state.preemptions.node(u) for u in driver.engine.state.pods}
        for uid in sorted(driver.engine.state.preemptions.evicting):
            driver.see(records.EvictionSucceeded(uid=uid))
            driver.see(records.PodDeleted(uid=uid))
        driver.do("later", 0)
        for uid, node in nominated.items():
            if node and uid in driver.engine.state.pods:
                assert driver.engine.state.pods[uid].pod.node_name == node


@pytest.mark.parametrize(("percentage", "absolute", "fewest"), [(0, 3, 3), (50, 1, 20), (1, 1, 1)])
def test_no_more_candidates_than_are_wanted(percentage: int, absolute: int, fewest: int) -> None:
    """As many as the arguments say, from where the draw begins."""
    args = DefaultPreemptionArgs(
        min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute
    )
    engine = engine_with(points={"postFilter": [DefaultPreemption(args)]})
    for number in range(40):
        engine.observe(records.NodeAdded(node=make_node(f"n{number}")), 0)
        low = make_pod(f"low-{number}", cpu=4000, node_name=f"n{number}")
        engine.observe(records.PodAdded(pod=low), 0)
    firsts = set()
    for number in range(8):
        engine.observe(records.PodAdded(pod=make_pod(f"p{number}", priority=1)), 0)
        logged = [each.record for each in engine.schedule_next()]
        [made] = [each for each in logged if isinstance(each, PreemptionDecided)]
        assert (made.candidates, made.looked) == (fewest, fewest)
        assert made.first == made.draw % made.nodes
        firsts.add(made.first)
    assert len(firsts) > 1
