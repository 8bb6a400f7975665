"""The pods that controllers would make of a manifest's workloads: Deployments, ReplicaSets,
ReplicationControllers, StatefulSets and Jobs. What a controller chooses at random is fixed here."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from eventsched.cluster.sources.unknown_fields import refuse_unknown_fields
from eventsched.cluster.translate.fields import Field
from eventsched.cluster.translate.metadata import pod_uid
from eventsched.domain.errors import InputError
from eventsched.domain.objects.labels import is_subdomain

HASH = "try"
"""The pod-template-hash of a Deployment's pods, and what follows a generateName."""
_HASH_LABEL = "pod-template-hash"
_MOST = 1_000_000
_MOST_CHARACTERS = 1 << 24
"""Of all pods together, if their number is limited: a large template makes many large pods."""

Obj = dict[str, Any]


class PodsOfWorkloads:
    """Expands the objects of a file. ``count`` is how many pods of its only template to make (None:
    as many as the manifest says), ``most`` how many pods there may be in all (None: any number, of
    any size). ``templates`` are the titles of those that were met."""

    def __init__(self, count: int | None = None, most: int | None = None) -> None:
        self._count, self._most = count, most
        self._made = self._characters = 0
        self._generated: Counter[str] = Counter()
        self.templates: list[str] = []

    def expand(self, obj: Obj, kind: str, where: str) -> Iterator[tuple[Obj, str]]:
        """The objects that stand for an object of a kind, with their kinds: itself, or the pods of
        a workload and what a controller makes with them. Raises InputError, also for a field that
        the API does not know."""
        if kind == "Pod" or kind in _CONTROLLERS:
            refuse_unknown_fields(obj, kind, where)
            obj = self._named(obj, where)
        if kind == "Pod":
            _need_containers(Field(obj, where).get("spec"))
            self._note(where)
            yield from ((pod, "Pod") for pod in self._copies(obj, where))
        elif kind in _CONTROLLERS:
            self._note(where)
            yield from self._of_workload(obj, kind, where)
        else:
            yield obj, kind

    def _named(self, obj: Obj, where: str) -> Obj:
        """The object with a name, if it has metadata.generateName instead of one. Raises
        InputError for a name that the API refuses."""
        meta = Field(obj, where).get("metadata")
        prefix, name = meta.get("generateName").text(), meta.get("name").text()
        remedy = "write lower case letters, digits, - and ., as in web-1"
        if name and not is_subdomain(name):
            raise meta.get("name").wrong(f"is {name!r}, which no object can be called", remedy)
        if not prefix or name:
            return obj
        if not is_subdomain(f"{prefix}{HASH}"):
            problem = f"is {prefix!r}, with which no name can begin"
            raise meta.get("generateName").wrong(problem, remedy)
        self._generated[prefix] += 1
        number = self._generated[prefix]
        name = f"{prefix}{HASH}" if number == 1 else f"{prefix}{HASH}{number}"
        return {**obj, "metadata": {**meta.value, "name": name}}

    def _note(self, where: str) -> None:
        self.templates.append(where)
        if self._count is not None and len(self.templates) > 1:
            problem = f"{where} is another one, and --count is the number of pods of one"
            remedy = "leave --count out, or name a file with one of them"
            raise InputError("--count", problem, remedy)

    def _make(self, number: int, obj: Obj, where: str) -> None:
        """Counts pods of an object before they are made. Raises InputError if they are too many or
        too large."""
        if self._most is None:
            return
        self._made += number
        self._characters += number * _size(obj)
        if self._made > self._most:
            problem = f"makes it {self._made} pods, and at most {self._most} may be there"
            raise InputError(where, problem, "try fewer")
        if self._characters > _MOST_CHARACTERS:
            problem = f"is too large for {number} pods of it"
            raise InputError(where, problem, "try fewer, or leave out what does not matter")

    def _copies(self, obj: Obj, where: str) -> Iterator[Obj]:
        self._make(1 if self._count is None else self._count, obj, where)
        if self._count is None:
            yield obj
            return
        meta = Field(obj, where).get("metadata")
        name = meta.get("name").needed_text()
        for number in range(self._count):
            copied = {k: v for k, v in obj["metadata"].items() if k != "uid"}
            yield {**obj, "metadata": {**copied, "name": f"{name}-{number}"}}

    def _of_workload(self, obj: Obj, kind: str, where: str) -> Iterator[tuple[Obj, str]]:
        root = Field(obj, where)
        name = root.get("metadata").get("name").needed_text()
        spec = root.get("spec")
        template = spec.get("template")
        if template.value is None:
            raise template.wrong("is missing", "write the pods' template there")
        for part in (template.get("metadata"), template.get("metadata").get("labels")):
            part.names()  # raises unless it is a mapping
        _need_containers(template.get("spec"))
        template.get("spec").get("volumes").items()
        number = self._count
        if number is None:
            number = _replicas(spec, kind)
        self._make(number, obj, where)
        owner = {"kind": kind, "name": name, "uid": root.get("metadata").get("uid").text()}
        labels: dict[str, str] = {}
        if kind == "Deployment":
            owner, labels = {"kind": "ReplicaSet", "name": f"{name}-{HASH}"}, {_HASH_LABEL: HASH}
            spec.get("selector").get("matchLabels").names()
            yield _replica_set(obj, owner["name"]), "ReplicaSet"
        elif kind == "Job":
            labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
        else:
            yield obj, kind
        namespace = root.get("metadata").get("namespace").text() or "default"
        if not owner.get("uid"):
            owner["uid"] = pod_uid(f"{namespace}/{owner['kind']}", owner["name"])
        for ordinal in range(number):
            pod = _pod(template.value, f"{owner['name']}-{ordinal}", namespace, labels, owner)
            if kind == "StatefulSet":
                yield from _claims(spec, pod, name, ordinal, namespace)
            yield pod, "Pod"


