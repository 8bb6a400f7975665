"""How much work a pod asks for at most, and whether that is within the budget.

The work of an attempt is counted before it is made, from what the pod's manifest says and the
number of nodes alone: questions times nodes. It knows neither time nor caches, so that a replay, a
standby and a fresh engine come to the same number (ADR 15). A plugin's own code is not counted; its
calls have deadlines (call_guard.py).

Units: one question about one node. A question has a fixed cost that is worth ``FIXED`` nodes.
"""

from collections.abc import Iterable

from eventsched.domain.objects import (
    AffinityTerm,
    Container,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Requirement,
    Selector,
)

FIXED = 5_000
"""Nodes for which a question, answered by columns, takes twice as long as for none: about 30 µs."""
DEFAULT_BUDGET = 4_000_000
"""Units. 784 questions where there are 100 nodes, 200 where there are 15,000."""

OVER_BUDGET = "OverBudget"
"""Cause of a move to the unschedulable queue (PodQueued)."""

_QUESTION = 256
"""All below is in parts of a question, as integers."""
_PART = _QUESTION // 4
"""What is looked up once, or for each node that holds pods: a port, a container, a resource."""
_TOLERATION = _QUESTION // 16
_LABEL = _QUESTION // 64
_VALUE = 1


def questions(pod: Pod) -> int:
    """The questions that an attempt asks of each node at most, rounded up."""
    return -(-_parts(pod) // _QUESTION)


def work(pod: Pod, nodes: int) -> int:
    """Units of work of one attempt at most, in a cluster of so many nodes."""
    return questions(pod) * (nodes + FIXED)


def excess(pod: Pod, nodes: int, budget: int) -> str:
    """What is to be said of a pod that is over the budget (units; 0: there is none); "" for one
    that is not."""
    wanted = work(pod, nodes) if budget else 0
    if wanted <= budget:
        return ""
    return (
        f"the pod asks for more work than the budget of an attempt allows: {questions(pod):,} "
        f"questions (terms, expressions, constraints, volumes, ports…) about {nodes:,} nodes are "
        f"{wanted:,} units, and workBudget is {budget:,}; ask for less in its manifest"
    )


def _parts(pod: Pod) -> int:
    """Parts of a question."""
    spec = pod.spec
    own = len(pod.labels) * _LABEL + len(pod.gates) * _LABEL
    own += (len(pod.volumes) + len(pod.resource_claims)) * _QUESTION
    own += sum(len(volume.identity) for volume in pod.volumes) * _PART
    of_spec: int | None = spec.__dict__.get("_work_parts")
    if of_spec is None:  # once for each shape of pod
        of_spec = spec.__dict__["_work_parts"] = (
            _of_nodes(spec) + _of_pods(spec) + _of_resources(spec)
        )
    return own + of_spec


def _of_nodes(spec: PodSpec) -> int:
    """What is asked about nodes themselves."""
    found = len(spec.node_selector) * _QUESTION + len(spec.tolerations) * _TOLERATION
    found += len(spec.needed_features) * _PART
    found += sum(_node_term(term) for term in spec.required_node_terms or ())
    return found + sum(_node_term(each.term) for each in spec.preferred_node_terms)


def _of_pods(spec: PodSpec) -> int:
    """What is asked about other pods."""
    terms = [*spec.required_affinity, *spec.required_anti_affinity]
    terms += [each.term for each in spec.preferred_affinity]
    terms += [each.term for each in spec.preferred_anti_affinity]
    found = sum(_pod_term(term) for term in terms)
    for each in spec.spread:
        found += _QUESTION + _selector(each.selector) + len(each.match_label_keys) * _PART
    return found


def _of_resources(spec: PodSpec) -> int:
    """What is asked about resources, ports and images."""
    found = (len(spec.overhead) + len(spec.requests or ()) + len(spec.image_volumes)) * _PART
    return found + _containers(spec.containers) + _containers(spec.init_containers)


def _containers(containers: Iterable[Container]) -> int:
    return sum((1 + len(each.requests) + len(each.ports)) * _PART for each in containers)


def _node_term(term: NodeSelectorTerm) -> int:
    return _requirements((*term.expressions, *term.fields), _QUESTION) or _QUESTION


def _pod_term(term: AffinityTerm) -> int:
    found = _QUESTION + len(term.namespaces) * _VALUE
    return found + _selector(term.selector) + _selector(term.namespace_selector)


def _selector(selector: Selector) -> int:
    return _requirements(selector or (), _PART)


def _requirements(requirements: Iterable[Requirement], each: int) -> int:
    return sum(each + len(requirement.values) * _VALUE for requirement in requirements)
