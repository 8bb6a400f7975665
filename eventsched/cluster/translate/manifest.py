"""Turns Kubernetes API objects (parsed JSON or YAML) into the domain's objects. Pure.

Only the fields that scheduling reads are kept; unknown fields are ignored. For a manifest that no
API server has seen, ``defaults`` applies the defaults that the server would set
(pkg/apis/core/v1/defaults.go).

``where`` names file and object (``pods.yaml: Pod default/a``) and begins every InputError. Pods are
read in ``pods``, other objects in ``cluster_objects`` and ``volumes``.
"""

from collections.abc import Mapping
from typing import Any

from eventsched.cluster.translate import volumes as translate_volumes
from eventsched.cluster.translate.cluster_objects import is_read, read
from eventsched.cluster.translate.fields import Field
from eventsched.cluster.translate.metadata import DROPPED_ANNOTATIONS, annotations, pod_uid
from eventsched.cluster.translate.pods import pod
from eventsched.domain.objects import Image, Node, Pod, Taint
from eventsched.domain.objects.registry import AnyObject, PersistentVolumeClaim

__all__ = [
    "DROPPED_ANNOTATIONS", "cluster_object", "ephemeral_claims", "node", "pod", "pod_uid",
    "unjudged",
]  # fmt: skip

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def node(obj: Mapping[str, Any], where: str) -> Node:
    """The node that a core/v1 Node object describes.

    Allocatable falls back to capacity if status has none (upstream: SetDefaults_NodeStatus); a
    missing ``pods`` stays missing. Raises InputError naming ``where``, the field and what to do.
    """
    root = Field(dict(obj), where)
    meta, spec, status = root.get("metadata"), root.get("spec"), root.get("status")
    allocatable = status.get("allocatable")
    if allocatable.value is None:
        allocatable = status.get("capacity")
    return Node(
        name=meta.get("name").needed_text(),
        uid=meta.get("uid").text(),
        labels=meta.get("labels").text_map(),
        annotations=annotations(meta),
        taints=tuple(
            Taint(
                key=taint.get("key").needed_text(),
                value=taint.get("value").text(),
                effect=taint.get("effect").one_of(_TAINT_EFFECTS),
            )
            for taint in spec.get("taints").items()
        ),
        unschedulable=spec.get("unschedulable").flag(),
        allocatable=allocatable.resources(),
        images=tuple(
            Image(
                names=image.get("names").texts(),
                size=image.get("sizeBytes").integer(0, 2**63 - 1),
            )
            for image in status.get("images").items()
        ),
        declared_features=tuple(sorted(set(status.get("declaredFeatures").texts()))),
    )


def cluster_object(
    obj: Mapping[str, Any], where: str, *, defaults: bool = False
) -> AnyObject | None:
    """The object of a kind other than Node and Pod. None for kinds that scheduling does not read,
    and for a kind of the same name in another API group. ``defaults`` as for pods.
    Raises InputError naming ``where``, the field and what to do."""
    kind = obj.get("kind")
    if not isinstance(kind, str) or not is_read(kind, obj.get("apiVersion")):
        return None
    return read(kind, obj, where, defaults=defaults)


def ephemeral_claims(obj: Mapping[str, Any], pod: Pod, where: str) -> list[PersistentVolumeClaim]:
    """The claims that a controller creates for a pod's ephemeral volumes. ``obj`` is the Pod
    object. Raises InputError for a template that is malformed."""
    volumes = Field(dict(obj), where).get("spec").get("volumes")
    return list(translate_volumes.ephemeral_claims(volumes, pod.namespace, pod.name, pod.uid))


def unjudged(obj: Mapping[str, Any]) -> list[str]:
    """Names of the scheduling constraints in a Pod object that this version does not support yet,
    for a warning. Malformed parts count as absent."""
    spec = obj.get("spec")
    claims = spec.get("resourceClaims") if isinstance(spec, Mapping) else None
    return ["resourceClaims"] if claims else []
