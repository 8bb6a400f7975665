"""Which changes may help against a refusal, by the plugin that refuses.

A proposal need not be the smallest: the search leaves out what is not needed, and tightens numbers.
"""

from collections.abc import Callable

import numpy as np

from eventsched.domain.objects import PODS, HostPort, pod_requests
from eventsched.history.why_not import volume_proposals
from eventsched.history.why_not.case import Case, Side, missing_labels
from eventsched.history.why_not.change_value import unit_of
from eventsched.history.why_not.changes import (
    AnyChange,
    HostPortRemoved,
    NodeLabelSet,
    NodeRequired,
    NodeSelectorEntryRemoved,
    NodeUncordoned,
    PodLabelRemoved,
    RequestLimited,
    RequiredNodeAffinityRemoved,
    ResourceClaimRemoved,
    SpreadConstraintChanged,
    TaintRemoved,
    TermRemoved,
    TolerationAdded,
    WeightChanged,
)
from eventsched.history.why_not.fewest_victims import fewer_victims
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.pod_specific_verdicts import weighted

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_INSUFFICIENT = "Insufficient "
_TOO_MANY_PODS = "Too many pods"
_LARGEST_WEIGHT = 100
_HARD = "DoNotSchedule"
_REFUSING = ("NoSchedule", "NoExecute")


def proposals(case: Case) -> list[AnyChange]:
    """Changes that may help; none if none is known for the plugin."""
    if not case.landing.plugins:
        return _of_scores(case)
    proposed: list[AnyChange] = []
    for plugin in case.landing.plugins:
        if plugin in _BY_PLUGIN:
            proposed += _BY_PLUGIN[plugin](case)
    return list(dict.fromkeys(proposed))


def _of_taints(case: Case) -> list[AnyChange]:
    taints = [taint for taint in case.hypothesis.node.taints if taint.effect in _REFUSING]
    if case.side is Side.CLUSTER:
        return [TaintRemoved(taint) for taint in taints]
    return [TolerationAdded(taint.key, taint.value, taint.effect) for taint in taints]


def _of_cordon(case: Case) -> list[AnyChange]:
    if case.side is Side.CLUSTER:
        return [NodeUncordoned()]
    return [TolerationAdded(_UNSCHEDULABLE, "", "NoSchedule")]


def _of_node_affinity(case: Case) -> list[AnyChange]:
    node, spec = case.hypothesis.node, case.pod.spec
    wrong = [
        (key, value)
        for key, value in spec.node_selector.items()
        if node.labels.get(key) != value
    ]  # fmt: skip
    if case.side is Side.CLUSTER:
        labels = [NodeLabelSet(key, value) for key, value in wrong] + missing_labels(
            node.labels, spec.required_node_terms or ()
        )
        if labels:
            return list(labels)
    removed: list[AnyChange] = [NodeSelectorEntryRemoved(*entry) for entry in wrong]
    if spec.required_node_terms is not None:
        removed.append(RequiredNodeAffinityRemoved())
    return removed


def _of_ports(case: Case) -> list[AnyChange]:
    taken = [
        (resident, port)
        for resident in case.residents()
        for port in resident.pod.spec.host_ports
        for own in case.pod.spec.host_ports
        if own.collides(port)
    ]
    if case.side is Side.CLUSTER:
        return [case.removed(resident.pod) for resident, _ in taken]
    own_ports: dict[HostPort, None] = {
        own: None
        for own in case.pod.spec.host_ports
        if any(own.collides(port) for _, port in taken)
    }
    return [HostPortRemoved(port) for port in own_ports]


def _of_resources(case: Case) -> list[AnyChange]:
    """Smaller requests if the node has room for some of what is lacking; pods of the node that make
    room; or, if even an empty node has none, no request at all."""
    reasons = case.landing.reasons
    lacking = [
        reason.removeprefix(_INSUFFICIENT) for reason in reasons if reason.startswith(_INSUFFICIENT)
    ]
    requests = pod_requests.of(case.pod.spec).effective
    least: list[AnyChange] = [
        RequestLimited(name, unit_of(name), requests[name])
        for name in lacking
        if requests.get(name, 0) > unit_of(name)
    ]
    is_full = _TOO_MANY_PODS in reasons
    has_some = not is_full and len(least) == len(lacking)
    if case.side is Side.POD and has_some and not case.refuses("NodeResourcesFit", least):
        return least
    victims = _victims(case, [*lacking, PODS] if is_full else lacking)
    if not case.refuses("NodeResourcesFit", victims):
        return victims
    none = [RequestLimited(name, 0, requests[name]) for name in lacking if requests.get(name, 0)]
    return [*victims, *none] if is_full else list(none)


