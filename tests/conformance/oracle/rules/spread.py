"""PodTopologySpread: its constraints, and those that a pod without any gets."""

import random
from typing import Any

from tests.conformance.oracle.clusters import HOSTNAME, ZONE, Obj
from tests.conformance.oracle.kinds import owned_by, owner, service
from tests.conformance.oracle.pods import PREFERRED, REQUIRED
from tests.conformance.oracle.profiles import document
from tests.conformance.oracle.rules.vocabulary import (
    Kind,
    matching,
    node,
    placed,
    pod,
    terminating,
    where,
    zoned,
)

A = matching(app="a")
SOFT = "ScheduleAnyway"


def spread(key: str = ZONE, skew: int = 1, selector: Obj | None = A, **more: Any) -> Obj:
    """A constraint: hard unless ``when`` says otherwise."""
    made: Obj = {
        "maxSkew": skew,
        "topologyKey": key,
        "whenUnsatisfiable": more.pop("when", "DoNotSchedule"),
        **more,
    }
    return made if selector is None else {**made, "labelSelector": selector}


def _spreads(*constraints: Obj, labels: dict[str, str] | None = None, **spec: Any) -> Obj:
    return pod(labels, topologySpreadConstraints=list(constraints), **spec)


def _on(*zones: str) -> Obj:
    required = {"nodeSelectorTerms": [where(ZONE, "In", *zones)]}
    return {"nodeAffinity": {REQUIRED: required}}


