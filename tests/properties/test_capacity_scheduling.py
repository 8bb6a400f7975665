"""CapacityScheduling against a naive reading of scheduler-plugins' rules
(pkg/capacityscheduling/capacity_scheduling.go), pod by pod and node by node, over random sequences.
All that is asked for is memory."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import ElasticQuota
from eventsched.domain.records import Outcome, PodDecided, PreemptionDecided
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.snapshot import encode, restore
from eventsched.plugins.gallery.capacity_scheduling import CapacityScheduling
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from tests.builders import SECOND, added, engine_of, make_node, make_pod
from tests.properties.strategies import deterministic

NAMESPACES = ("a", "b", "c")
NODES = {"n0": 10, "n1": 7}
Quotas = dict[str, tuple[int, int]]


def size(pods: Iterable[Pod]) -> int:
    """What pods ask for together."""
    return sum(pod.spec.containers[0].requests.get("memory", 0) for pod in pods)


class Naive:
    """One attempt: what is there, as lists."""

    def __init__(self, state: SchedulerState, quotas: Quotas, pod: Pod) -> None:
        self.quotas, self.pod = quotas, pod
        self.bound = {
            name: sorted(
                (each for each in state.pods.values() if each.booked_node == name),
                key=lambda each: each.booking_order,
            )
            for name in NODES
        }
        self.here = {name: [each.pod for each in self.bound[name]] for name in NODES}
        self.booking_order = {
            e.pod.uid: e.booking_order for states in self.bound.values() for e in states
        }
        self.nominated = {
            name: [p for uid, p in state.preemptions.on(name).items() if uid != pod.uid]
            for name in NODES
        }

    def used(self, namespace: str, away: list[Pod]) -> int:
        """Without some pods."""
        pods = [p for there in self.here.values() for p in there if p not in away]
        return size(p for p in pods if p.namespace == namespace)

    def borrows(self, namespace: str, away: list[Pod]) -> bool:
        """Upstream: usedOverMin."""
        return self.used(namespace, away) > self.quotas[namespace][0]

    def nominations(self) -> tuple[int, int]:
        """What nominated pods add for the namespace, and for all."""
        own = everything = 0
        for pods in self.nominated.values():
            for each in pods:
                if each.namespace not in self.quotas:
                    continue
                if each.namespace == self.pod.namespace:
                    if each.priority >= self.pod.priority:
                        own += size([each])
                        everything += size([each])
                elif not self.borrows(each.namespace, []):
                    everything += size([each])
        return own, everything

    def is_over(self, away: list[Pod], own: int, everything: int) -> bool:
        """Whether limit or sum of guarantees is exceeded with so much more."""
        limit = self.quotas[self.pod.namespace][1]
        total = sum(self.used(each, away) for each in self.quotas)
        return self.used(self.pod.namespace, away) + own > limit or total + everything > sum(
            least for least, _ in self.quotas.values()
        )

    def refused(self) -> bool:
        """PreFilter."""
        if self.pod.namespace not in self.quotas:
            return False
        own, everything = self.nominations()
        return self.is_over([], own + size([self.pod]), everything + size([self.pod]))

    def fits(self, node: str, away: list[Pod]) -> bool:
        """With the nominated pods that are at least as important."""
        crowd = [p for p in self.nominated[node] if p.priority >= self.pod.priority]
        there = [p for p in self.here[node] if p not in away]
        return size([*there, *crowd, self.pod]) <= NODES[node]

    def removable(self, node: str) -> list[Pod]:
        """Upstream: the first part of SelectVictimsOnNode."""
        pods = sorted(self.here[node], key=self.importance, reverse=True)
        less = [p for p in pods if p.priority < self.pod.priority]
        if self.pod.namespace not in self.quotas:
            return [p for p in less if p.namespace not in self.quotas]
        own = self.nominations()[0] + size([self.pod])
        namespace = self.pod.namespace
        if self.used(namespace, []) + own > self.quotas[namespace][0]:
            return [p for p in less if p.namespace == namespace]
        away: list[Pod] = []
        for each in pods:
            others = each.namespace != namespace and each.namespace in self.quotas
            if others and self.borrows(each.namespace, away):
                away.append(each)
        return away

    def importance(self, pod: Pod) -> tuple[int, int]:
        """Smaller for more important ones."""
        return -pod.priority, self.booking_order[pod.uid]

    def victims(self, node: str) -> list[Pod]:
        """The most important first; none if the node does not help."""
        away = self.removable(node)
        if not away or not self.fits(node, away):
            return []
        limited, asked = self.pod.namespace in self.quotas, size([self.pod])
        if limited and self.is_over(away, asked, asked):
            return []
        own, everything = self.nominations()
        for each in sorted(away, key=self.importance):
            away.remove(each)
            if not self.fits(node, away) or (
                limited and self.is_over(away, own + asked, everything + asked)
            ):
                away.append(each)
        return sorted(away, key=self.importance)

    def preempts(self) -> dict[str, list[str]]:
        """Node → victims, of all nodes that are full, or all if the quota refuses."""
        nodes = [n for n in NODES if self.refused() or not self.fits(n, [])]
        found = {node: [pod.uid for pod in self.victims(node)] for node in nodes}
        return {node: victims for node, victims in found.items() if victims}


def quota(namespace: str, least: int, most: int) -> records.ObjectChanged:
    """A quota of memory."""
    kept = ElasticQuota(name="q", namespace=namespace, min={"memory": least}, max={"memory": most})
    return records.ObjectChanged(object=kept)


OPERATIONS = st.one_of(
    st.tuples(
        st.just("pod"),
        st.tuples(
            st.sampled_from(NAMESPACES), st.integers(1, 6), st.sampled_from([0, 0, 5, 9]),
            st.sampled_from(["", "", "", "n0", "n1"]),
        ),
    ),
    st.tuples(
        st.just("quota"),
        st.tuples(st.sampled_from(NAMESPACES), st.integers(0, 12), st.integers(0, 15)),
    ),
    st.tuples(st.just("no quota"), st.sampled_from(NAMESPACES)),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("end"), st.integers(0, 30)),
)  # fmt: skip


class Driver:
    """An engine and its expected result."""

    def __init__(self) -> None:
        self.engine: Engine = engine_of(NodeResourcesFit(), CapacityScheduling())
        self.quotas: Quotas = {}
        self.now = 0
        for name, memory in NODES.items():
            self.observe(*added(make_node(name, memory=memory)))

    def observe(self, *stimuli: records.Stimulus) -> None:
        """Some time later."""
        self.now += 10 * SECOND
        for each in stimuli:
            self.engine.observe(each, self.now)

    def apply(self, number: int, name: str, value: Any) -> None:
        """One operation."""
        if name == "pod":
            namespace, memory, priority, node = value
            self.observe(
                *added(
                    make_pod(f"p{number}", cpu=0, memory=memory, namespace=namespace,
                             priority=priority, node_name=node)
                )
            )  # fmt: skip
        elif name == "quota":
            namespace, least, most = value
            self.quotas[namespace] = (least, most)
            self.observe(quota(namespace, least, most))
        elif name == "no quota" and value in self.quotas:
            del self.quotas[value]
            gone = records.ObjectDeleted(type="ElasticQuota", namespace=value, name="q")
            self.observe(gone)
        elif name in ("delete", "end"):
            state = self.engine.state
            chosen = list(state.preemptions.evicting) if name == "end" else list(state.pods)
            if chosen:
                self.observe(records.PodDeleted(uid=chosen[value % len(chosen)]))
        while self.attempt():
            pass

    def attempt(self) -> bool:
        """The next attempt, held against the naive reading; whether there was one."""
        uid = self.engine._next()
        if uid is None:
            return False
        state = self.engine.state
        naive = Naive(state, self.quotas, state.pods[uid].pod)
        refused, expected = naive.refused(), naive.preempts()
        waits = any(
            pod.deleting or pod.uid in state.preemptions.evicting
            for pods in naive.here.values()
            for pod in pods
        ) and bool(state.preemptions.node(uid))
        fits = not refused and any(naive.fits(node, []) for node in NODES)
        made = [each.record for each in self.engine.schedule_next()]
        decided = next(each for each in made if isinstance(each, PodDecided))
        assert (decided.plugin == "CapacityScheduling") == refused
        preempted = [each for each in made if isinstance(each, PreemptionDecided)]
        if fits:
            assert decided.outcome is Outcome.SCHEDULED
            self.observe(records.BindSucceeded(uid=uid, node=decided.node))
        elif preempted:
            (found,) = preempted
            assert found.candidates == len(expected)
            assert list(found.victims) == expected[found.node]
        elif not waits:
            assert expected == {}
        return True


LIMITS = st.tuples(st.integers(0, 8), st.integers(4, 15))
BOUND = st.tuples(
    st.sampled_from(NAMESPACES), st.integers(1, 3), st.sampled_from([0, 5, 9]),
    st.sampled_from(list(NODES)),
)  # fmt: skip


@deterministic(300)
@given(
    st.fixed_dictionaries({"a": LIMITS}, optional={"b": LIMITS, "c": LIMITS}),
    st.lists(BOUND, min_size=4, max_size=8),
    st.lists(OPERATIONS, min_size=3, max_size=15),
)
def test_quotas_and_victims_are_those_of_the_rule(
    quotas: Quotas, bound: list[Any], operations: list[tuple[str, Any]]
) -> None:
    """And a state from a snapshot has the same use."""
    driver = Driver()
    first = [("quota", (name, *limits)) for name, limits in quotas.items()]
    first += [("pod", each) for each in bound]
    for number, (name, value) in enumerate([*first, *operations]):
        driver.apply(number, name, value)
    state, again = driver.engine.state, SchedulerState()
    restore(again, encode(state))
    for namespace in driver.quotas:
        assert again.quotas.used(namespace) == state.quotas.used(namespace)
    assert again.quotas.total == state.quotas.total
