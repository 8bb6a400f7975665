"""NodeResourceTopologyMatch as upstream does it: node by node, zone by zone, container by
container. It reads values of the domain and shares no code with the plugin."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from eventsched.domain.objects import Node, PodSpec
from eventsched.domain.objects.registry import NodeResourceTopology

Amounts = Mapping[str, int]


@dataclass
class Zone:
    """A zone's free resources and its distances."""

    free: dict[str, int]
    costs: dict[int, int]
    number: int


def zones_of(topology: NodeResourceTopology) -> list[Zone]:
    """Copies to take from."""
    return [Zone(dict(z.available), dict(z.costs), z.number) for z in topology.zones]


def request(spec: PodSpec) -> dict[str, int]:
    """The pod's effective request."""
    total: dict[str, int] = {}
    for container in spec.containers:
        for name, amount in container.requests.items():
            total[name] = total.get(name, 0) + amount
    for container in spec.init_containers:
        for name, amount in container.requests.items():
            if name not in total or amount > total[name]:
                total[name] = amount
    for name, amount in spec.overhead.items():
        total[name] = total.get(name, 0) + amount
    return total


def affine(name: str) -> bool:
    """What only Guaranteed pods get from one zone."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def place(wanted: Amounts, zones: list[Zone], node: Node, guaranteed: bool) -> int | None:
    """The position of the first zone that has everything, None for none."""
    left = set(range(max(len(zones), 1)))
    for name, amount in wanted.items():
        if amount == 0:
            continue
        if name not in {"cpu", "memory", "ephemeral-storage", *node.allocatable}:
            return None
        reporting = [n for n, zone in enumerate(zones) if name in zone.free]
        if not reporting and ("/" in name or name == "ephemeral-storage"):
            continue
        left &= {
            n
            for n in reporting
            if (affine(name) and not guaranteed) or zones[n].free[name] >= amount
        }
    return min(left) if left else None


def passes(spec: PodSpec, topology: NodeResourceTopology | None, node: Node) -> str:
    """What cannot be aligned, "" for nothing."""
    if topology is None or topology.policy != "single-numa-node":
        return ""
    zones = zones_of(topology)
    if topology.scope == "pod":
        return "pod" if place(request(spec), zones, node, spec.guaranteed) is None else ""
    for container in spec.init_containers:
        if place(container.requests, zones, node, spec.guaranteed) is None:
            return "sidecar container" if container.restarts else "init container"
    for container in spec.containers:
        position = place(container.requests, zones, node, spec.guaranteed)
        if position is None:
            return "container"
        for name, amount in container.requests.items():
            counts = spec.guaranteed or not affine(name)
            if counts and zones and name in zones[position].free:
                zones[position].free[name] -= amount
    return ""


def whole(name: str, amount: int) -> int:
    """Processors are counted as whole ones."""
    return (amount + 999) // 1000 if name == "cpu" else amount


def zone_score(strategy: str, wanted: Amounts, free: Amounts, weights: Amounts) -> int:
    """One zone's score."""
    if strategy == "BalancedAllocation":
        shares = []
        for name, amount in wanted.items():
            has = whole(name, free.get(name, 0))
            shares.append(Fraction(whole(name, amount), has) if has else Fraction(1))
        if any(share > 1 for share in shares):
            return 0
        mean = sum(shares) / max(len(shares), 1)
        variance = sum((share - mean) ** 2 for share in shares) / max(len(shares) - 1, 1)
        return int((1 - variance) * 100)
    total = weight = 0
    for name, amount in wanted.items():
        own = max(weights.get(name, 1), 1)
        weight += own
        has = free.get(name, 0)
        if has and amount <= has:
            used = whole(name, amount)
            part = used if strategy == "MostAllocated" else whole(name, has) - used
            total += part * 100 // whole(name, has) * own
    return total // weight if weight else 0


def node_score(strategy: str, wanted: Amounts, zones: list[Zone], weights: Amounts) -> int:
    """The lowest that is not 0."""
    found = [zone_score(strategy, wanted, zone.free, weights) for zone in zones]
    return min((each for each in found if each), default=0)


def score(
    strategy: str, spec: PodSpec, topology: NodeResourceTopology | None, weights: Amounts
) -> int:
    """A node's score."""
    if not spec.guaranteed:
        return 100
    if topology is None:
        return 0
    parts = [container.requests for container in (*spec.init_containers, *spec.containers)]
    if topology.scope == "pod":
        parts = [request(spec)]
    zones = zones_of(topology)
    if strategy == "LeastNUMANodes":
        return fewest(parts, zones, topology.most_zones)
    if topology.policy != "single-numa-node":
        return 0
    return sum(node_score(strategy, part, zones, weights) for part in parts) // len(parts)


def distance(zones: list[Zone], chosen: tuple[int, ...]) -> Fraction:
    """The mean distance between chosen zones."""
    costs = [zones[a].costs.get(zones[b].number, 255) for a in chosen for b in chosen]
    return Fraction(sum(costs), len(costs))


def fewest(parts: list[dict[str, int]], zones: list[Zone], most: int) -> int:
    """LeastNUMANodes."""
    largest, is_short = 0, True
    for part in parts:
        if not any(name in zone.free for name in part for zone in zones):
            continue
        found = combination(part, zones)
        if found is None:
            return 0
        chosen, short = found
        largest, is_short = max(largest, len(chosen)), is_short and short
        for name, amount in part.items():
            left = amount
            for position in chosen:
                taken = min(left, zones[position].free.get(name, 0))
                if name in zones[position].free:
                    zones[position].free[name] -= taken
                    left -= taken
    if not largest:
        return 100
    return max(0, 100 - largest * (100 // most) + (100 // most // 2 if is_short else 0))


def combination(part: Amounts, zones: list[Zone]) -> tuple[tuple[int, ...], bool] | None:
    """The fewest zones that have everything, and whether none of their number are nearer."""
    for length in range(1, len(zones) + 1):
        sets = list(combinations(range(len(zones)), length))
        least = min([Fraction(255), *(distance(zones, each) for each in sets)])
        best, nearest = None, Fraction(256)
        for each in sets:
            if any(name not in zones[n].free for n in each for name in part):
                continue
            if any(
                sum(zones[n].free[name] for n in each) < amount for name, amount in part.items()
            ):
                continue
            if distance(zones, each) == least:
                return each, True
            if distance(zones, each) < nearest:
                best, nearest = each, distance(zones, each)
        if best is not None:
            return best, False
    return None
