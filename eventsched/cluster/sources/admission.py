"""What an API server's admission fills into manifests that it has never seen, from other objects
among them: priorities of classes, and the default storage class of claims.

Upstream: plugin/pkg/admission/priority and plugin/pkg/admission/storage/storageclass/setdefault.
Objects that a server has printed say all of this themselves.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from eventsched.cluster.translate.cluster_objects import read
from eventsched.cluster.translate.fields import Field
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import AnyObject, PersistentVolumeClaim, StorageClass

_INT32 = 2**31


@dataclass(frozen=True)
class PriorityClass:
    """A scheduling.k8s.io/v1 PriorityClass."""

    name: str
    value: int
    policy: str = ""
    default: bool = False


SYSTEM_CLASSES = (
    PriorityClass("system-cluster-critical", 2_000_000_000),
    PriorityClass("system-node-critical", 2_000_001_000),
)
"""Every cluster has them (upstream: pkg/apis/scheduling/v1/helpers.go)."""


@dataclass
class Admission:
    """The classes that were found. ``unknown`` counts the pods by the name of a priority class that
    was not: an API server would refuse them; here their priority is 0."""

    priorities: dict[str, PriorityClass] = field(
        default_factory=lambda: {each.name: each for each in SYSTEM_CLASSES}
    )
    storage: list[StorageClass] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)

    def learn(self, kind: str, obj: Mapping[str, Any], where: str) -> None:
        """Takes in an object of a file, if it is a class. Raises InputError for a malformed one."""
        if kind == "PriorityClass":
            found = _priority_class(Field(dict(obj), where))
            self.priorities[found.name] = found
        elif kind == "StorageClass":
            found_class = read(kind, obj, where, defaults=True)
            assert isinstance(found_class, StorageClass)
            self.storage.append(found_class)

    def admit_pod(self, pod: Pod, obj: Mapping[str, Any]) -> Pod:
        """The pod with the priority of its class, or of the class that is the default of all,
        where ``obj``, of which it was made, gives none itself."""
        spec = obj.get("spec") or {}
        if spec.get("priority") is not None:
            return pod
        name = spec.get("priorityClassName")
        if name:
            found = self.priorities.get(str(name))
            if found is None:
                self.unknown[str(name)] += 1
        else:
            found = self._default_priority()
        if found is None:
            return pod
        policy = pod.preemption_policy or found.policy
        return msgspec.structs.replace(pod, priority=found.value, preemption_policy=policy)

    def admit(self, found: AnyObject) -> AnyObject:
        """The object; a claim that names no class gets the default one."""
        return self.admit_claim(found) if isinstance(found, PersistentVolumeClaim) else found

    def admit_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """The claim, with the default class where it names none."""
        default = self._default_storage()
        if claim.bound or claim.storage_class is not None or default is None:
            return claim
        return msgspec.structs.replace(claim, storage_class=default.name)

    def _default_priority(self) -> PriorityClass | None:
        """Of several defaults the lowest counts."""
        defaults = [each for each in self.priorities.values() if each.default]
        return min(defaults, key=lambda each: each.value, default=None)

    def _default_storage(self) -> StorageClass | None:
        """Of several defaults the newest counts, then the first by name."""
        defaults = [each for each in self.storage if each.default]
        return min(defaults, key=lambda each: (-each.created_at, each.name), default=None)


def _priority_class(root: Field) -> PriorityClass:
    return PriorityClass(
        name=root.get("metadata").get("name").needed_text(),
        value=root.get("value").integer(-_INT32, _INT32 - 1),
        policy=root.get("preemptionPolicy").one_of(("", "PreemptLowerPriority", "Never")),
        default=root.get("globalDefault").flag(),
    )