def _need_containers(spec: Field) -> None:
    """Raises InputError for a pod without containers, which the API refuses."""
    containers = spec.get("containers")
    if not containers.items():
        remedy = "write a container with the pod's requests there; the Kubernetes API requires one"
        raise containers.wrong("is empty", remedy)


def _size(obj: Obj) -> int:
    """About how many characters an object has as text."""
    size, left = 0, [obj]
    while left:
        value: Any = left.pop()
        size += len(value) if isinstance(value, str) else 8
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value
    return size


def _replicas(spec: Field, kind: str) -> int:
    """How many pods a workload has at once."""
    if kind != "Job":
        replicas = spec.get("replicas")
        return 1 if replicas.value is None else replicas.integer(0, _MOST)
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    together = 1 if parallelism.value is None else parallelism.integer(0, _MOST)
    if completions.value is None:
        return together
    return min(together, completions.integer(0, _MOST))


def _pod(
    template: Obj, name: str, namespace: str, labels: dict[str, str], owner: dict[str, str]
) -> Obj:
    meta = template.get("metadata") or {}
    own = meta.get("labels") or {}
    reference = {**owner, "controller": True}
    if (version := _CONTROLLERS.get(owner["kind"])) is not None:
        reference["apiVersion"] = version
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **meta,
            "name": name,
            "namespace": namespace,
            "labels": {**own, **labels},
            "ownerReferences": [reference],
        },
        "spec": template["spec"],
    }


def _replica_set(deployment: Obj, name: str) -> Obj:
    selector = deployment["spec"].get("selector") or {}
    labels = {**(selector.get("matchLabels") or {}), _HASH_LABEL: HASH}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": deployment["metadata"].get("namespace")},
        "spec": {"selector": {**selector, "matchLabels": labels}},
    }


def _claims(
    spec: Field, pod: Obj, name: str, ordinal: int, namespace: str
) -> Iterator[tuple[Obj, str]]:
    """The claims of a StatefulSet's pod; the pod gets the volumes that name them."""
    volumes = list(pod["spec"].get("volumes") or ())
    for template in spec.get("volumeClaimTemplates").items():
        volume = template.get("metadata").get("name").needed_text()
        claim = f"{volume}-{name}-{ordinal}"
        volumes = [other for other in volumes if other.get("name") != volume]
        volumes.append({"name": volume, "persistentVolumeClaim": {"claimName": claim}})
        meta = {**template.value["metadata"], "name": claim, "namespace": namespace}
        made = {"kind": _CLAIM, "metadata": meta, "status": {"phase": "Pending"}}
        yield template.value | made, _CLAIM
    pod["spec"] = {**pod["spec"], "volumes": volumes}


_CLAIM = "PersistentVolumeClaim"
_CONTROLLERS = {
    "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1",
    "ReplicationController": "v1", "Job": "batch/v1",
}  # fmt: skip
"""Kinds of workloads, and their apiVersion."""
