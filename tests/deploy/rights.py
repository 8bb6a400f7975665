"""What the scheduler may do: all that its adapter asks for, and nothing else."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from eventsched.cluster.kube.watch.resources import RESOURCES

LEASES = ("coordination.k8s.io", "leases")


class Right(NamedTuple):
    """A verb on a resource of an API group; on all objects unless ``name`` is given."""

    group: str
    resource: str
    verb: str
    name: str = ""


READING = ("list", "watch")
READ = frozenset(Right(each.group, each.plural, verb) for each in RESOURCES for verb in READING)
WRITTEN = frozenset(
    {
        Right("", "pods", "get"),
        Right("", "pods", "delete"),
        Right("", "pods/binding", "create"),
        Right("", "pods/status", "patch"),
        Right("", "persistentvolumeclaims", "get"),
        Right("", "persistentvolumeclaims", "patch"),
        Right("", "persistentvolumes", "get"),
        Right("", "persistentvolumes", "patch"),
        Right("events.k8s.io", "events", "create"),
        Right("events.k8s.io", "events", "patch"),
        Right("authentication.k8s.io", "tokenreviews", "create"),
        Right("authorization.k8s.io", "subjectaccessreviews", "create"),
    }
)
EVERYWHERE = READ | WRITTEN
"""In all namespaces, and on what is in none."""
ANSWERING = READ | {
    Right("", "pods", "get"),
    Right("", "pods/status", "patch"),
    Right("authentication.k8s.io", "tokenreviews", "create"),
    Right("authorization.k8s.io", "subjectaccessreviews", "create"),
}
"""The same of an extender that binds nothing."""
ANNOUNCED = Right("events.k8s.io", "events", "create")
"""What such an extender may do in its own namespace only: Events about itself."""


def at_home(lease: str) -> frozenset[Right]:
    """In the scheduler's own namespace besides."""
    named = {Right(*LEASES, verb, lease) for verb in ("get", "watch", "update")}
    return frozenset({Right(*LEASES, "create"), *named})


def rights(rules: Iterable[dict[str, Any]]) -> frozenset[Right]:
    """The rights in the rules of a role, or of a SelfSubjectRulesReview."""
    return frozenset(
        Right(group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in _names(rule.get("resourceNames"))
    )


def _names(given: Sequence[str] | None) -> Sequence[str]:
    return given or [""]
