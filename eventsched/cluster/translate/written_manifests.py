"""Writes the domain's nodes and pods as Kubernetes objects that ``manifest`` reads back as they
are. Pure.

Only what scheduling reads is written: no images of sidecar tools, no env, no commands. What the
API server filled in is there already, so reading with or without ``defaults`` gives the same.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from eventsched.cluster.translate.metadata import CONTROLLERS
from eventsched.cluster.translate.node_selectors import PREFERRED, REQUIRED
from eventsched.cluster.translate.volumes import DISKS
from eventsched.domain.objects import (
    CPU,
    MEMORY,
    AffinityTerm,
    Container,
    Node,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodSpec,
    PodVolume,
    Requirement,
    Resources,
    Selector,
    SpreadConstraint,
)

Written = dict[str, Any]
"""A Kubernetes object, or a part of one, as JSON."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNKNOWN_TIME = "1970-01-01T00:00:00Z"
"""A time that is not kept: only that there is one counts."""
_WRAP = 2**64


def node_manifest(node: Node) -> Written:
    """The core/v1 Node."""
    spec: Written = filled(
        taints=[
            {"key": taint.key, "value": taint.value, "effect": taint.effect}
            for taint in node.taints
        ],
        unschedulable=node.unschedulable,
    )
    status: Written = {"allocatable": quantities(node.allocatable)} | filled(
        images=[{"names": list(image.names), "sizeBytes": image.size} for image in node.images],
        declaredFeatures=list(node.declared_features),
    )
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(node.name, uid=node.uid, labels=node.labels, notes=node.annotations),
        "spec": spec,
        "status": status,
    }


def pod_manifest(pod: Pod) -> Written:
    """The core/v1 Pod."""
    meta = metadata(
        pod.name, pod.namespace, uid=pod.uid, labels=pod.labels, notes=pod.annotations,
        created_at=pod.created_at, deleting=pod.deleting,
    )  # fmt: skip
    if pod.owner is not None:
        meta["ownerReferences"] = [_owner(pod.owner)]
    displaced = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": filled(
            schedulerName=pod.scheduler_name,
            nodeName=pod.node_name,
            schedulingGates=[{"name": name} for name in pod.gates],
            preemptionPolicy=pod.preemption_policy,
            resourceClaims=[{"name": name} for name in pod.resource_claims],
        )
        | {"priority": pod.priority}
        | _pod_spec(pod.spec, pod.volumes),
        "status": filled(
            nominatedNodeName=pod.nominated_node,
            startTime=written_time(pod.started_at),
            conditions=[displaced] if pod.displaced else [],
        ),
    }


def filled(**fields: Any) -> Written:
    """The fields that have a value: an empty one is the same as a missing one."""
    return {name: value for name, value in fields.items() if value}


def metadata(
    name: str,
    namespace: str = "",
    *,
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
    created_at: int = 0,
    deleting: bool = False,
) -> Written:
    """An object's metadata; ``notes`` are its annotations, ``created_at`` is in µs."""
    return {"name": name} | filled(
        namespace=namespace,
        uid=uid,
        labels=dict(labels or {}),
        annotations=dict(notes or {}),
        creationTimestamp=written_time(created_at),
        deletionTimestamp=UNKNOWN_TIME if deleting else "",
    )


def quantities(amounts: Resources) -> dict[str, str]:
    """Amounts as quantities: cpu is in millicores, all else in bytes or a count."""
    return {name: quantity(amount, "m" if name == CPU else "") for name, amount in amounts.items()}


def quantity(amount: int, suffix: str = "") -> str:
    """An amount as a quantity. One below 0 comes from a quantity beyond int64 and is written as
    such."""
    return f"{amount if amount >= 0 else amount + _WRAP}{suffix}"


def written_time(at: int) -> str:
    """A time (µs since 1970) as RFC 3339; "" for 0."""
    if not at:
        return ""
    return (_EPOCH + timedelta(microseconds=at)).isoformat().replace("+00:00", "Z")


def requirements(written: Sequence[Requirement]) -> list[Written]:
    """Expressions of a selector."""
    return [
        {"key": requirement.key, "operator": requirement.operator}
        | filled(values=list(requirement.values))
        for requirement in written
    ]


def selector_field(name: str, selector: Selector) -> Written:
    """A label selector as the field ``name``; no field for None."""
    if selector is None:
        return {}
    return {name: filled(matchExpressions=requirements(selector))}


def node_term_manifest(term: NodeSelectorTerm) -> Written:
    """A core/v1 NodeSelectorTerm."""
    return filled(
        matchExpressions=requirements(term.expressions), matchFields=requirements(term.fields)
    )


def _owner(owner: Owner) -> Written:
    version = CONTROLLERS.get(owner.kind, "")
    if owner.foreign:
        version = "example.com/v1"  # any other group: which one is not kept
    return {"kind": owner.kind, "name": owner.name, "controller": True} | filled(
        uid=owner.uid, apiVersion=version
    )


# --- the spec ---------------------------------------------------------------------------------


