"""A pod's own affinity terms, as queries that count the pods they select.

Upstream: framework/types.go (PodInfo.Update), interpodaffinity/plugin.go
(mergeAffinityTermNamespacesIfNotEmpty).
"""

from collections.abc import Iterable
from typing import NamedTuple

from eventsched.domain.nodes.pod_counts import OwnedTerm, PodQuery, Role, terms_of
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import Namespace, Registry
from eventsched.domain.objects.selectors import selects

_MOST_PARSED = 4096
_FIELDS = {
    Role.REQUIRED: "requiredAffinityTerms",
    Role.REQUIRED_ANTI: "requiredAntiAffinityTerms",
    Role.PREFERRED: "preferredAffinityTerms",
    Role.PREFERRED_ANTI: "preferredAntiAffinityTerms",
}


class MalformedTermError(ValueError):
    """A pod's term has a malformed selector; the text is upstream's."""


class Rules(NamedTuple):
    """``required`` counts the pods that all required affinity terms select at once (None: there are
    no such terms), ``required_keys`` are their topology keys; ``required_anti`` are the required
    anti-affinity terms as (topology key, query); ``preferred`` the preferred terms of both kinds as
    (topology key, query, weight), with a negative weight for anti-affinity."""

    required: PodQuery | None = None
    required_keys: tuple[str, ...] = ()
    required_anti: tuple[tuple[str, PodQuery], ...] = ()
    preferred: tuple[tuple[str, PodQuery, int], ...] = ()


NO_RULES = Rules()


def parsed(pod: Pod) -> dict[Role, tuple[OwnedTerm, ...]]:
    """All terms of a pod by role. Raises MalformedTermError, which names every malformed role."""
    terms_by_role: dict[Role, tuple[OwnedTerm, ...]] = {}
    problems = []
    for role, field in _FIELDS.items():
        try:
            terms_by_role[role] = terms_of(pod, role)
        except ValueError as problem:
            problems.append(f"{field}: {problem}")
    if problems:
        joined = ", ".join(problems)
        raise MalformedTermError(joined if len(problems) == 1 else f"[{joined}]")
    return terms_by_role


class AffinityRules:
    """Caches of the terms and rules of recent pods, by spec and namespace. The rules are dropped
    when the labels of a namespace change."""

    def __init__(self) -> None:
        self._terms: dict[tuple[bytes, str, Role], tuple[OwnedTerm, ...] | None] = {}
        self._rules_by_spec: dict[tuple[bytes, str], Rules] = {}
        self._registry: Registry | None = None
        self._version: tuple[int, ...] = ()

    def terms(self, pod: Pod, role: Role) -> tuple[OwnedTerm, ...] | None:
        """A pod's terms in a role; None if one is malformed."""
        key = (pod.spec.key, pod.namespace, role)
        if key not in self._terms:
            if len(self._terms) >= _MOST_PARSED:
                self._terms.clear()
            try:
                self._terms[key] = terms_of(pod, role)
            except ValueError:
                self._terms[key] = None
        return self._terms[key]

    def of(self, pod: Pod, registry: Registry) -> Rules:
        """A pod's rules. Raises MalformedTermError."""
        if not pod.spec.has_affinity:
            return NO_RULES
        version = registry.version(Namespace)
        full = len(self._rules_by_spec) >= _MOST_PARSED
        if registry is not self._registry or version != self._version or full:
            self._rules_by_spec.clear()
            self._registry, self._version = registry, version
        key = (pod.spec.key, pod.namespace)
        rules = self._rules_by_spec.get(key)
        if rules is None:
            rules = self._rules_by_spec[key] = _rules(pod, registry)
        return rules


def _rules(pod: Pod, registry: Registry) -> Rules:
    terms = parsed(pod)
    required = terms[Role.REQUIRED]
    preferred = [(term, term.weight) for term in terms[Role.PREFERRED]]
    preferred += [(term, -term.weight) for term in terms[Role.PREFERRED_ANTI]]
    return Rules(
        required=_joint(_query(term, registry) for term in required) if required else None,
        required_keys=tuple(dict.fromkeys(term.topology_key for term in required)),
        required_anti=tuple(
            (term.topology_key, _query(term, registry)) for term in terms[Role.REQUIRED_ANTI]
        ),
        preferred=tuple(
            (term.topology_key, _query(term, registry), weight) for term, weight in preferred
        ),
    )


def _query(term: OwnedTerm, registry: Registry) -> PodQuery:
    """The pods that a term selects, in the namespaces that it names or selects now."""
    if term.namespace_selector == ():
        return PodQuery(None, term.selector)
    selected = () if term.namespace_selector is None else registry.all(Namespace).values()
    names = {
        namespace.name
        for namespace in selected
        if selects(term.namespace_selector, namespace.labels)
    }
    return PodQuery(term.namespaces | names, term.selector)


def _joint(queries: Iterable[PodQuery]) -> PodQuery:
    """The pods that all queries count."""
    namespaces: frozenset[str] | None = None
    selector = PodQuery(None, ()).selector
    for query in queries:
        if query.namespaces is not None:
            namespaces = query.namespaces if namespaces is None else namespaces & query.namespaces
        if selector is None or query.selector is None:
            selector = None
        else:
            selector += query.selector
    return PodQuery(namespaces, selector)