def _cluster(r: random.Random) -> list[Obj]:
    nodes = zoned(r, r.choice([3, 5, 8, 12]))
    nodes.append(node("same-host", {HOSTNAME: "n0", ZONE: "zone-b"}))
    for each in r.sample(nodes, len(nodes) // 3):
        effect = r.choice(["NoSchedule", "NoExecute", "PreferNoSchedule"])
        each["spec"]["taints"] = [{"key": "dedicated", "value": "ml", "effect": effect}]
    names = [each["metadata"]["name"] for each in nodes]
    made = list(nodes)
    for index in range(r.randint(2, 20)):
        labels = {"app": r.choice("aab")}
        if r.random() < 0.4:
            labels["version"] = r.choice(["1", "2"])
        each = placed(
            f"e{index}", r.choice(names), pod(labels, r.choice(["default"] * 4 + ["other"]))
        )
        made.append(terminating(each) if r.random() < 0.15 else each)
    return made


_TOLERANT = [{"key": "dedicated", "operator": "Exists"}]
_HARD = {
    "zones": lambda r: _spreads(spread()),
    "skew": lambda r: _spreads(spread(skew=r.randint(2, 4))),
    "hosts": lambda r: _spreads(spread(HOSTNAME)),
    "two-keys": lambda r: _spreads(spread(), spread(HOSTNAME, 2)),
    "hard-and-soft": lambda r: _spreads(spread(skew=2), spread(HOSTNAME, when=SOFT)),
    "not-one-of-them": lambda r: _spreads(spread(), labels={"app": "z"}),
    "no-selector": lambda r: _spreads(spread(selector=None)),
    "empty-selector": lambda r: _spreads(spread(selector={})),
    "key-nobody-has": lambda r: _spreads(spread("nowhere")),
    "one-key-nobody-has": lambda r: _spreads(spread(), spread("nowhere")),
    "key-some-lack": lambda r: _spreads(spread("disk")),
    "domains-enough": lambda r: _spreads(spread(minDomains=1)),
    "domains-missing": lambda r: _spreads(spread(minDomains=9)),
    "domains-about": lambda r: _spreads(spread(minDomains=3, skew=2)),
    "domains-of-hosts": lambda r: _spreads(spread(HOSTNAME, minDomains=r.choice([2, 20]))),
    "in-another-namespace": lambda r: _spreads(spread(), namespace="other"),
    "label-keys": lambda r: _spreads(
        spread(matchLabelKeys=["version"]), labels={"app": "a", "version": "2"}
    ),
    "label-keys-it-lacks": lambda r: _spreads(spread(matchLabelKeys=["version", "none"])),
    "label-keys-no-selector": lambda r: _spreads(
        spread(selector=None, matchLabelKeys=["version"]), labels={"version": "1"}
    ),
    "affinity-honored": lambda r: _spreads(spread(), affinity=_on("zone-a", "zone-b")),
    "affinity-ignored": lambda r: _spreads(
        spread(nodeAffinityPolicy="Ignore"), affinity=_on("zone-a", "zone-b")
    ),
    "affinity-to-nowhere": lambda r: _spreads(
        spread(), spread(HOSTNAME, nodeAffinityPolicy="Ignore"), affinity=_on("zone-z")
    ),
    "affinity-to-nowhere-domains": lambda r: _spreads(spread(minDomains=2), affinity=_on("zone-z")),
    "selector-honored": lambda r: _spreads(spread(HOSTNAME), nodeSelector={"disk": "ssd"}),
    "selector-ignored": lambda r: _spreads(
        spread(HOSTNAME, nodeAffinityPolicy="Ignore"), nodeSelector={"disk": "ssd"}
    ),
    "taints-honored": lambda r: _spreads(spread(HOSTNAME, nodeTaintsPolicy="Honor")),
    "taints-tolerated": lambda r: _spreads(
        spread(HOSTNAME, nodeTaintsPolicy="Honor"), tolerations=_TOLERANT
    ),
    "taints-ignored": lambda r: _spreads(spread(HOSTNAME, nodeTaintsPolicy="Ignore")),
    "each-its-own-policy": lambda r: _spreads(
        spread(nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"),
        spread("disk", 2, nodeAffinityPolicy="Honor", nodeTaintsPolicy="Ignore"),
        affinity=_on("zone-a", "zone-c"),
    ),
}


def _soft(*constraints: Obj, **spec: Any) -> Obj:
    return _spreads(*({**each, "whenUnsatisfiable": SOFT} for each in constraints), **spec)


_SOFT = {
    "zones": lambda r: _soft(spread()),
    "hosts": lambda r: _soft(spread(HOSTNAME)),
    "skew": lambda r: _soft(spread(skew=3), spread(HOSTNAME, 2)),
    "key-some-lack": lambda r: _soft(spread("disk"), spread()),
    "key-nobody-has": lambda r: _soft(spread("nowhere")),
    "no-selector": lambda r: _soft(spread(selector=None)),
    "empty-selector": lambda r: _soft(spread(selector={})),
    "hard-as-well": lambda r: _spreads(spread(skew=5), spread("disk", when=SOFT)),
    "label-keys": lambda r: _soft(
        spread(matchLabelKeys=["version"]), labels={"app": "a", "version": "1"}
    ),
    "affinity-ignored": lambda r: _soft(
        spread(nodeAffinityPolicy="Ignore"), affinity=_on("zone-a", "zone-b")
    ),
    "affinity-honored": lambda r: _soft(spread(), affinity=_on("zone-a", "zone-b")),
    "taints-honored": lambda r: _soft(spread(nodeTaintsPolicy="Honor")),
    "taints-tolerated": lambda r: _soft(spread(nodeTaintsPolicy="Honor"), tolerations=_TOLERANT),
    "in-another-namespace": lambda r: _soft(spread(), namespace="other"),
    "nobody-matches": lambda r: _soft(spread(selector=matching(app="nobody"))),
}


def _owners(r: random.Random) -> list[Obj]:
    return [
        *_cluster(r),
        service("of-a", {"app": "a"}),
        service("of-a-and-version", {"app": "a", "version": "2"}),
        service("of-nobody", None),
        service("of-everybody-else", {}, "third"),
        service("elsewhere", {"app": "b"}, "other"),
        owner("ReplicaSet", "rs", matching(app="b")),
        owner("ReplicaSet", "rs-versions", where("version", "Exists")),
        owner("ReplicaSet", "rs-malformed", where("app", "In")),
        owner("StatefulSet", "sts", matching(app="b")),
        owner("ReplicationController", "rc", {"app": "b"}, "v1"),
    ]


def _of(app: str, *references: Obj, **labels: str) -> Obj:
    return pod({"app": app, **labels}, metadata={"ownerReferences": list(references)})


_DEFAULTS = {
    "service": lambda r: pod({"app": "a"}),
    "two-services": lambda r: pod({"app": "a", "version": "2"}),
    "service-elsewhere": lambda r: pod({"app": "b"}),
    "in-other-namespace": lambda r: pod({"app": "b"}, "other"),
    "service-of-all": lambda r: pod({"app": "q"}, "third"),
    "replica-set": lambda r: _of("b", owned_by("ReplicaSet", "rs")),
    "replica-set-expression": lambda r: _of("b", owned_by("ReplicaSet", "rs-versions")),
    "replica-set-and-service": lambda r: _of(
        "a", owned_by("ReplicaSet", "rs-versions"), version="2"
    ),
    "replica-set-missing": lambda r: _of("b", owned_by("ReplicaSet", "gone")),
    "replica-set-of-extensions": lambda r: _of(
        "b", owned_by("ReplicaSet", "rs", "extensions/v1beta1")
    ),
    "not-its-controller": lambda r: _of("b", owned_by("ReplicaSet", "rs", controller=False)),
    "second-reference": lambda r: _of(
        "b",
        owned_by("ReplicaSet", "rs-versions", controller=False),
        owned_by("StatefulSet", "sts"),
    ),
    "stateful-set": lambda r: _of("b", owned_by("StatefulSet", "sts")),
    "replication-controller": lambda r: _of("b", owned_by("ReplicationController", "rc", "v1")),
    "job": lambda r: _of("b", owned_by("Job", "job", "batch/v1")),
    "strange-version": lambda r: _of("b", owned_by("ReplicaSet", "rs", "a/b/c")),
    "has-its-own": lambda r: _spreads(spread(HOSTNAME, when=SOFT)),
    "has-a-hard-one": lambda r: _spreads(spread(HOSTNAME, 3)),
}


def _prefers_malformed() -> Obj:
    return {"nodeAffinity": {PREFERRED: [{"weight": 7, "preference": where(ZONE, "In")}]}}


# The API server refuses most of these.
_MALFORMED = {
    "hard": lambda r: _spreads(spread(selector=where("app", "In"))),
    "soft": lambda r: _soft(spread(selector=where("app", "Exists", "x"))),
    "hard-operator": lambda r: _spreads(spread(selector=where("app", "Near", "x"))),
    "soft-key": lambda r: _soft(spread(selector=where("bad key", "Exists"))),
    "replica-set": lambda r: _of("a", owned_by("ReplicaSet", "rs-malformed")),
    "preferred-label": lambda r: pod(affinity=_prefers_malformed()),
}


def _list(constraints: str) -> str:
    return document(
        arguments="  - name: PodTopologySpread\n    args: {defaultingType: List, "
        f"defaultConstraints: [{constraints}]}}\n"
    )


_LISTS = (
    "",
    _list(
        "{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}"
    ),
    _list(
        "{maxSkew: 2, topologyKey: disk, whenUnsatisfiable: ScheduleAnyway},"
        " {maxSkew: 2, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}"
    ),
    _list(""),
    document(arguments="  - name: PodTopologySpread\n    args: {defaultingType: System}\n"),
)

# Nodes that do not count for a pod are refused by other plugins as a rule.
_NO_NODE_FILTERS = document(
    "    filter:\n      disabled: [{name: NodeAffinity}, {name: TaintToleration}]\n"
)

KINDS = [
    Kind("spread-hard", _cluster, _HARD, ("", "", _NO_NODE_FILTERS)),
    Kind("spread-soft", _cluster, _SOFT),
    Kind("spread-defaults", _owners, _DEFAULTS, _LISTS),
    Kind("malformed", _owners, _MALFORMED),
]