def _victims(case: Case, lacking: list[str]) -> list[AnyChange]:
    """The pods of the node, the least important first, until the pod fits, or fewer ones. Pods that
    request none of what is lacking stay."""
    if case.is_thrifty and (few := _few_victims(case, lacking)):
        return few
    victims: list[AnyChange] = []
    for resident in case.residents():
        requests = pod_requests.of(resident.pod.spec).effective
        if PODS not in lacking and not any(requests.get(name, 0) for name in lacking):
            continue
        victims.append(case.removed(resident.pod))
        if not case.refuses("NodeResourcesFit", victims):
            break
    return victims


def _few_victims(case: Case, lacking: list[str]) -> list[AnyChange]:
    """Fewer pods with which the pod fits, and some more if it then has the largest total."""
    fewer = fewer_victims(case, lacking)
    if fewer is None:
        return []
    few: list[AnyChange] = [case.removed(resident.pod) for resident in fewer.victims]
    if case.refuses("NodeResourcesFit", few):
        return []
    tried = list(few)
    for resident in (None, *fewer.more):
        if resident is not None:
            tried.append(case.removed(resident.pod))
        landing = case.hypothesis.landing((*case.made, *tried))
        if landing.lands:
            return tried
        if landing.plugins or landing.reasons:
            break
    return few


def _of_spread(case: Case) -> list[AnyChange]:
    constraints = enumerate(case.hypothesis.pod.spec.spread)
    return [
        SpreadConstraintChanged(index, constraint.topology_key)
        for index, constraint in constraints
        if constraint.when_unsatisfiable == _HARD
    ]


def _of_pod_affinity(case: Case) -> list[AnyChange]:
    pod = case.hypothesis.pod
    terms: list[AnyChange] = [
        TermRemoved(field, index, term.topology_key)
        for field in ("required_affinity", "required_anti_affinity")
        for index, term in enumerate(getattr(pod.spec, field))
    ]
    labels = [PodLabelRemoved(key, value) for key, value in pod.labels.items()]
    return [*terms, *labels]


def _of_devices(case: Case) -> list[AnyChange]:
    """The pod without its claims. Their devices are not in the log, so nothing of the cluster can
    be proved to help."""
    return [ResourceClaimRemoved(name) for name in case.pod.resource_claims]


def _of_scores(case: Case) -> list[AnyChange]:
    if case.side is Side.CLUSTER and (weight := _weight(case)) is not None:
        return [weight]
    return [NodeRequired(case.hypothesis.node.name)]


def _weight(case: Case) -> WeightChanged | None:
    """The smallest change of one weight after which the node has the largest total."""
    judgement = case.hypothesis.judged(case.made)
    row = case.hypothesis.row
    if judgement.keys[row] != KEY_PASSES:
        return None
    rows = np.flatnonzero(judgement.keys == KEY_PASSES)
    place = int(np.searchsorted(rows, row))
    lead = np.delete(judgement.totals[row] - judgement.totals[rows], place)
    known = {score.name: score for score in judgement.profile.scores}
    found: list[tuple[int, WeightChanged]] = []
    for scored in judgement.scores:
        plugin, before = scored.column.plugin, scored.column.weight
        if plugin not in known or not before:
            continue
        normalized = weighted(scored, rows) // before
        gain = np.delete(normalized[place] - normalized, place)
        for weight in sorted(range(1, _LARGEST_WEIGHT + 1), key=lambda w: abs(w - before)):
            if (lead + (weight - before) * gain > 0).all():
                found.append((abs(weight - before), WeightChanged(plugin, weight, before)))
                break
    return min(found, key=lambda each: each[0])[1] if found else None


_BY_PLUGIN: dict[str, Callable[[Case], list[AnyChange]]] = {
    "TaintToleration": _of_taints,
    "NodeUnschedulable": _of_cordon,
    "NodeAffinity": _of_node_affinity,
    "NodePorts": _of_ports,
    "NodeResourcesFit": _of_resources,
    "PodTopologySpread": _of_spread,
    "InterPodAffinity": _of_pod_affinity,
    "DynamicResources": _of_devices,
    **volume_proposals.BY_PLUGIN,
}
