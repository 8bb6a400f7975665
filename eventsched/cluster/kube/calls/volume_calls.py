"""Writes the changes of volumes and claims that a pod's bind waits for.

Each change first reads the object. If the object has the change already, from a request whose
answer was lost or from an earlier leader, nothing is written. If it has a conflicting one, the
request is refused. The patch contains the uid and resourceVersion that were read, so it never
overwrites another change. Upstream: plugins/volumebinding/binder.go bindAPIUpdate;
component-helpers storage/volume GetBindVolumeToClaim.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from eventsched.cluster.kube.http.api import MERGE_PATCH, ApiClient, HttpAnswer, path
from eventsched.cluster.kube.http.refusals import Refusals, is_done, is_refused, words
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import RESOURCES
from eventsched.cluster.messages import (
    ObjectSeen,
    Unknown,
    WriteAnswer,
    WriteObject,
    WriteRefused,
    Written,
)
from eventsched.domain.objects.registry import (
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
)
from eventsched.domain.records.object_writes import BindVolume, SelectNode, Write

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
VOLUMES, CLAIMS = "persistentvolumes", "persistentvolumeclaims"


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Outline(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_outline = msgspec.json.Decoder(_Outline).decode
_encode = msgspec.json.Encoder().encode


class VolumeCalls:
    """Carries out ``WriteObject``."""

    def __init__(self, api: ApiClient, refusals: Refusals, decoders: Mapping[str, Decoder]) -> None:
        """``decoders`` decode the objects in answers, by type. A missing one is created."""
        self._api = api
        self._refusals = refusals
        self._decoders: dict[str, Decoder] = {}
        self.decode_with(decoders)

    def decode_with(self, decoders: Mapping[str, Decoder]) -> None:
        """Decodes with others from now on: those of another watch."""
        self._decoders = {
            resource.plural: decoders.get(resource.type) or Decoder(resource)
            for resource in RESOURCES
            if resource.plural in (VOLUMES, CLAIMS)
        }

    async def write(self, request: WriteObject) -> WriteAnswer | Unknown:
        """Carries out a request. Raises UnansweredError."""
        resource, target = _resource_and_path(request.write)
        read = await self._call("GET", resource, target)
        if not is_done(read):
            return _refused(request, read)
        before = self._decoded(request, resource, read)
        if not isinstance(before, ObjectSeen):
            return before
        patch = _patch(request.write, before.object)
        if patch is None:
            return Written(request, before)
        if isinstance(patch, str):
            return WriteRefused(request, patch, before)
        meta = _outline(read.body).metadata
        patch["metadata"] |= {"uid": meta.uid, "resourceVersion": meta.resource_version}
        answer = await self._call("PATCH", resource, target, _encode(patch))
        if not is_done(answer):
            return _refused(request, answer)
        after = self._decoded(request, resource, answer)
        return Written(request, after) if isinstance(after, ObjectSeen) else after

    async def _call(
        self, method: str, resource: str, target: str, body: bytes | None = None
    ) -> HttpAnswer:
        answer = await self._api.call(method, target, body=body, content_type=MERGE_PATCH)
        self._refusals.saw(f"{method.lower()} {resource}", answer, object=target)
        return answer

    def _decoded(
        self, request: WriteObject, resource: str, answer: HttpAnswer
    ) -> ObjectSeen | WriteRefused:
        decoded = self._decoders[resource].answer(answer.body)
        if isinstance(decoded.seen, ObjectSeen):
            return decoded.seen
        return WriteRefused(request, decoded.problem or "cannot be read")


def _resource_and_path(write: Write) -> tuple[str, str]:
    """The resource and path of the object to change."""
    if isinstance(write, BindVolume):
        return VOLUMES, path("api", "v1", VOLUMES, write.volume)
    return CLAIMS, path("api", "v1", "namespaces", write.namespace, CLAIMS, write.claim)


def _refused(request: WriteObject, answer: HttpAnswer) -> WriteRefused | Unknown:
    """The outcome of a request that did not succeed: refused if repeating it would not help,
    otherwise unknown."""
    return WriteRefused(request, words(answer)) if is_refused(answer) else Unknown(request)


def _patch(write: Write, obj: ClusterObject) -> dict[str, Any] | str | None:
    """The merge patch for a change. None if the object has the change already; an error message
    (str) if it has a conflicting one."""
    if isinstance(write, BindVolume):
        assert isinstance(obj, PersistentVolume)
        return _binding_patch(write, obj)
    assert isinstance(obj, PersistentVolumeClaim)
    return _selection_patch(write, obj)


def _binding_patch(write: BindVolume, volume: PersistentVolume) -> dict[str, Any] | str | None:
    wanted = (write.namespace, write.claim, write.claim_uid)
    if volume.claim == wanted:
        return None
    if volume.claim not in (None, (*wanted[:2], "")):
        return _conflict(VOLUMES, volume.name)
    # The annotation makes the volume available again when the claim is deleted. A volume that its
    # creator reserved for the claim must stay reserved.
    annotations = {BOUND_BY_CONTROLLER: "yes"} if volume.claim is None else {}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": write.namespace,
        "name": write.claim,
        "uid": write.claim_uid,
    }
    return {"metadata": {"annotations": annotations}, "spec": {"claimRef": reference}}


def _selection_patch(
    write: SelectNode, claim: PersistentVolumeClaim
) -> dict[str, Any] | str | None:
    if claim.uid != write.claim_uid:
        return f'{CLAIMS} "{claim.name}" not found'
    if claim.selected_node == write.node:
        return None
    if claim.selected_node:
        return _conflict(CLAIMS, claim.name)
    return {"metadata": {"annotations": {SELECTED_NODE: write.node}}}


def _conflict(resource: str, name: str) -> str:
    """The API server's message for an object that has changed since it was read."""
    return (
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
