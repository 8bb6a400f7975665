"""Kubernetes API objects (parsed JSON or YAML) as the domain's nodes and pods. Pure.

Only what scheduling reads is kept; fields that this version does not know are ignored. Where a
manifest was never seen by an API server, ``defaults`` applies that server's defaulting
(pkg/apis/core/v1/defaults.go) to what scheduling reads.

``where`` says file and object (``pods.yaml: Pod default/a``) and begins every InputError.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from typing import Any
from uuid import UUID

from eventsched.cluster.fields import Field
from eventsched.domain import requests
from eventsched.domain.objects import (
    CPU,
    MEMORY,
    Container,
    HostPort,
    Image,
    Node,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodSpec,
    PreferredTerm,
    Requirement,
    Resources,
    Taint,
    Toleration,
)

DROPPED_ANNOTATIONS = frozenset(
    {
        # The whole manifest, with env, args and commands in it, which a log must never hold.
        "kubectl.kubernetes.io/last-applied-configuration",
        # Written by networks and node agents, large or often, and no part of any decision.
        "k8s.v1.cni.cncf.io/network-status",
        "k8s.v1.cni.cncf.io/networks-status",
        "cni.projectcalico.org/containerID",
        "cni.projectcalico.org/podIP",
        "cni.projectcalico.org/podIPs",
        "node.alpha.kubernetes.io/ttl",
    }
)
"""Annotations that are not kept: large, noisy or unfit to be stored."""

_PODS_WITHOUT_UID = UUID("5c6e8c2e-3f5b-5d0a-9a57-6f1f3f0f7d11")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_TOLERATION_EFFECTS = ("", *_TAINT_EFFECTS)
_TOLERATION_OPERATORS = ("", "Exists", "Equal", "Lt", "Gt")
_SELECTOR_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_INT32 = 2**31


def pod_uid(namespace: str, name: str) -> str:
    """The uid of a pod that was given none, or no UUID: a version 5 UUID of namespace and name."""
    # uuid.uuid5 written out: a third of its time, which counts in loads of 100,000 pods.
    text = _PODS_WITHOUT_UID.bytes + f"{namespace}/{name}".encode()
    digest = bytearray(sha1(text, usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    found = digest.hex()
    return f"{found[:8]}-{found[8:12]}-{found[12:16]}-{found[16:20]}-{found[20:]}"


def _uid(given: str, namespace: str, name: str) -> str:
    """The pod's uid where that is a UUID; the log's columns hold nothing else (design 9.18)."""
    try:
        return str(UUID(given))
    except ValueError:
        return pod_uid(namespace, name)


def node(obj: Mapping[str, Any], where: str) -> Node:
    """The node that a core/v1 Node object describes.

    Allocatable falls back to capacity where status has none (upstream: SetDefaults_NodeStatus); a
    missing ``pods`` stays missing. Raises InputError naming ``where``, the field and what to do.
    """
    root = Field(dict(obj), where)
    meta, spec, status = root.get("metadata"), root.get("spec"), root.get("status")
    allocatable = status.get("allocatable")
    if allocatable.value is None:
        allocatable = status.get("capacity")
    return Node(
        name=meta.get("name").needed_text(),
        uid=meta.get("uid").text(),
        labels=meta.get("labels").text_map(),
        annotations=_annotations(meta),
        taints=tuple(
            Taint(
                key=taint.get("key").needed_text(),
                value=taint.get("value").text(),
                effect=taint.get("effect").one_of(_TAINT_EFFECTS),
            )
            for taint in spec.get("taints").items()
        ),
        unschedulable=spec.get("unschedulable").flag(),
        allocatable=allocatable.resources(),
        images=tuple(
            Image(
                names=image.get("names").texts(),
                size=image.get("sizeBytes").integer(0, 2**63 - 1),
            )
            for image in status.get("images").items()
        ),
    )


def pod(obj: Mapping[str, Any], where: str, *, defaults: bool) -> Pod:
    """The pod that a core/v1 Pod object describes.

    With ``defaults`` requests take the limits where only those are set, and ports of pods on the
    host's network become host ports, as an API server does on admission; objects that come from an
    API server have that behind them. Raises InputError naming ``where``, the field and what to do.
    """
    root = Field(dict(obj), where)
    meta, spec = root.get("metadata"), root.get("spec")
    name = meta.get("name").needed_text()
    namespace = meta.get("namespace").text() or "default"
    return Pod(
        uid=_uid(meta.get("uid").text(), namespace, name),
        name=name,
        namespace=namespace,
        labels=meta.get("labels").text_map(),
        annotations=_annotations(meta),
        owner=_owner(meta),
        priority=spec.get("priority").integer(-_INT32, _INT32 - 1),
        scheduler_name=spec.get("schedulerName").text() or "default-scheduler",
        node_name=spec.get("nodeName").text(),
        gates=tuple(gate.get("name").needed_text() for gate in spec.get("schedulingGates").items()),
        deleting=meta.get("deletionTimestamp").value is not None,
        created_at=_instant(meta.get("creationTimestamp")),
        spec=_pod_spec(spec, defaults=defaults),
    )


def unjudged(obj: Mapping[str, Any]) -> list[str]:
    """Names of the scheduling constraints in a Pod object that this version does not judge yet, so
    that the caller can warn. Malformed parts count as absent."""
    spec = _mapping(_mapping(obj).get("spec"))
    affinity = _mapping(spec.get("affinity"))
    volumes = spec.get("volumes")
    sources = {
        source
        for volume in (volumes if isinstance(volumes, list) else [])
        for source, value in _mapping(volume).items()
        if value is not None
    }
    used = {
        "podAffinity": affinity.get("podAffinity"),
        "podAntiAffinity": affinity.get("podAntiAffinity"),
        "topologySpreadConstraints": spec.get("topologySpreadConstraints"),
        "persistentVolumeClaim volumes": "persistentVolumeClaim" in sources,
        "ephemeral volumes": "ephemeral" in sources,
        "resourceClaims": spec.get("resourceClaims"),
    }
    return [name for name, value in used.items() if value]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _annotations(meta: Field) -> dict[str, str]:
    found = meta.get("annotations").text_map()
    return {name: value for name, value in found.items() if name not in DROPPED_ANNOTATIONS}


def _owner(meta: Field) -> Owner | None:
    for reference in meta.get("ownerReferences").items():
        if reference.get("controller").flag():
            return Owner(
                kind=reference.get("kind").needed_text(),
                name=reference.get("name").needed_text(),
                uid=reference.get("uid").text(),
            )
    return None


def _instant(field: Field) -> int:
    """Microseconds since 1970 of an RFC 3339 time; 0 where it is missing."""
    written = field.text()
    if not written:
        return 0
    try:
        moment = datetime.fromisoformat(written)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise field.wrong(
            f"{written!r} is not an RFC 3339 time", "write it as in 2026-01-31T12:00:00Z"
        )
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _pod_spec(spec: Field, *, defaults: bool) -> PodSpec:
    on_host = defaults and spec.get("hostNetwork").flag()
    containers, init_containers = (
        tuple(
            _container(each, init=init, defaults=defaults, on_host=on_host)
            for each in spec.get(name).items()
        )
        for name, init in (("containers", False), ("initContainers", True))
    )
    affinity = spec.get("affinity").get("nodeAffinity")
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.get("preferredDuringSchedulingIgnoredDuringExecution")
    return PodSpec(
        containers=containers,
        init_containers=init_containers,
        overhead=spec.get("overhead").resources(),
        requests=_pod_level(
            spec.get("resources"),
            PodSpec(containers=containers, init_containers=init_containers),
            defaults=defaults,
        ),
        node_selector=spec.get("nodeSelector").text_map(),
        required_node_terms=None
        if required.value is None
        else tuple(_term(term) for term in required.get("nodeSelectorTerms").items()),
        preferred_node_terms=tuple(
            PreferredTerm(
                weight=each.get("weight").integer(1, 100), term=_term(each.get("preference"))
            )
            for each in preferred.items()
        ),
        tolerations=tuple(_toleration(each) for each in spec.get("tolerations").items()),
        image_volumes=tuple(
            volume.get("image").get("reference").text()
            for volume in spec.get("volumes").items()
            if volume.get("image").value is not None
        ),
    )


def _container(container: Field, *, init: bool, defaults: bool, on_host: bool) -> Container:
    resources = container.get("resources")
    wanted = resources.get("requests").resources()
    if defaults:
        # SetDefaults_Pod: a request that is missing takes its limit.
        wanted = resources.get("limits").resources() | wanted
    ports = (_host_port(port, on_host=on_host) for port in container.get("ports").items())
    return Container(
        image=container.get("image").text(),
        requests=wanted,
        ports=tuple(port for port in ports if port.port > 0),
        restarts=init and container.get("restartPolicy").text() == "Always",
    )


def _host_port(port: Field, *, on_host: bool) -> HostPort:
    number = port.get("hostPort").integer(0, 65535)
    if on_host and number == 0:
        # defaultHostNetworkPorts: on the host's network every port is the host's.
        number = port.get("containerPort").integer(0, 65535)
    return HostPort(
        port=number,
        protocol=port.get("protocol").one_of(_PROTOCOLS, "TCP"),
        ip=port.get("hostIP").text() or "0.0.0.0",
    )


def _pod_level(resources: Field, containers: PodSpec, *, defaults: bool) -> Resources | None:
    """The pod's own requests. With ``defaults`` and a pod-level limit they are completed from what
    the containers ask for together, then from the limit (upstream: defaultPodRequests)."""
    wanted = resources.get("requests").resources()
    limits = resources.get("limits").resources() if defaults else {}
    if limits:
        # Upstream completes hugepages too, with the containers' sum: the same as leaving them out.
        together = requests.of(containers).effective
        for name in (CPU, MEMORY):
            if name in together:
                wanted.setdefault(name, together[name])
        for name, limit in limits.items():
            if name in (CPU, MEMORY) or name.startswith("hugepages-"):
                wanted.setdefault(name, limit)
    return wanted or None


def _term(term: Field) -> NodeSelectorTerm:
    return NodeSelectorTerm(
        expressions=_requirements(term.get("matchExpressions")),
        fields=_requirements(term.get("matchFields")),
    )


def _requirements(field: Field) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            key=each.get("key").needed_text(),
            operator=each.get("operator").one_of(_SELECTOR_OPERATORS),
            values=each.get("values").texts(),
        )
        for each in field.items()
    )


def _toleration(field: Field) -> Toleration:
    return Toleration(
        key=field.get("key").text(),
        operator=field.get("operator").one_of(_TOLERATION_OPERATORS),
        value=field.get("value").text(),
        effect=field.get("effect").one_of(_TOLERATION_EFFECTS),
    )
