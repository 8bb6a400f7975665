"""Pods that cost a scheduler more than others do, as manifests: a few to each case."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.cluster.harness.manifests import pod

NAMESPACE = "hostile"
_HOSTNAME = "kubernetes.io/hostname"

Manifest = dict[str, Any]


class Case(NamedTuple):
    """``make(scheduler)`` gives the pods. ``placed`` says that the innocent pods come when these
    are placed; ``patches`` (``status`` or ``labels``) what clients change of them meanwhile, one
    client a pod, as fast as they can."""

    name: str
    about: str
    make: Callable[[str], Iterator[Manifest]]
    placed: bool = False
    patches: str = ""


def _term(number: int, *, everywhere: bool = False) -> Manifest:
    """A pod affinity term; ``everywhere``: about pods of all namespaces."""
    term: Manifest = {
        "topologyKey": _HOSTNAME,
        "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
    }
    if everywhere:
        term["namespaceSelector"] = {}
        # No value that an index could find it by.
        wanted = {"key": f"key-{number}", "operator": "Exists"}
        term["labelSelector"] = {"matchExpressions": [wanted]}
    return term


def _weighted(number: int) -> Manifest:
    return {"weight": 1 + number % 100, "podAffinityTerm": _term(number)}


def _spread(scheduler: str) -> Iterator[Manifest]:
    yield pod(
        "spread",
        scheduler=scheduler,
        labels={"app": "spread"},
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": f"example.com/key-{number}",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": "spread"}},
            }
            for number in range(10_000)
        ],
    )


def _preferred(scheduler: str) -> Iterator[Manifest]:
    for number in range(20):
        first = 2_000 * number
        half = [_weighted(each) for each in range(first, first + 1_000)]
        rest = [_weighted(each) for each in range(first + 1_000, first + 2_000)]
        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        affinity = {"podAffinity": {preferred: half}, "podAntiAffinity": {preferred: rest}}
        yield pod(f"preferred-{number}", scheduler=scheduler, affinity=affinity)


def _node_terms(scheduler: str) -> Iterator[Manifest]:
    terms = [
        {
            "matchExpressions": [
                {"key": _HOSTNAME, "operator": "NotIn", "values": [f"v{number}-{value}"]}
                for value in range(10)
            ]
        }
        for number in range(600)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    yield pod("node-terms", scheduler=scheduler, affinity={"nodeAffinity": required})


def _anti(scheduler: str) -> Iterator[Manifest]:
    terms = [_term(number) for number in range(1_000)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    yield pod("anti", scheduler=scheduler, affinity={"podAntiAffinity": required})


def _anti_placed(scheduler: str) -> Iterator[Manifest]:
    """Within any budget, and placed: every later pod has to be compared with the terms."""
    for number in range(20):
        terms = [_term(50 * number + each, everywhere=True) for each in range(50)]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        yield pod(f"placed-{number}", scheduler=scheduler, affinity={"podAntiAffinity": required})


def _tolerations(scheduler: str) -> Iterator[Manifest]:
    tolerations = [
        {"key": f"key-{number}", "operator": "Equal", "value": "v", "effect": "NoSchedule"}
        for number in range(10_000)
    ]
    yield pod("tolerations", scheduler=scheduler, tolerations=tolerations)


def _values(scheduler: str) -> Iterator[Manifest]:
    values = [f"value-{number}" for number in range(50_000)]
    wanted = {"key": _HOSTNAME, "operator": "NotIn", "values": values}
    terms = [{"matchExpressions": [wanted]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    yield pod("values", scheduler=scheduler, affinity={"nodeAffinity": required})


def _claims(scheduler: str) -> Iterator[Manifest]:
    volumes = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"absent-{number}"}}
        for number in range(5_000)
    ]
    yield pod("claims", scheduler=scheduler, volumes=volumes)


def _ports(scheduler: str) -> Iterator[Manifest]:
    made = pod("ports", scheduler=scheduler)
    made["spec"]["containers"][0]["ports"] = [
        {"containerPort": number, "hostPort": number, "protocol": "TCP"}
        for number in range(10_000, 15_000)
    ]
    yield made


def _containers(scheduler: str) -> Iterator[Manifest]:
    made = pod("containers", scheduler=scheduler)
    made["spec"]["initContainers"] = [
        {"name": f"c{number}", "image": f"registry.example/image-{number}:1"}
        for number in range(5_000)
    ]
    yield made


def _patched(scheduler: str) -> Iterator[Manifest]:
    for number in range(64):
        # They cannot be scheduled, so only the patches change them.
        yield pod(f"patched-{number}", scheduler=scheduler, nodeSelector={"no": "node"})


CASES = (
    Case("spread", "a pod with 10,000 topology spread constraints", _spread),
    Case("preferred", "20 pods with 2,000 preferred (anti-)affinity terms each", _preferred),
    Case("node-terms", "a pod with 600 node affinity terms of 10 expressions", _node_terms),
    Case("anti", "a pod with 1,000 required anti-affinity terms", _anti),
    Case(
        "placed",
        "20 placed pods with 50 anti-affinity terms about all pods",
        _anti_placed,
        placed=True,
    ),
    Case("tolerations", "a pod with 10,000 tolerations", _tolerations),
    Case("values", "a pod with a node affinity expression of 50,000 values", _values),
    Case("claims", "a pod with 5,000 volume claims", _claims),
    Case("ports", "a pod with 5,000 host ports", _ports),
    Case("containers", "a pod with 5,000 init containers", _containers),
    Case("status", "64 clients that patch the status of 64 pods", _patched, patches="status"),
    Case("labels", "64 clients that patch labels of 64 pods", _patched, patches="labels"),
)
