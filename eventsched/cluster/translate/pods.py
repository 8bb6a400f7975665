"""Turns core/v1 Pods into the domain's pods: the fields that their placement depends on."""

from collections.abc import Mapping
from typing import Any

from eventsched.cluster.translate.container_requests import AllocatedResources, pod_level
from eventsched.cluster.translate.fields import Field
from eventsched.cluster.translate.metadata import annotations, instant, owner, uid_of
from eventsched.cluster.translate.node_selectors import (
    PREFERRED,
    REQUIRED,
    affinity_terms,
    node_term,
    node_terms,
    spread_constraints,
    weighted_affinity_terms,
)
from eventsched.cluster.translate.numa import is_guaranteed
from eventsched.cluster.translate.volumes import pod_volumes
from eventsched.domain.objects import (
    Container,
    HostPort,
    Pod,
    PodSpec,
    PreferredTerm,
    Toleration,
)

TOLERATION_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS = ("", "Exists", "Equal", "Lt", "Gt")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_PREEMPTION_POLICIES = ("", "PreemptLowerPriority", "Never")
_INT32 = 2**31


def pod(obj: Mapping[str, Any], where: str, *, defaults: bool) -> Pod:
    """The pod that a core/v1 Pod object describes.

    ``defaults`` does what an API server does on admission: missing requests take their limits,
    ports of pods on the host's network become host ports, and matchLabelKeys are merged into their
    selectors. Objects from an API server need no defaults. Label selectors are kept as they are,
    malformed or not. Raises InputError naming ``where``, the field and what to do.
    """
    root = Field(dict(obj), where)
    meta, spec, status = root.get("metadata"), root.get("spec"), root.get("status")
    name = meta.get("name").needed_text()
    namespace = meta.get("namespace").text() or "default"
    node_name = spec.get("nodeName").text()
    labels = meta.get("labels").text_map()
    return Pod(
        uid=uid_of(meta.get("uid").text(), namespace, name),
        name=name,
        namespace=namespace,
        labels=labels,
        annotations=annotations(meta),
        owner=owner(meta),
        priority=spec.get("priority").integer(-_INT32, _INT32 - 1),
        scheduler_name=spec.get("schedulerName").text() or "default-scheduler",
        node_name=node_name,
        gates=tuple(gate.get("name").needed_text() for gate in spec.get("schedulingGates").items()),
        deleting=meta.get("deletionTimestamp").value is not None,
        created_at=instant(meta.get("creationTimestamp")),
        spec=_pod_spec(
            spec, labels, AllocatedResources(status) if node_name else None, defaults=defaults
        ),
        volumes=pod_volumes(spec.get("volumes"), name, defaults=defaults),
        resource_claims=tuple(
            claim.get("name").needed_text() for claim in spec.get("resourceClaims").items()
        ),
        preemption_policy=spec.get("preemptionPolicy").one_of(_PREEMPTION_POLICIES),
        nominated_node=status.get("nominatedNodeName").text(),
        started_at=instant(status.get("startTime")),
        displaced=any(_is_preempted(condition) for condition in status.get("conditions").items()),
    )


def _is_preempted(condition: Field) -> bool:
    """Whether a condition says that the pod was preempted (upstream: framework/preemption
    podTerminatingByPreemption)."""
    return (
        condition.get("type").text() == "DisruptionTarget"
        and condition.get("status").text() == "True"
        and condition.get("reason").text() == "PreemptionByScheduler"
    )


