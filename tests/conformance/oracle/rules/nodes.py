"""Taints, node affinity, ports, images and declared features."""

import random
from typing import Any

from tests.conformance.oracle.clusters import HOSTNAME, ZONE, Obj
from tests.conformance.oracle.pods import PREFERRED, REQUIRED
from tests.conformance.oracle.profiles import document
from tests.conformance.oracle.rules.vocabulary import (
    Kind,
    container,
    expression,
    node,
    placed,
    pod,
    where,
)

# Taints


def _taint(key: str, effect: str, value: str = "") -> Obj:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def _tainted(r: random.Random) -> list[Obj]:
    taints = [
        [],
        [_taint("k", "NoSchedule", "v")],
        [_taint("k", "NoExecute", "v")],
        [_taint("k", "PreferNoSchedule", "v")],
        [_taint("k", "PreferNoSchedule"), _taint("k2", "PreferNoSchedule", "9")],
        [_taint("level", "NoSchedule", "5")],
        [_taint("level", "NoSchedule", "high"), _taint("k", "NoSchedule", "w")],
        [_taint("node.kubernetes.io/unschedulable", "NoSchedule")],
        [_taint("level", "PreferNoSchedule", "5"), _taint("k", "NoExecute", "w")],
    ]
    made = []
    for index, each in enumerate(r.sample(taints, len(taints))):
        spec: Obj = {"taints": each} if each else {}
        if r.random() < 0.2:
            spec["unschedulable"] = True
        made.append(node(f"n{index}", spec=spec))
    return made


def _tolerates(*tolerations: Obj) -> Obj:
    return pod(tolerations=list(tolerations))