def _pod_spec(spec: PodSpec, volumes: Sequence[PodVolume]) -> Written:
    whole = spec.requests or {}
    is_whole_guaranteed = spec.guaranteed and any(whole.get(name) for name in (CPU, MEMORY))
    has_limits = spec.guaranteed and not is_whole_guaranteed
    containers = [
        _container(container, f"c{number}", has_limits)
        for number, container in enumerate(spec.containers)
    ]
    init_containers = [
        _container(container, f"i{number}", has_limits)
        | ({"restartPolicy": "Always"} if container.restarts else {})
        for number, container in enumerate(spec.init_containers)
    ]
    if _RESTARTS in spec.needed_features:
        rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
        for container in (containers or init_containers)[:1]:
            container["restartPolicyRules"] = [rule]
    is_mapped = _MAPPED in spec.needed_features
    return {
        "containers": containers,
        **filled(
            initContainers=init_containers,
            overhead=quantities(spec.overhead),
            resources=_resources(whole, is_whole_guaranteed),
            nodeSelector=dict(spec.node_selector),
            affinity=_affinity(spec),
            tolerations=[
                filled(key=t.key, operator=t.operator, value=t.value, effect=t.effect)
                for t in spec.tolerations
            ],
            volumes=[
                *({"name": f"image-{number}", "image": {"reference": reference}}
                  for number, reference in enumerate(spec.image_volumes)),
                *map(_volume, volumes),
            ],
            topologySpreadConstraints=list(map(_spread, spec.spread)),
            hostNetwork=is_mapped,
        ),
        **({"hostUsers": False} if is_mapped else {}),
    }  # fmt: skip


_RESTARTS, _MAPPED = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"


def _container(container: Container, name: str, has_limits: bool) -> Written:
    ports = [
        {"containerPort": port.port, "hostPort": port.port, "protocol": port.protocol,
         "hostIP": port.ip}
        for port in container.ports
    ]  # fmt: skip
    return {"name": name} | filled(
        image=container.image, resources=_resources(container.requests, has_limits), ports=ports
    )


def _resources(requests: Resources, has_limits: bool) -> Written:
    """Requests; with limits of cpu and memory that make the pod Guaranteed."""
    limits = {name: requests[name] for name in (CPU, MEMORY) if name in requests}
    return filled(requests=quantities(requests), limits=quantities(limits) if has_limits else {})


def _affinity(spec: PodSpec) -> Written:
    nodes: Written = {}
    if spec.required_node_terms is not None:
        terms = [node_term_manifest(term) for term in spec.required_node_terms]
        nodes[REQUIRED] = {"nodeSelectorTerms": terms}
    nodes |= filled(
        **{
            PREFERRED: [
                {"weight": preferred.weight, "preference": node_term_manifest(preferred.term)}
                for preferred in spec.preferred_node_terms
            ]
        }
    )
    near, apart = (
        filled(
            **{
                REQUIRED: list(map(_affinity_term, required)),
                PREFERRED: [
                    {"weight": weighted.weight, "podAffinityTerm": _affinity_term(weighted.term)}
                    for weighted in preferred
                ],
            }
        )
        for required, preferred in (
            (spec.required_affinity, spec.preferred_affinity),
            (spec.required_anti_affinity, spec.preferred_anti_affinity),
        )
    )
    return filled(nodeAffinity=nodes, podAffinity=near, podAntiAffinity=apart)


def _affinity_term(term: AffinityTerm) -> Written:
    return (
        {"topologyKey": term.topology_key}
        | selector_field("labelSelector", term.selector)
        | filled(namespaces=list(term.namespaces))
        | selector_field("namespaceSelector", term.namespace_selector)
    )


def _spread(constraint: SpreadConstraint) -> Written:
    minimum = constraint.min_domains
    return (
        {
            "maxSkew": constraint.max_skew,
            "topologyKey": constraint.topology_key,
            "whenUnsatisfiable": constraint.when_unsatisfiable,
            "nodeAffinityPolicy": constraint.node_affinity_policy,
            "nodeTaintsPolicy": constraint.node_taints_policy,
        }
        | selector_field("labelSelector", constraint.selector)
        | ({} if minimum is None else {"minDomains": minimum})
        | filled(matchLabelKeys=list(constraint.match_label_keys))
    )


def _volume(volume: PodVolume) -> Written:
    name = {"name": volume.name}
    if volume.ephemeral:
        # The claim is an object of its own: its template is not kept.
        return name | {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    if volume.claim or volume.source == "persistentVolumeClaim":
        return name | {"persistentVolumeClaim": {"claimName": volume.claim}}
    if volume.source:
        return name | {
            volume.source: disk(volume.source, volume.identity) | filled(readOnly=volume.read_only)
        }
    return name | {"csi": {"driver": volume.driver}}


def disk(source: str, identity: Sequence[str]) -> Written:
    """The source of an in-tree volume, with the fields that identify it."""
    fields = DISKS.get(source, ())
    return dict(zip(fields, identity, strict=False)) | filled(
        monitors=list(identity[len(fields) :]) if source == "rbd" else []
    )
