"""The remedies of ``explain --why-not``: each works, and no part of one can be left out."""

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple, get_args

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from eventsched.domain.objects import (
    CPU,
    MEMORY,
    PODS,
    AffinityTerm,
    Container,
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodVolume,
    Requirement,
    SpreadConstraint,
)
from eventsched.domain.objects.registry import (
    AnyObject,
    CSINode,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from eventsched.domain.records import ObjectChanged, PodDecided
from eventsched.history.why_not import changes
from eventsched.history.why_not.changes import NodeLabelSet, PodRemoved, ResourceClaimRemoved
from eventsched.history.why_not.hypothesis import Hypothesis, reweighted
from eventsched.history.why_not.search import remedies
from eventsched.history.why_not.trial_copy import trial_copy
from eventsched.history.why_not.volume_changes import OfObjects, VolumeRemoved
from eventsched.runtime.assembly import assemble
from eventsched.scheduling.engine import Engine
from eventsched.testing import (
    PROFILE,
    STREAM_STARTED,
    added,
    attempted,
    engine_with,
    make_node,
    make_pod,
    observed,
)

from . import strategies
from .strategies import deterministic

_EXAMPLES = int(os.environ.get("EVENTSCHED_EXAMPLES", "100"))
_ASSEMBLY = assemble()
_app = st.sampled_from(["x", "y"])
_selector = _app.map(lambda app: (Requirement(key="app", operator="In", values=(app,)),))
_terms = st.lists(
    st.builds(AffinityTerm, topology_key=st.sampled_from(["zone", "disk"]), selector=_selector),
    max_size=1,
).map(tuple)
_spread = st.lists(
    st.builds(
        SpreadConstraint,
        max_skew=st.sampled_from([1, 2]),
        topology_key=st.sampled_from(["zone", "disk"]),
        selector=_selector,
    ),
    max_size=1,
).map(tuple)


class _Case(NamedTuple):
    """A cluster with bound pods and other objects, a pod, and a node."""

    nodes: list[Node]
    objects: list[AnyObject]
    bound: list[Pod]
    pod: Pod
    node: str
    waiting: list[Pod]

    def engine(self, weights: Mapping[str, int]) -> Engine:
        """A new engine that knows everything except the pod."""
        engine = engine_with(weights=weights)
        changed = [ObjectChanged(object=each) for each in self.objects]
        observed(engine, STREAM_STARTED, *added(*self.nodes), *changed)
        observed(engine, *added(*self.bound, *self.waiting))
        return engine


@st.composite
def _waiting_pods(draw: st.DrawFn, names: list[str], shapes: list[PodSpec]) -> list[Pod]:
    """Gated pods, so that none of them is tried first; some are nominated to a node."""
    return [
        replace(
            _pod(f"w{number}", draw(st.sampled_from(shapes)), draw(_app)),
            gates=("wait",),
            nominated_node=draw(st.sampled_from(["", *names])),
            priority=draw(st.sampled_from([9, 0])),
        )
        for number in range(draw(st.integers(0, 3)))
    ]


@st.composite
def _cases(draw: st.DrawFn) -> _Case:
    names = strategies.NODE_NAMES[: draw(st.integers(2, 5))]
    nodes = [draw(strategies.roomy_nodes(name)) for name in names]
    shapes = draw(st.lists(strategies.simple_specs, min_size=1, max_size=3))
    bound = []
    for number in range(draw(st.integers(0, 12))):
        spec = draw(st.sampled_from(shapes))
        if draw(st.booleans()):
            spec = replace(spec, required_anti_affinity=draw(_terms))
        bound.append(_pod(f"b{number}", spec, draw(_app), draw(st.sampled_from(names))))
    spec = replace(
        draw(strategies.specs | strategies.simple_specs),
        required_affinity=draw(_terms),
        required_anti_affinity=draw(_terms),
        spread=draw(_spread),
    )
    waiting = draw(_waiting_pods(names, shapes))
    pod, name = _pod("p", spec, draw(_app)), draw(st.sampled_from(names))
    return _Case(nodes, [], bound, pod, name, waiting)


ZONE = "topology.kubernetes.io/zone"
_zones = st.sampled_from(["a", "b"])
_zone_labels = st.sampled_from([{ZONE: "b"}, {}, {ZONE: "a"}])
_CLAIMS = ["c0", "c1", "c2"]
_CLASSES = [
    StorageClass(name="local", binding_mode="WaitForFirstConsumer",
                 provisioner="kubernetes.io/no-provisioner"),
    StorageClass(name="now", provisioner="csi.example.com"),
    StorageClass(name="odd", binding_mode=""),
]  # fmt: skip


@st.composite
def _claimed(draw: st.DrawFn, name: str) -> list[AnyObject]:
    """A claim in one of its states, with its volume if it has one; or nothing."""
    state = draw(st.sampled_from([*["bound"] * 5, "waiting", "late", "gone", "none"]))
    if state == "none":
        return []
    claim = PersistentVolumeClaim(
        name=name, namespace="default", uid=name, storage_class="local", requested=2**30,
        access_modes=(draw(st.sampled_from(["ReadWriteOnce", "ReadWriteOncePod"])),),
    )  # fmt: skip
    match state:
        case "late":
            return [replace(claim, storage_class=draw(st.sampled_from(["now", "now", "odd"])))]
        case "gone":
            lost = replace(claim, phase="Lost", volume="gone", bound=True)
            return [draw(st.sampled_from([lost, replace(claim, deleting=True)]))]
        case "waiting":
            return [claim]
    bound = replace(claim, phase="Bound", volume=f"pv-{name}", bound=True)
    key = draw(st.sampled_from([ZONE, "kubernetes.io/hostname"]))
    values = draw(_zones) if key == ZONE else draw(st.sampled_from(["n1", "n0"]))
    term = NodeSelectorTerm(expressions=(Requirement(key=key, operator="In", values=(values,)),))
    volume = PersistentVolume(
        name=f"pv-{name}", storage_class="local", capacity=2**30, phase="Bound",
        access_modes=claim.access_modes, claim=("default", name, name),
        labels=draw(st.sampled_from([{ZONE: "a"}, {}, {ZONE: "a__b"}])),
        node_terms=draw(st.sampled_from([(term,), None])),
        driver=draw(st.sampled_from(["", "csi.example.com"])), handle=name,
    )  # fmt: skip
    return [bound, volume] if draw(st.integers(0, 4)) else [bound]


_disks = st.builds(
    PodVolume,
    source=st.just("gcePersistentDisk"),
    identity=st.sampled_from(["x", "y"]).map(lambda disk: (disk,)),
    read_only=st.booleans(),
)


def _volume(claim: str) -> st.SearchStrategy[PodVolume]:
    return st.just(PodVolume(claim=claim)) if claim else _disks


_volumes = st.lists(st.sampled_from([*_CLAIMS, *_CLAIMS, ""]).flatmap(_volume), max_size=2).map(
    lambda volumes: tuple(replace(each, name=f"v{n}") for n, each in enumerate(volumes))
)


@st.composite
def _cases_with_volumes(draw: st.DrawFn) -> _Case:
    """Pods with volumes, and with devices."""
    names = strategies.NODE_NAMES[: draw(st.integers(1, 3))]
    nodes: list[Node] = []
    objects: list[AnyObject] = list(_CLASSES)
    for name in names:
        own = {"kubernetes.io/hostname": name} | draw(
            st.sampled_from([{}, {ZONE: "a"}, {ZONE: "b"}])
        )
        nodes.append(make_node(name, cpu=draw(st.sampled_from([200, 4000])), labels=own))
        limit = draw(st.sampled_from([None, 1, 2]))
        objects.append(CSINode(name=name, drivers=(NodeDriver("csi.example.com", limit=limit),)))
    objects += [each for name in _CLAIMS for each in draw(_claimed(name))]
    bound = [
        replace(make_pod(f"b{number}"), volumes=draw(_volumes), priority=number % 3,
                node_name=draw(st.sampled_from(names)))
        for number in range(draw(st.integers(0, 3)))
    ]  # fmt: skip
    devices = draw(st.sampled_from([(), (), (), ("gpu",), ("gpu", "nic")]))
    pod = replace(make_pod("p", cpu=100), volumes=draw(_volumes), resource_claims=devices)
    waiting = draw(_waiting_pods(names, [make_pod(cpu=100).spec]))
    return _Case(nodes, objects, bound, pod, draw(st.sampled_from(names)), waiting)


def _pod(name: str, spec: PodSpec, app: str, node: str = "") -> Pod:
    priority = len(app) + ord(name[-1]) % 3
    return Pod(
        uid=name, name=name, spec=spec, labels={"app": app}, node_name=node, priority=priority
    )


def _placed_on(engine: Engine, pod: Pod) -> str:
    """The node on which the scheduler places a pod."""
    observed(engine, *added(pod))
    [decided] = [record for record in attempted(engine) if isinstance(record, PodDecided)]
    return decided.node


def _prove(case: _Case, ends: Counter[str]) -> None:
    """Each remedy works, no change can be left out, and the scheduler places the pod there. Counts
    how searches end."""
    unchanged = case.engine({})
    digest = unchanged.state.digest()

    def copied_engine(weights: Mapping[str, int]) -> Engine:
        profiles = {PROFILE: reweighted(_ASSEMBLY.profiles[PROFILE], weights)}
        state = trial_copy(unchanged.state, case.pod.uid)
        return dataclasses.replace(_ASSEMBLY, profiles=profiles).engine(state=state)

    # As for a question about the past: engines with changes are copies of one state. Those that
    # prove the remedies know all pods.
    found = remedies(Hypothesis(copied_engine, case.pod, case.node, unchanged))
    assert unchanged.state.digest() == digest
    for remedy in found:
        if remedy.stuck is not None:
            # The overhead of a runtime class cannot be lowered.
            assert remedy.stuck.plugins == ("NodeResourcesFit",)
            assert case.pod.spec.overhead
            ends["stuck"] += 1
            continue
        ends[f"{len(remedy.changes)} changes"] += 1
        ends.update(type(change).__name__ for change in remedy.changes)
        assert remedy.landing.lands == (not remedy.changes)
        fresh = Hypothesis(case.engine, case.pod, case.node)
        assert fresh.landing(remedy.changes).lands
        for change in remedy.changes:
            rest = tuple(each for each in remedy.changes if each != change)
            assert not fresh.landing(rest).lands, change.text
        engine = case.engine(changes.weights(remedy.changes))
        registry = unchanged.state.registry
        observed(engine, *changes.stimuli(fresh.node, registry, remedy.changes))
        assert _placed_on(engine, changes.changed_pod(case.pod, remedy.changes)) == case.node


def test_each_remedy_works_and_no_part_can_be_left_out() -> None:
    """`make test-examples`, which runs each night, tries EXAMPLES=1000."""
    ends: Counter[str] = Counter()

    @deterministic(_EXAMPLES)
    @given(_cases())
    def proved(case: _Case) -> None:
        _prove(case, ends)

    proved()
    assert ends["1 changes"] > 5, ends
    assert ends["3 changes"] > 5, ends


def test_each_remedy_for_volumes_and_devices_works_and_no_part_can_be_left_out() -> None:
    """The same for pods that the plugins about volumes and devices refuse."""
    ends: Counter[str] = Counter()

    @deterministic(_EXAMPLES)
    @given(_cases_with_volumes())
    def proved(case: _Case) -> None:
        _prove(case, ends)

    proved()
    assert ends["stuck"] == 0, ends
    for kind in (VolumeRemoved, ResourceClaimRemoved, NodeLabelSet, PodRemoved):
        assert ends[kind.__name__] > 0, ends
    assert sum(ends[kind.__name__] for kind in get_args(OfObjects)) > 5, ends
    assert ends["3 changes"] > 5, ends


@st.composite
def _full_nodes(draw: st.DrawFn) -> tuple[dict[str, int], list[Pod]]:
    """The room of a node in units of one request, and the pods on it."""
    amounts = st.tuples(st.integers(0, 4), st.integers(0, 4), st.sampled_from([0, 0, 1, 2]))
    present = [
        _requesting(f"b{number}", cpu, memory, priority)
        for number, (cpu, memory, priority) in enumerate(draw(st.lists(amounts, max_size=8)))
    ]
    used = [sum(_requests(pod)[name] for pod in present) for name in (CPU, MEMORY)]
    lacking = [draw(st.integers(-1, max(amount, 1))) for amount in used]
    room = {CPU: used[0] + 6 - lacking[0], MEMORY: used[1] + 6 - lacking[1]}
    return {**room, PODS: len(present) + draw(st.sampled_from([0, 1, 1]))}, present


def _requesting(name: str, cpu: int, memory: int, priority: int) -> Pod:
    container = Container(requests={CPU: cpu, MEMORY: memory})
    return Pod(uid=name, name=name, node_name="n1", priority=priority,
               spec=PodSpec(containers=(container,)))  # fmt: skip


def _requests(pod: Pod) -> dict[str, int]:
    return {**pod.spec.containers[0].requests, PODS: 1}


def _fewest(room: dict[str, int], present: list[Pod], pod: Pod) -> tuple[int, int] | None:
    """The lowest priority that the most important removed pod can have, and the fewest pods with
    it: by trying all sets."""

    def fits(gone: tuple[Pod, ...]) -> bool:
        stay = [*(each for each in present if each not in gone), pod]
        return all(sum(_requests(each)[name] for each in stay) <= room[name] for name in room)

    every = (gone for size in range(len(present) + 1) for gone in combinations(present, size))
    return min(
        (
            (max((each.priority for each in gone), default=-1), len(gone))
            for gone in every
            if fits(gone)
        ),
        default=None,
    )


def test_the_fewest_pods_are_removed_for_room() -> None:
    """Few enough pods that all sets are tried (``MOST_SETS``). On the only node a pod lands as soon
    as it fits. No pod is more important than needed."""
    ends: Counter[str] = Counter()

    @deterministic(_EXAMPLES)
    @given(_full_nodes())
    def proved(case: tuple[dict[str, int], list[Pod]]) -> None:
        room, present = case
        pod = replace(_requesting("p", 6, 6, 0), node_name="")

        def make_engine(weights: Mapping[str, int]) -> Engine:
            engine = engine_with(weights=weights)
            observed(engine, STREAM_STARTED, *added(Node(name="n1", allocatable=room), *present))
            return engine

        fewest = _fewest(room, present, pod)
        found = remedies(Hypothesis(make_engine, pod, "n1"))
        for changes_made in (remedy.changes for remedy in found if remedy.stuck is None):
            removed = [each for each in changes_made if isinstance(each, PodRemoved)]
            if len(removed) < len(changes_made):
                continue  # it lowers a request
            ends[f"{len(removed)} pods"] += 1
            highest = max((each.priority for each in removed), default=-1)
            assert (highest, len(removed)) == fewest

    proved()
    assert ends["1 pods"] > 5, ends
    assert ends["3 pods"] > 2, ends