_TOLERATIONS = {
    "nothing": lambda r: pod(),
    "equal": lambda r: _tolerates({"key": "k", "operator": "Equal", "value": "v"}),
    "equal-by-default": lambda r: _tolerates({"key": "k", "value": "w"}),
    "equal-nothing": lambda r: _tolerates({"key": "k", "value": ""}),
    "equal-effect": lambda r: _tolerates({"key": "k", "value": "v", "effect": "NoExecute"}),
    "equal-no-key": lambda r: _tolerates({"operator": "Equal", "value": "v"}),
    "exists": lambda r: _tolerates({"key": "k", "operator": "Exists"}),
    "exists-with-value": lambda r: _tolerates({"key": "k", "operator": "Exists", "value": "w"}),
    "exists-effect": lambda r: _tolerates({"operator": "Exists", "effect": "NoSchedule"}),
    "exists-prefer": lambda r: _tolerates({"operator": "Exists", "effect": "PreferNoSchedule"}),
    "exists-all": lambda r: _tolerates({"operator": "Exists"}),
    "greater": lambda r: _tolerates({"key": "level", "operator": "Gt", "value": "3"}),
    "less": lambda r: _tolerates({"key": "level", "operator": "Lt", "value": "9"}),
    "unschedulable": lambda r: _tolerates(
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    ),
    "unschedulable-no-execute": lambda r: _tolerates(
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoExecute"}
    ),
    "two": lambda r: _tolerates(
        {"key": "k", "operator": "Exists"}, {"key": "level", "value": "high"}
    ),
    "for-some-time": lambda r: _tolerates(
        {"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    ),
}


# Node affinity


def _labelled(r: random.Random) -> list[Obj]:
    gens: list[str | None] = ["1", "5", "-3", "09", "x", "", "9223372036854775807",
                              "9223372036854775808", "5.5", None]  # fmt: skip
    return [
        node(f"n{index}", {"gen": gen, "disk": r.choice(["ssd", "hdd", None])})
        for index, gen in enumerate(r.sample(gens, len(gens)))
    ]


def _needs(*terms: Obj, **spec: Any) -> Obj:
    required = {REQUIRED: {"nodeSelectorTerms": list(terms)}}
    return pod(affinity={"nodeAffinity": required}, **spec)


def _fields(operator: str, *names: str) -> Obj:
    return {"matchFields": [expression("metadata.name", operator, *names)]}


def _prefers(*terms: tuple[int, Obj]) -> Obj:
    made = [{"weight": weight, "preference": each} for weight, each in terms]
    return pod(affinity={"nodeAffinity": {PREFERRED: made}})


_AFFINITIES = {
    "greater": lambda r: _needs(where("gen", "Gt", r.choice(["0", "4", "-4"]))),
    "less": lambda r: _needs(where("gen", "Lt", r.choice(["5", "9223372036854775807"]))),
    "greater-than-text": lambda r: _needs(where("gen", "Gt", "x")),
    "greater-than-two": lambda r: _needs(where("gen", "Gt", "1", "2")),
    "greater-than-too-much": lambda r: _needs(where("gen", "Gt", "9223372036854775808")),
    "in-nothing": lambda r: _needs(where("gen", "In")),
    "not-in": lambda r: _needs(where("gen", "NotIn", "1", "x")),
    "exists": lambda r: _needs(where("gen", "Exists")),
    "exists-with-value": lambda r: _needs(where("gen", "Exists", "1")),
    "does-not-exist": lambda r: _needs(where("gen", "DoesNotExist")),
    "in-empty-text": lambda r: _needs(where("gen", "In", "")),
    "one-of-two-terms": lambda r: _needs(where("gen", "In", "1"), where("disk", "In", "ssd")),
    "malformed-and-good": lambda r: _needs(where("gen", "In"), where("disk", "In", "ssd")),
    "both-expressions": lambda r: _needs(
        {"matchExpressions": [expression("gen", "Exists"), expression("disk", "In", "ssd")]}
    ),
    "empty-term": lambda r: _needs({}),
    "empty-term-and-good": lambda r: _needs({}, where("disk", "In", "hdd")),
    "no-terms": lambda r: _needs(),
    "fields-in": lambda r: _needs(_fields("In", "n1", "n3")),
    "fields-in-gone": lambda r: _needs(_fields("In", "gone")),
    "fields-in-some-gone": lambda r: _needs(_fields("In", "gone", "n2")),
    "fields-not-in": lambda r: _needs(_fields("NotIn", "n1", "n3")),
    "fields-exists": lambda r: _needs(_fields("Exists")),
    "fields-two-names": lambda r: _needs({"matchFields": [
        expression("metadata.name", "In", "n1", "n2"),
        expression("metadata.name", "In", "n2", "n3")]}),
    "fields-conflict": lambda r: _needs({"matchFields": [
        expression("metadata.name", "In", "n1"), expression("metadata.name", "In", "n2")]}),
    "fields-conflict-and-good": lambda r: _needs(
        {"matchFields": [expression("metadata.name", "In", "n1"),
                         expression("metadata.name", "In", "n2")]},
        _fields("In", "n4")),
    "fields-and-expressions": lambda r: _needs(
        {**_fields("In", "n1", "n2", "n3"), **where("disk", "In", "ssd")}),
    "fields-or-expressions": lambda r: _needs(_fields("In", "n1"), where("disk", "In", "ssd")),
    "fields-two-terms": lambda r: _needs(_fields("In", "n1"), _fields("In", "n2", "gone")),
    "fields-of-another-name": lambda r: _needs(
        {"matchFields": [expression("metadata.namespace", "In", "n1")]}),
    "selector": lambda r: pod(nodeSelector={"disk": "ssd"}),
    "selector-empty": lambda r: pod(nodeSelector={}),
    "selector-empty-value": lambda r: pod(nodeSelector={"gen": ""}),
    "selector-two": lambda r: pod(nodeSelector={"disk": "ssd", ZONE: "zone-a"}),
    "selector-malformed": lambda r: pod(nodeSelector={"disk": "not a label"}),
    "selector-and-fields": lambda r: _needs(
        _fields("In", "n1", "n2"), nodeSelector={"disk": "ssd"}),
    "prefers": lambda r: _prefers((10, where("disk", "In", "ssd")), (5, where("gen", "Exists"))),
    "prefers-fields": lambda r: _prefers((10, _fields("In", "n1")), (100, _fields("NotIn", "n2"))),
    "prefers-everything": lambda r: _prefers((10, {}), (3, where("disk", "Exists"))),
    "prefers-greater": lambda r: _prefers(
        (7, where("gen", "Gt", "2")), (1, where("gen", "Lt", "2"))),
}  # fmt: skip

_ENFORCED = """\
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]
"""
_ADDED = """\
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: NotIn, values: [n1]}]}]
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 30, preference: {matchExpressions: [{key: gen, operator: Gt, values: ['2']}]}}
"""


# Ports


def _port(number: int, host_ip: str | None = None, protocol: str | None = None) -> Obj:
    made: Obj = {"containerPort": 80, "hostPort": number}
    if host_ip is not None:
        made["hostIP"] = host_ip
    if protocol is not None:
        made["protocol"] = protocol
    return made


def _opens(*ports: Obj, **spec: Any) -> Obj:
    return pod(containers=[container(ports=list(ports))], **spec)


def _ported(r: random.Random) -> list[Obj]:
    made = [node(f"n{index}") for index in range(8)]
    residents = [
        _opens(_port(80)),
        _opens(_port(80, "127.0.0.1")),
        _opens(_port(80, "0.0.0.0"), _port(81)),
        _opens(_port(80, "", "UDP")),
        _opens(_port(80, "10.0.0.1"), _port(80, "10.0.0.2")),
        _opens(_port(80, "::1")),
        _beside(_port(80)),
        _before(_port(80)),
    ]
    for index, each in enumerate(r.sample(residents, len(residents))):
        made.append(placed(f"e{index}", f"n{index}", each))
    return made


def _beside(port: Obj) -> Obj:
    sidecar = {**container("s", ports=[port]), "restartPolicy": "Always"}
    return pod(initContainers=[sidecar])


def _before(port: Obj) -> Obj:
    return pod(initContainers=[container("i", ports=[port])])


_PORTS = {
    "any-address": lambda r: _opens(_port(80)),
    "any-address-in-words": lambda r: _opens(_port(80, "0.0.0.0")),
    "loopback": lambda r: _opens(_port(80, "127.0.0.1")),
    "another-address": lambda r: _opens(_port(80, "10.0.0.9")),
    "same-address": lambda r: _opens(_port(80, "10.0.0.2")),
    "address-of-six": lambda r: _opens(_port(80, "::1")),
    "any-address-of-six": lambda r: _opens(_port(80, "::")),
    "udp": lambda r: _opens(_port(80, None, "UDP")),
    "sctp": lambda r: _opens(_port(80, None, "SCTP")),
    "tcp-in-words": lambda r: _opens(_port(80, None, "TCP")),
    "another-port": lambda r: _opens(_port(82)),
    "second-of-two": lambda r: _opens(_port(82), _port(81)),
    "no-host-port": lambda r: _opens({"containerPort": 80}),
    "port-zero": lambda r: _opens(_port(0)),
    "sidecar": lambda r: _beside(_port(80)),
    "init": lambda r: _before(_port(80)),
    "host-network": lambda r: _opens(_port(80), hostNetwork=True),
    "twice": lambda r: _opens(_port(80, "10.0.0.7"), _port(80, "10.0.0.7")),
}


# Images


def _images(*images: tuple[list[str], int]) -> Obj:
    return {"images": [{"names": names, "sizeBytes": size << 20} for names, size in images]}


def _pulled(r: random.Random) -> list[Obj]:
    digest = "registry.example/app@sha256:" + "ab" * 32
    shelves = [
        _images((["registry.example/app:v1", digest], 700), (["tiny:latest"], 5)),
        _images((["registry.example/app:v1"], 650), (["registry:5000/db"], 900)),
        _images((["registry:5000/db:latest"], 2500), (["registry.example/app"], 300)),
        _images((["registry.example/app:latest", "registry.example/app:v1"], 400)),
        _images((["huge:v1"], 9000), (["huge:v2"], 1001)),
        _images(([digest], 800)),
        _images(([], 50), (["registry.example/app:v1"], 0)),
        {},
    ]
    return [
        node(f"n{index}", status=each) for index, each in enumerate(r.sample(shelves, len(shelves)))
    ]


def _of(*images: str, init: tuple[str, ...] = (), **spec: Any) -> Obj:
    made = [container(f"c{index}", image=image) for index, image in enumerate(images)]
    before = [container(f"i{index}", image=image) for index, image in enumerate(init)]
    if before:
        spec["initContainers"] = before
    return pod(containers=made, **spec)


_IMAGES = {
    "tag": lambda r: _of("registry.example/app:v1"),
    "no-tag": lambda r: _of("registry.example/app"),
    "latest": lambda r: _of("registry:5000/db:latest"),
    "port-no-tag": lambda r: _of("registry:5000/db"),
    "digest": lambda r: _of("registry.example/app@sha256:" + "ab" * 32),
    "small": lambda r: _of("tiny"),
    "huge": lambda r: _of("huge:v1"),
    "just-above": lambda r: _of("huge:v2"),
    "nobody-has-it": lambda r: _of("none:v9"),
    "two-images": lambda r: _of("registry.example/app:v1", "huge:v1"),
    "one-image-twice": lambda r: _of("registry.example/app:v1", "registry.example/app:v1"),
    "init": lambda r: _of("tiny", init=("huge:v1",)),
    "init-and-own": lambda r: _of("registry.example/app:v1", init=("registry:5000/db", "none")),
    "volume": lambda r: _of("tiny", volumes=[{"name": "v", "image": {"reference": "huge:v1"}}]),
    "volume-no-tag": lambda r: _of(
        "tiny", volumes=[{"name": "v", "image": {"reference": "registry:5000/db"}}]
    ),
    "no-image": lambda r: _of(""),
}


# Declared features, names and gates

RESTARTS = "RestartAllContainersOnContainerExits"
SPACES = "UserNamespacesHostNetworkSupport"


def _declaring(r: random.Random) -> list[Obj]:
    sets: list[list[str] | None] = [[RESTARTS], [RESTARTS, SPACES], [SPACES], [], None,
                                    [RESTARTS, "Something"]]  # fmt: skip
    return [
        node(f"n{index}", status={} if each is None else {"declaredFeatures": each})
        for index, each in enumerate(r.sample(sets, len(sets)))
    ]


_RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


def _restarts(action: str = "RestartAllContainers", **more: Any) -> Obj:
    return container(restartPolicyRules=[{**_RULE, "action": action}], **more)


_DECLARED = {
    "nothing": lambda r: pod(),
    "restarts-all": lambda r: pod(containers=[_restarts()]),
    "restarts-all-in-init": lambda r: pod(initContainers=[_restarts(name="i")]),
    "restarts-one": lambda r: pod(containers=[_restarts("Restart")]),
    "user-namespace": lambda r: pod(hostUsers=False),
    "host-network": lambda r: pod(hostNetwork=True),
    "user-namespace-on-host-network": lambda r: pod(hostUsers=False, hostNetwork=True),
    "host-users-on-host-network": lambda r: pod(hostUsers=True, hostNetwork=True),
    "both": lambda r: pod(containers=[_restarts()], hostUsers=False, hostNetwork=True),
    "gated": lambda r: pod(schedulingGates=[{"name": "example.com/wait"}]),
    "named": lambda r: pod(nodeName="n1"),
    "named-gone": lambda r: pod(nodeName="gone"),
    "named-by-label": lambda r: pod(nodeSelector={HOSTNAME: "n2"}, containers=[_restarts()]),
}

KINDS = [
    Kind("taint-operators", _tainted, _TOLERATIONS),
    Kind("node-affinity-edges", _labelled, _AFFINITIES,
         ("", "", document(arguments=_ENFORCED), document(arguments=_ADDED))),
    Kind("port-addresses", _ported, _PORTS),
    Kind("image-names", _pulled, _IMAGES),
    Kind("declared-features", _declaring, _DECLARED),
]  # fmt: skip
