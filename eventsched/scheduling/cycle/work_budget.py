"""The most work that a pod may cost, and whether that is within the budget.

The work of an attempt is computed in advance, from only the pod's manifest and the number of nodes:
questions times nodes. It depends on neither time nor caches, so a replay, a standby and a fresh
engine compute the same number (ADR 15). A plugin's own code is not counted; its calls have
deadlines (call_guard.py).

The unit is one question about one node. The fixed cost of a question equals ``FIXED_COST`` nodes.
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

FIXED_COST = 5_000
"""The fixed cost of a question, in nodes: about 30 µs, the time to answer it by columns for this
many nodes."""
DEFAULT_BUDGET = 4_000_000
"""Units: 784 questions about 100 nodes, or 200 about 15,000."""

_QUESTION = 256
"""The costs below are integers, in parts of a question."""
_PART = _QUESTION // 4
"""Cost of a lookup made once, or once for each node with pods: a port, a container, a resource."""
_TOLERATION = _QUESTION // 16
_LABEL = _QUESTION // 64
_VALUE = 1


def questions(pod: Pod) -> int:
    """The most questions that an attempt asks about each node, rounded up."""
    return -(-_parts(pod) // _QUESTION)


def work(pod: Pod, nodes: int) -> int:
    """The most work of one attempt, in units, in a cluster of ``nodes`` nodes."""
    return questions(pod) * (nodes + FIXED_COST)


def over_budget_message(pod: Pod, nodes: int, budget: int) -> str:
    """The message about a pod that is over the budget (units; 0: no budget); "" if it is not."""
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
    if of_spec is None:  # computed once for each PodSpec
        of_spec = spec.__dict__["_work_parts"] = (
            _of_nodes(spec) + _of_pods(spec) + _of_resources(spec)
        )
    return own + of_spec


def _of_nodes(spec: PodSpec) -> int:
    """Parts for terms about the nodes themselves."""
    parts = len(spec.node_selector) * _QUESTION + len(spec.tolerations) * _TOLERATION
    parts += len(spec.needed_features) * _PART
    parts += sum(_node_term(term) for term in spec.required_node_terms or ())
    return parts + sum(_node_term(preferred.term) for preferred in spec.preferred_node_terms)


def _of_pods(spec: PodSpec) -> int:
    """Parts for terms about other pods."""
    terms = [*spec.required_affinity, *spec.required_anti_affinity]
    terms += [preferred.term for preferred in spec.preferred_affinity]
    terms += [preferred.term for preferred in spec.preferred_anti_affinity]
    parts = sum(_pod_term(term) for term in terms)
    for constraint in spec.spread:
        parts += _QUESTION + _selector(constraint.selector)
        parts += len(constraint.match_label_keys) * _PART
    return parts


def _of_resources(spec: PodSpec) -> int:
    """Parts for resources, ports and images."""
    parts = (len(spec.overhead) + len(spec.requests or ()) + len(spec.image_volumes)) * _PART
    return parts + _containers(spec.containers) + _containers(spec.init_containers)


def _containers(containers: Iterable[Container]) -> int:
    return sum(
        (1 + len(container.requests) + len(container.ports)) * _PART for container in containers
    )


def _node_term(term: NodeSelectorTerm) -> int:
    return _requirements((*term.expressions, *term.fields), _QUESTION) or _QUESTION


def _pod_term(term: AffinityTerm) -> int:
    parts = _QUESTION + len(term.namespaces) * _VALUE
    return parts + _selector(term.selector) + _selector(term.namespace_selector)


def _selector(selector: Selector) -> int:
    return _requirements(selector or (), _PART)


def _requirements(requirements: Iterable[Requirement], cost: int) -> int:
    return sum(cost + len(requirement.values) * _VALUE for requirement in requirements)
