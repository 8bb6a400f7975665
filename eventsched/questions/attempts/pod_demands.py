"""What a pod asks for, by its newest record: requests, priority, node selector, tolerations."""

from collections.abc import Sequence

from eventsched.domain import records
from eventsched.domain.objects import Pod, pod_requests
from eventsched.domain.objects.placement_terms import Toleration
from eventsched.domain.workload_kinds import DEPLOYMENT, REPLICA_SET, SHORT_KINDS
from eventsched.history.explain.explanation import Step
from eventsched.history.explain.workloads.workload import deployment_of, labelled_hash
from eventsched.history.why_not.change_value import quantity
from eventsched.questions.attempts.attempt_answers import PodDemands
from eventsched.scheduling.framework.pod_groups import membership


def demands_of(steps: Sequence[Step]) -> PodDemands | None:
    """What the pod of these steps asks for; None if none of them has its spec."""
    for step in reversed(steps):
        if isinstance(step.record, records.PodAdded | records.PodUpdated):
            return _demands(step.position, step.record.pod)
    return None


def _demands(position: int, pod: Pod) -> PodDemands:
    spec, requests = pod.spec, pod_requests.of(pod.spec).effective
    others = {
        "node affinity": spec.required_node_terms is not None or spec.preferred_node_terms,
        "pod affinity": spec.required_affinity or spec.preferred_affinity,
        "pod anti-affinity": spec.required_anti_affinity or spec.preferred_anti_affinity,
        "topology spread": spec.spread,
        "host ports": spec.host_ports,
        "volume claims": any(volume.claim for volume in pod.volumes),
        "resource claims": pod.resource_claims,
    }
    return PodDemands(
        position=position,
        priority=pod.priority,
        requests={name: quantity(name, amount) for name, amount in requests.items() if amount},
        node_selector=dict(spec.node_selector),
        tolerations=[_words(each) for each in spec.tolerations],
        others=[name for name, is_there in others.items() if is_there],
        belongs_to=_belongs_to(pod),
    )


def _belongs_to(pod: Pod) -> list[str]:
    """A Deployment comes before its ReplicaSet, and the pod group last."""
    names = []
    if pod.owner is not None and not pod.owner.foreign and pod.owner.kind in SHORT_KINDS:
        kind, name = pod.owner.kind, pod.owner.name
        if kind == REPLICA_SET:
            hashed = labelled_hash(records.PodAdded(pod=pod))
            if deployment := deployment_of(name, hashed):
                names.append(f"{SHORT_KINDS[DEPLOYMENT]}/{deployment}")
        names.append(f"{SHORT_KINDS[kind]}/{name}")
    own = membership(pod)
    if own is not None and "/" not in (name := own.group.partition("/")[2]):
        names.append(f"group/{name}")  # an annotation could have anything
    return names


def _words(toleration: Toleration) -> str:
    """``key=value:effect``, ``key:effect`` for any value, ``every taint`` for all of them."""
    key = toleration.key
    if not key:
        return f"every taint:{toleration.effect}" if toleration.effect else "every taint"
    value = "" if toleration.operator == "Exists" else f"={toleration.value}"
    if toleration.operator in ("Lt", "Gt"):
        value = f" {toleration.operator} {toleration.value}"
    return f"{key}{value}:{toleration.effect}" if toleration.effect else f"{key}{value}"
