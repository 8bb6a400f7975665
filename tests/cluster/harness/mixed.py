"""A cluster of all kinds of nodes, and pods that ask for all kinds of things: the same for the same
seed. All pods have the same priority, so none is evicted."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from tests.cluster.harness.client import Object
from tests.cluster.harness.manifests import mounted, node, pod, taint

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("z1", "z2", "z3", "z4")
APPS = ("web", "api", "db", "cache", "batch", "logs")
IGNORED = "IgnoredDuringExecution"


def nodes(count: int) -> Iterator[Object]:
    """Nodes of four sizes in four zones, some with taints, fast disks, images or little room for
    pods."""
    for number in range(count):
        labels = {ZONE: ZONES[number % 4], "disk": "ssd" if number % 5 < 2 else "hdd"}
        if number % 7 == 0:
            labels["generation"] = str(number % 3)
        taints = []
        if number % 10 == 3:
            taints.append(taint("reserved", "db"))
        if number % 10 == 6:
            taints.append(taint("old", effect="PreferNoSchedule"))
        cpu, memory = (("2", "6Gi"), ("4", "8Gi"), ("8", "16Gi"), ("16", "48Gi"))[number // 3 % 4]
        pods = 5 if number % 9 == 4 else 110
        made = node(f"n{number:03}", cpu, memory, pods, labels, taints)
        if number % 6 == 1:
            big = {"names": ["registry.example/big:1"], "sizeBytes": 900_000_000}
            made["status"]["images"] = [big]
        yield made


def pods(count: int, seed: int) -> Iterator[Object]:
    """Pods, most of which fit somewhere."""
    random = Random(seed)
    for number in range(count):
        wish = random.choice(WISHES)
        app = random.choice(APPS)
        cpu = f"{random.choice((50, 100, 250, 400, 700, 1100, 1900, 2600))}m"
        memory = f"{random.choice((64, 150, 333, 700, 1300, 2500))}Mi"
        made = pod(f"p{number:03}", cpu, memory, labels={"app": app}, **wish(random, app))
        if random.random() < 0.15:
            made["spec"]["containers"][0]["image"] = "registry.example/big:1"
        if random.random() < 0.1:
            port = {"containerPort": 80, "hostPort": random.choice((80, 443))}
            made["spec"]["containers"][0]["ports"] = [port]
        if random.random() < 0.15:
            made["spec"]["tolerations"] = [{"key": "reserved", "operator": "Exists"}]
        yield made


def services() -> Iterator[Object]:
    """Services of some apps: their pods are spread by default."""
    for app in APPS[:2]:
        spec = {"selector": {"app": app}, "ports": [{"port": 80}]}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": {"name": app}, "spec": spec}


Wish = Callable[[Random, str], dict[str, Any]]


def _anything(random: Random, app: str) -> dict[str, Any]:
    return {}


def _selector(random: Random, app: str) -> dict[str, Any]:
    chosen: list[dict[str, str]] = [
        {"disk": "ssd"}, {"disk": "hdd"}, {ZONE: random.choice(ZONES)}, {"disk": "tape"},
        {"disk": "ssd", ZONE: random.choice(ZONES)},
    ]  # fmt: skip
    return {"nodeSelector": random.choice(chosen)}


def _node_required(random: Random, app: str) -> dict[str, Any]:
    expressions: list[Object] = [
        {"key": ZONE, "operator": "In", "values": random.sample(ZONES, 2)},
        {"key": "disk", "operator": "NotIn", "values": ["ssd"]},
        {"key": "generation", "operator": "Exists"},
        {"key": "generation", "operator": "DoesNotExist"},
        {"key": "generation", "operator": "Gt", "values": ["0"]},
    ]
    terms = [{"matchExpressions": random.sample(expressions, size)} for size in (1, 2)]
    return _affinity(
        "nodeAffinity", f"requiredDuringScheduling{IGNORED}", {"nodeSelectorTerms": terms}
    )


def _node_preferred(random: Random, app: str) -> dict[str, Any]:
    terms = [
        {
            "weight": random.choice((1, 20, 100)),
            "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
        }
        for key, value in (("disk", "ssd"), (ZONE, random.choice(ZONES)))
    ]
    return _affinity("nodeAffinity", f"preferredDuringScheduling{IGNORED}", terms)


def _pod_required(random: Random, app: str) -> dict[str, Any]:
    kind, key, other = random.choice(
        [
            ("podAffinity", ZONE, app),
            ("podAffinity", ZONE, random.choice(APPS)),
            ("podAffinity", HOST, random.choice(APPS)),
            ("podAntiAffinity", HOST, app),
            ("podAntiAffinity", HOST, random.choice(APPS)),
        ]
    )
    return _affinity(kind, f"requiredDuringScheduling{IGNORED}", [_term(key, other)])


def _pod_preferred(random: Random, app: str) -> dict[str, Any]:
    terms = [
        {"weight": random.choice((1, 30, 100)), "podAffinityTerm": _term(key, random.choice(APPS))}
        for key in random.sample((ZONE, HOST, "disk"), 2)
    ]
    kind = random.choice(("podAffinity", "podAntiAffinity"))
    return _affinity(kind, f"preferredDuringScheduling{IGNORED}", terms)


def _spread(random: Random, app: str) -> dict[str, Any]:
    constraints = [
        {
            "maxSkew": random.choice((1, 2, 5)),
            "topologyKey": key,
            "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": {"matchLabels": {"app": app}},
            "nodeTaintsPolicy": random.choice(("Honor", "Ignore")),
        }
        for key in random.sample((ZONE, HOST), random.choice((1, 2)))
    ]
    return {"topologySpreadConstraints": constraints}


def _hard(random: Random, app: str) -> dict[str, Any]:
    """Constraints that hardly any node satisfies."""
    when, missing = f"requiredDuringScheduling{IGNORED}", _term(ZONE, "nobody")
    hard: list[dict[str, Any]] = [
        {"nodeSelector": {"disk": random.choice(("tape", "drum"))}},
        {"nodeSelector": {"disk": "ssd", "generation": "1", ZONE: "z2"}},
        {"nodeSelector": {HOST: f"n{random.randrange(100):03}"}},
        {"volumes": mounted(f"lost-{app}")},
        _affinity("podAntiAffinity", when, [_term(ZONE, app)]),
        _affinity("podAffinity", when, [missing]),
        _affinity("podAffinity", when, [_term("rack", app)]),
        {**_spread(random, app), "nodeSelector": {"disk": "ssd", "generation": "2"}},
    ]
    return random.choice(hard)


WISHES: tuple[Wish, ...] = (
    _anything, _anything, _selector, _node_required, _node_preferred, _pod_required,
    _pod_preferred, _spread, _hard,
)  # fmt: skip


def _affinity(kind: str, when: str, terms: object) -> dict[str, Any]:
    return {"affinity": {kind: {when: terms}}}


def _term(key: str, app: str) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
