"""Whether a number of further pods fits for certain, without deciding about each of them.

``room_for`` (trial_run.py) decides about one pod after the other. If only the resources of
nodes can refuse such a pod, it finds a node as long as one has room for it. How much room there is
in total does not depend on which nodes are chosen, except for pods that have no node yet: of these
each can take the room of one node. So if the other nodes have room for all further pods, all of
them fit. In any other case nothing is said, and the pods have to be tried.
tests/properties/test_certain_room.py compares the two.
"""

from collections.abc import Callable

import numpy as np

from eventsched.cluster.in_memory.cluster import TERMINATION_DELAY
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import PODS
from eventsched.domain.objects.pod_requests import of as requests_of
from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery import GALLERY
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.queries.trial_run import STEP, TrialCluster, TrialRun
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework.profile import Profile

_KNOWN = {name: plugin for name, plugin in IN_TREE.items() if plugin not in GALLERY}
"""The plugins of which it is known what they read. Others may refuse a pod because of a quota, of a
measurement, or of pods that do not come."""
_LARGE = 2**60
"""Amounts from here on are left to the filter, whose sums wrap around as upstream's do."""


def certainly_fit(
    cluster: TrialCluster, done: TrialRun, more: Callable[[int], TracePod], most: int
) -> bool:
    """Whether ``room_for`` would find that ``most`` of the pods that ``more`` makes fit in addition
    to those of the run ``done``; False if that is not certain. They must be like the first of these
    except for their names."""
    state, engine = cluster.state, done.simulation.engine
    if state is None or done.pending or done.simulation.counters.errors or engine.asks:
        return False
    if most * STEP >= TERMINATION_DELAY:  # a pod that is evicted meanwhile does not end before
        return False
    if any(more(number).pod.uid in engine.state.pods for number in range(most)):
        return False
    unplaced = [each.pod for each in state.pods.values() if not each.bound]
    unplaced += [each.pod for each in done.tried]
    gone = [each.pod for uid, each in state.pods.items() if uid not in engine.state.pods]
    if any(pod.spec.has_affinity for pod in (*unplaced, *gone)):
        return False  # where these are says where other pods can be
    profiles = cluster.assembly.profiles
    named = {pod.scheduler_name for pod in unplaced}
    if not all(_is_known(profiles[name]) for name in named if name in profiles):
        return False
    judgement = engine.judge(more(0).pod)
    if not _is_refused_by_requests(judgement):
        return False
    return _room_besides(state.nodes, engine.state.nodes, judgement, len(unplaced), most) >= most


def _is_known(profile: Profile) -> bool:
    """Whether a profile has only plugins that are known."""
    return all(
        plugin.name in _KNOWN and isinstance(plugin, _KNOWN[plugin.name])
        for plugin in profile.plugins
    )


def _is_refused_by_requests(judgement: Judgement) -> bool:
    """Whether the pods on a node can refuse the pod only by what they request: no filter runs for
    each pod, and of the others one alone reads the usage of nodes."""
    pod, judged, dry_run = judgement.pod, judgement.equivalence_class, judgement.dry_run
    if pod.volumes or pod.resource_claims or judged is None or dry_run is None:
        return False
    if judgement.problem is not None or judgement.narrowed_by or dry_run.uncached:
        return False
    return [each.name for each in judged.dynamic_filters] == [NodeResourcesFit.name]


def _room_besides(
    table: NodeTable, end: NodeTable, judgement: Judgement, nodes: int, most: int
) -> int:
    """How many such pods the nodes of a table take, without the ``nodes`` that take most of them.
    Of one node ``most`` are counted at most. The judgement is about the same nodes at the ``end``
    of a run. 0 if the amounts are too large to say it."""
    judged = judgement.equivalence_class
    assert judged is not None
    assert table.names == end.names
    requests = requests_of(judgement.pod.spec).effective
    amounts = {**{name: amount for name, amount in requests.items() if amount}, PODS: 1}
    allocatable, requested, _ = NodeView(table).books(tuple(amounts))
    needed = np.array(list(amounts.values()), dtype=np.int64)[:, None]
    for numbers in (allocatable, requested, needed):
        if numbers.min(initial=0) < 0 or numbers.max(initial=0) >= _LARGE:
            return 0
    room = np.clip(((allocatable - requested) // needed).min(axis=0), 0, most)
    room[judged.static_keys(np.arange(table.size, dtype=np.intp)) != KEY_PASSES] = 0
    return int(np.sort(room)[: max(0, len(room) - nodes)].sum())
