"""Admission of manifests that no API server has seen: pods get the priority of their class, and
claims the default storage class.

Upstream: plugin/pkg/admission/priority and plugin/pkg/admission/storage/storageclass/setdefault.
Objects printed by a server already have both.
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
    """The known classes. ``unknown`` counts pods by the name of a priority class that is not known.
    An API server would refuse these pods; here their priority is 0."""

    priorities: dict[str, PriorityClass] = field(
        default_factory=lambda: {system_class.name: system_class for system_class in SYSTEM_CLASSES}
    )
    storage: list[StorageClass] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)

    def learn(self, kind: str, obj: Mapping[str, Any], where: str) -> None:
        """Remembers an object if it is a class. Raises InputError for a malformed one."""
        if kind == "PriorityClass":
            priority_class = _priority_class(Field(dict(obj), where))
            self.priorities[priority_class.name] = priority_class
        elif kind == "StorageClass":
            storage_class = read(kind, obj, where, defaults=True)
            assert isinstance(storage_class, StorageClass)
            self.storage.append(storage_class)

    def admit_pod(self, pod: Pod, obj: Mapping[str, Any], where: str = "") -> Pod:
        """The pod with the priority of its class, or of the default class. A priority in ``obj``,
        the pod's manifest, stays. Raises InputError."""
        spec = Field(dict(obj), where).get("spec")
        if spec.get("priority").value is not None:
            return pod
        name = spec.get("priorityClassName").text()
        if name:
            priority_class = self.priorities.get(name)
            if priority_class is None:
                self.unknown[name] += 1
        else:
            priority_class = self._default_priority()
        if priority_class is None:
            return pod
        policy = pod.preemption_policy or priority_class.policy
        return msgspec.structs.replace(pod, priority=priority_class.value, preemption_policy=policy)

    def admit(self, obj: AnyObject) -> AnyObject:
        """The object; a claim without a storage class gets the default one."""
        return self.admit_claim(obj) if isinstance(obj, PersistentVolumeClaim) else obj

    def admit_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """The claim; without a storage class it gets the default one."""
        default = self._default_storage()
        if claim.bound or claim.storage_class is not None or default is None:
            return claim
        return msgspec.structs.replace(claim, storage_class=default.name)

    def _default_priority(self) -> PriorityClass | None:
        """Of several defaults the lowest counts."""
        defaults = [known for known in self.priorities.values() if known.default]
        return min(defaults, key=lambda known: known.value, default=None)

    def _default_storage(self) -> StorageClass | None:
        """Of several defaults the newest counts, then the first by name."""
        defaults = [known for known in self.storage if known.default]
        return min(defaults, key=lambda known: (-known.created_at, known.name), default=None)


def _priority_class(root: Field) -> PriorityClass:
    return PriorityClass(
        name=root.get("metadata").get("name").needed_text(),
        value=root.get("value").integer(-_INT32, _INT32 - 1),
        policy=root.get("preemptionPolicy").one_of(("", "PreemptLowerPriority", "Never")),
        default=root.get("globalDefault").flag(),
    )
