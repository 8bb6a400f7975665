"""Upstream's rules for one pod and one node, in plain Python: what the columns are held against.

Written from the Go sources (kubernetes v1.36 pkg/scheduler/framework/plugins, component-helpers
resource/helpers.go), with no code of eventsched but its data classes.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

from eventsched.domain.objects import Container, Node, NodeSelectorTerm, Pod, PodSpec, Requirement

MIB = 1024 * 1024
MAX = 100


@dataclass
class Place:
    """A node and the pods on it (upstream: NodeInfo)."""

    node: Node
    pods: list[Pod]


# --- requests ------------------------------------------------------------------------------------


def _pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def extended(name: str) -> bool:
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


def scalar(name: str) -> bool:
    prefixed = name.startswith(("hugepages-", "attachable-volumes-"))
    return prefixed or "kubernetes.io/" in name or extended(name)


def request(spec: PodSpec, name: str, assumed: int | None = None, pod_level: bool = True) -> int:
    """PodRequests for one resource; ``assumed`` is what silence counts as."""

    def asks(container: Container) -> int:
        return container.requests.get(name, assumed or 0)

    running = sum(asks(c) for c in spec.containers)
    running += sum(asks(c) for c in spec.init_containers if c.restarts)
    starting = 0
    for index, container in enumerate(spec.init_containers):
        before = sum(asks(c) for c in spec.init_containers[:index] if c.restarts)
        starting = max(starting, before + asks(container))
    found = max(running, starting)
    if pod_level and _pod_level(name) and spec.requests and name in spec.requests:
        found = spec.requests[name]
    return found + spec.overhead.get(name, 0)


def named(spec: PodSpec) -> set[str]:
    """Resources that appear in what PodRequests returns."""
    found = {name for c in spec.containers + spec.init_containers for name in c.requests}
    return found | set(spec.overhead) | {name for name in spec.requests or {} if _pod_level(name)}


def nonzero(spec: PodSpec, name: str) -> int:
    """What a pod adds to NodeInfo.NonZeroRequested (framework/types.go calculateResource)."""
    default = {"cpu": 100, "memory": 200 * MIB}.get(name)
    if default is None:
        return request(spec, name)
    levelled = any(_pod_level(each) for each in spec.requests or {})
    if levelled and name in named(spec):
        return request(spec, name)
    return request(spec, name, default)


def used(place: Place, name: str) -> int:
    return sum(request(pod.spec, name) for pod in place.pods)


def offered(place: Place, name: str) -> int:
    return place.node.allocatable.get(name, 0)


# --- filters: None, or the reasons and whether they are unresolvable -----------------------------


Refusal = tuple[list[str], bool] | None


def node_unschedulable(pod: Pod, place: Place) -> Refusal:
    if not place.node.unschedulable:
        return None
    taint = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
    return None if _tolerated(pod, *taint) else (["node(s) were unschedulable"], True)


def node_name(pod: Pod, place: Place) -> Refusal:
    if pod.node_name in ("", place.node.name):
        return None
    return ["node(s) didn't match the requested node name"], True


def _tolerated(pod: Pod, key: str, value: str, effect: str, effects: tuple[str, ...] = ()) -> bool:
    for each in pod.spec.tolerations:
        if effects and each.effect not in effects:
            continue
        if each.effect not in ("", effect) or each.key not in ("", key):
            continue
        if each.operator == "Exists" or (each.operator in ("", "Equal") and each.value == value):
            return True
    return False


def taint_toleration(pod: Pod, place: Place) -> Refusal:
    for taint in place.node.taints:
        hard = taint.effect != "PreferNoSchedule"
        if hard and not _tolerated(pod, taint.key, taint.value, taint.effect):
            return ["node(s) had untolerated taint(s)"], True
    return None


def taint_toleration_score(pod: Pod, place: Place) -> int:
    soft = "PreferNoSchedule"
    mind = [t for t in place.node.taints if t.effect == soft]
    return sum(not _tolerated(pod, t.key, t.value, soft, ("", soft)) for t in mind)


def _int64(text: str) -> int | None:
    body = text[1:] if text[:1] in "+-" else text
    if not body or any(char not in "0123456789" for char in body):
        return None
    return int(text) if abs(Fraction(text)) < 2**63 or text == str(-(2**63)) else None


def _valid(each: Requirement) -> bool:
    count = len(each.values)
    if each.operator in ("In", "NotIn"):
        return count > 0
    if each.operator in ("Exists", "DoesNotExist"):
        return count == 0
    return each.operator in ("Gt", "Lt") and count == 1 and _int64(each.values[0]) is not None


def label_holds(each: Requirement, labels: dict[str, str]) -> bool:
    present = each.key in labels
    value = labels.get(each.key, "")
    if each.operator == "In":
        return present and value in each.values
    if each.operator == "NotIn":
        return not (present and value in each.values)
    if each.operator in ("Exists", "DoesNotExist"):
        return present == (each.operator == "Exists")
    number, bound = _int64(value) if present else None, _int64(each.values[0])
    if number is None or bound is None:
        return False
    return number > bound if each.operator == "Gt" else number < bound


def term_holds(term: NodeSelectorTerm, node: Node) -> bool:
    """A parse error anywhere in a term makes it match nothing."""
    if not term.expressions and not term.fields:
        return False
    if not all(_valid(each) for each in term.expressions):
        return False
    if any(len(f.values) != 1 or f.operator not in ("In", "NotIn") for f in term.fields):
        return False
    for each in term.fields:
        equal = {"metadata.name": node.name}.get(each.key, "") == each.values[0]
        if equal != (each.operator == "In"):
            return False
    return all(label_holds(each, node.labels) for each in term.expressions)


def node_affinity(pod: Pod, place: Place) -> Refusal:
    refused = ["node(s) didn't match Pod's node affinity/selector"], True
    for key, value in pod.spec.node_selector.items():
        if place.node.labels.get(key) != value:
            return refused
    terms = pod.spec.required_node_terms
    if terms is not None and not any(term_holds(term, place.node) for term in terms):
        return refused
    return None


def node_affinity_names(pod: Pod) -> set[str] | None:
    """PreFilter: the nodes that the terms name; None where some term names none."""
    wanted: set[str] = set()
    for term in pod.spec.required_node_terms or ():
        sets = [
            set(f.values) for f in term.fields if (f.key, f.operator) == ("metadata.name", "In")
        ]
        if not sets:
            return None
        common = sets[0]
        for each in sets[1:]:
            common = common & each
        wanted |= common
    return wanted if pod.spec.required_node_terms else None


def node_affinity_score(pod: Pod, place: Place) -> int:
    terms = pod.spec.preferred_node_terms
    return sum(each.weight for each in terms if term_holds(each.term, place.node))


def _host_ports(pod: Pod) -> list[tuple[str, str, int]]:
    sidecars = [c for c in pod.spec.init_containers if c.restarts]
    each = [p for c in [*pod.spec.containers, *sidecars] for p in c.ports]
    return [(p.ip, p.protocol, p.port) for p in each]


def node_ports(pod: Pod, place: Place) -> Refusal:
    taken = [port for other in place.pods for port in _host_ports(other)]
    for ip, protocol, number in _host_ports(pod):
        for other_ip, other_protocol, other_number in taken:
            overlaps = "0.0.0.0" in (ip, other_ip) or ip == other_ip
            if overlaps and (protocol, number) == (other_protocol, other_number):
                return ["node(s) didn't have free ports for the requested pod ports"], False
    return None


def fit(
    pod: Pod, place: Place, ignored: tuple[str, ...] = (), groups: tuple[str, ...] = ()
) -> Refusal:
    reasons, unresolvable = [], False
    if len(place.pods) + 1 > offered(place, "pods"):
        reasons.append("Too many pods")
    scalars = sorted(name for name in named(pod.spec) if scalar(name))
    for name in ("cpu", "memory", "ephemeral-storage", *scalars):
        if extended(name) and (name in ignored or name.split("/")[0] in groups):
            continue
        wanted = request(pod.spec, name)
        if wanted > 0 and wanted > offered(place, name) - used(place, name):
            reasons.append(f"Insufficient {name}")
            unresolvable |= wanted > offered(place, name)
    return (reasons, unresolvable) if reasons else None


# --- scores --------------------------------------------------------------------------------------


Weights = list[tuple[str, int]]
DEFAULTS = {"cpu": 100, "memory": 200 * MIB}


def _counted(pod: Pod, place: Place, resources: Weights) -> list[tuple[int, int, int]]:
    """(requested with the pod, allocatable, weight): calculateNodeAllocatableRequest."""
    found = []
    for name, weight in resources:
        wanted = request(pod.spec, name, DEFAULTS.get(name), pod_level=False)
        if (scalar(name) and not wanted) or not offered(place, name):
            continue
        held = sum(nonzero(other.spec, name) for other in place.pods)
        found.append((held + wanted, offered(place, name), weight))
    return found


def least_allocated(pod: Pod, place: Place, resources: Weights) -> int:
    total = weights = 0
    for requested, capacity, weight in _counted(pod, place, resources):
        total += weight * (0 if requested > capacity else (capacity - requested) * MAX // capacity)
        weights += weight
    return total // weights if weights else 0


def most_allocated(pod: Pod, place: Place, resources: Weights) -> int:
    total = weights = 0
    for requested, capacity, weight in _counted(pod, place, resources):
        total += weight * (min(requested, capacity) * MAX // capacity)
        weights += weight
    return total // weights if weights else 0


def _truncated(quotient: Fraction) -> int:
    return math.trunc(quotient)


def _on_line(shape: list[tuple[int, int]], at: int) -> int:
    for index, (x, y) in enumerate(shape):
        if at <= x:
            if index == 0:
                return y
            x0, y0 = shape[index - 1]
            return y0 + _truncated(Fraction((y - y0) * (at - x0), x - x0))
    return shape[-1][1]


def ratio(pod: Pod, place: Place, resources: Weights, shape: list[tuple[int, int]]) -> int:
    line = [(x, y * 10) for x, y in shape]
    total = weights = 0
    for requested, capacity, weight in _counted(pod, place, resources):
        at = 100 if requested > capacity else requested * 100 // capacity
        score = _on_line(line, at)
        if score > 0:
            total, weights = total + score * weight, weights + weight
    return math.floor(Fraction(total, weights) + Fraction(1, 2)) if weights else 0


def balanced(pod: Pod, place: Place, resources: list[str]) -> int:
    """Only where the pod requests one of the resources."""
    before, after = [], []
    for name in resources:
        wanted, capacity = request(pod.spec, name), offered(place, name)
        if (scalar(name) and not wanted) or not capacity:
            continue
        before.append(min(1.0, used(place, name) / capacity))
        after.append(min(1.0, (used(place, name) + wanted) / capacity))
    return 50 + (50 + _evenness(after) - _evenness(before)) // 2


def _evenness(fractions: list[float]) -> int:
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        # Python's sum() of floats compensates; Go's loop does not.
        total = squares = 0.0
        for fraction in fractions:
            total += fraction
        mean = total / len(fractions)
        for fraction in fractions:
            squares += (fraction - mean) * (fraction - mean)
        deviation = math.sqrt(squares / len(fractions))
    return int((1 - deviation) * MAX)


def image_locality(pod: Pod, place: Place, places: list[Place]) -> int:
    containers = [*pod.spec.init_containers, *pod.spec.containers]
    total = 0
    for name in [*(c.image for c in containers), *pod.spec.image_volumes]:
        full = name if ":" in name.rsplit("/", 1)[-1] else f"{name}:latest"
        sizes = {i.names: i.size for i in place.node.images if full in i.names}
        if sizes:
            holders = sum(any(full in i.names for i in p.node.images) for p in places)
            total += int(float(next(iter(sizes.values()))) * (holders / len(places)))
    low, high = 23 * MIB, 1000 * MIB * len(containers)
    return MAX * (min(max(total, low), high) - low) // (high - low)