def _pod_spec(
    spec: Field, labels: Mapping[str, str], allocated: AllocatedResources | None, *, defaults: bool
) -> PodSpec:
    on_host = defaults and spec.get("hostNetwork").flag()
    containers, init_containers = (
        tuple(
            _container(container, allocated, init=init, defaults=defaults, on_host=on_host)
            for container in spec.get(name).items()
        )
        for name, init in (("containers", False), ("initContainers", True))
    )
    return PodSpec(
        containers=containers,
        init_containers=init_containers,
        overhead=spec.get("overhead").resources(),
        requests=pod_level(
            spec.get("resources"),
            PodSpec(containers=containers, init_containers=init_containers),
            allocated,
            defaults=defaults,
        ),
        node_selector=spec.get("nodeSelector").text_map(),
        tolerations=tuple(_toleration(field) for field in spec.get("tolerations").items()),
        image_volumes=tuple(
            volume.get("image").get("reference").text()
            for volume in spec.get("volumes").items()
            if volume.get("image").value is not None
        ),
        spread=spread_constraints(
            spec.get("topologySpreadConstraints"), labels if defaults else None
        ),
        needed_features=_needed_features(spec),
        guaranteed=is_guaranteed(spec, defaults=defaults),
        **_affinity(spec.get("affinity"), labels if defaults else None),
    )


def _affinity(affinity: Field, completing: Mapping[str, str] | None) -> dict[str, Any]:
    """The fields of a PodSpec that come from its affinity."""
    near, apart = affinity.get("podAffinity"), affinity.get("podAntiAffinity")
    nodes = affinity.get("nodeAffinity")
    required = nodes.get(REQUIRED)
    return {
        "required_node_terms": None
        if required.value is None
        else node_terms(required.get("nodeSelectorTerms")),
        "preferred_node_terms": tuple(
            PreferredTerm(
                weight=term.get("weight").integer(1, 100), term=node_term(term.get("preference"))
            )
            for term in nodes.get(PREFERRED).items()
        ),
        "required_affinity": affinity_terms(near.get(REQUIRED), completing),
        "preferred_affinity": weighted_affinity_terms(near.get(PREFERRED), completing),
        "required_anti_affinity": affinity_terms(apart.get(REQUIRED), completing),
        "preferred_anti_affinity": weighted_affinity_terms(apart.get(PREFERRED), completing),
    }


def _needed_features(spec: Field) -> tuple[str, ...]:
    """The kubelet features that the pod needs, sorted (upstream: component-helpers
    nodedeclaredfeatures, those of v1.36 with an InferForScheduling)."""
    restarting = any(
        rule.get("action").text() == "RestartAllContainers"
        for name in ("containers", "initContainers")
        for container in spec.get(name).items()
        for rule in container.get("restartPolicyRules").items()
    )
    host_users = spec.get("hostUsers")
    mapped = host_users.value is not None and not host_users.flag()
    features = []
    if restarting:
        features.append("RestartAllContainersOnContainerExits")
    if mapped and spec.get("hostNetwork").flag():
        features.append("UserNamespacesHostNetworkSupport")
    return tuple(features)


def _container(
    container: Field,
    allocated: AllocatedResources | None,
    *,
    init: bool,
    defaults: bool,
    on_host: bool,
) -> Container:
    resources = container.get("resources")
    requests = resources.get("requests").resources()
    if defaults:
        # SetDefaults_Pod: a missing request takes its limit.
        requests = resources.get("limits").resources() | requests
    restarts = init and container.get("restartPolicy").text() == "Always"
    if allocated is not None and (restarts or not init):
        requests = allocated.container(container.get("name").text(), requests)
    ports = (_host_port(port, on_host=on_host) for port in container.get("ports").items())
    return Container(
        image=container.get("image").text(),
        requests=requests,
        ports=tuple(port for port in ports if port.port > 0),
        restarts=restarts,
    )


def _host_port(port: Field, *, on_host: bool) -> HostPort:
    number = port.get("hostPort").integer(0, 65535)
    if on_host and number == 0:
        # defaultHostNetworkPorts: on the host's network every container port is a host port.
        number = port.get("containerPort").integer(0, 65535)
    return HostPort(
        port=number,
        protocol=port.get("protocol").one_of(_PROTOCOLS, "TCP"),
        ip=port.get("hostIP").text() or "0.0.0.0",
    )


def _toleration(field: Field) -> Toleration:
    return Toleration(
        key=field.get("key").text(),
        operator=field.get("operator").one_of(TOLERATION_OPERATORS),
        value=field.get("value").text(),
        effect=field.get("effect").one_of(TOLERATION_EFFECTS),
    )
