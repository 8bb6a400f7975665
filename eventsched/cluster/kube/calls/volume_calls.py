"""Changes of volumes and claims at an API server, that a pod's bind waits for.

Each begins with a look at the object: it may show the change already, from a request whose answer
was lost or of an earlier leader, or something else, which stays. The change itself holds uid and
resourceVersion of what was seen, so it never steps over another one. Upstream: plugins/
volumebinding/binder.go bindAPIUpdate; component-helpers storage/volume GetBindVolumeToClaim.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from eventsched.cluster.kube.http.api import MERGE_PATCH, Api, HttpAnswer, path
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
    """Makes such changes."""

    def __init__(self, api: Api, refusals: Refusals, decoders: Mapping[str, Decoder]) -> None:
        """``decoders`` read the objects of answers, by type; those that are missing are made."""
        self._api = api
        self._refusals = refusals
        self._decoders = {
            each.plural: decoders.get(each.type) or Decoder(each)
            for each in RESOURCES
            if each.plural in (VOLUMES, CLAIMS)
        }

    async def write(self, request: WriteObject) -> WriteAnswer | Unknown:
        """Carries out a request. Raises UnansweredError."""
        resource, target = _place(request.write)
        read = await self._ask("GET", resource, target)
        if not is_done(read):
            return _refused(request, read)
        found = self._seen(request, resource, read)
        if not isinstance(found, ObjectSeen):
            return found
        change = _change(request.write, found.object)
        if change is None:
            return Written(request, found)
        if isinstance(change, str):
            return WriteRefused(request, change, found)
        meta = _outline(read.body).metadata
        change["metadata"] |= {"uid": meta.uid, "resourceVersion": meta.resource_version}
        answer = await self._ask("PATCH", resource, target, _encode(change))
        if not is_done(answer):
            return _refused(request, answer)
        after = self._seen(request, resource, answer)
        return Written(request, after) if isinstance(after, ObjectSeen) else after

    async def _ask(
        self, method: str, resource: str, target: str, body: bytes | None = None
    ) -> HttpAnswer:
        answer = await self._api.call(method, target, body=body, content_type=MERGE_PATCH)
        self._refusals.saw(f"{method.lower()} {resource}", answer, object=target)
        return answer

    def _seen(
        self, request: WriteObject, resource: str, answer: HttpAnswer
    ) -> ObjectSeen | WriteRefused:
        told = self._decoders[resource].answer(answer.body)
        if isinstance(told.seen, ObjectSeen):
            return told.seen
        return WriteRefused(request, told.problem or "cannot be read")


def _place(write: Write) -> tuple[str, str]:
    """The resource and path of the object that a change is about."""
    if isinstance(write, BindVolume):
        return VOLUMES, path("api", "v1", VOLUMES, write.volume)
    return CLAIMS, path("api", "v1", "namespaces", write.namespace, CLAIMS, write.claim)


def _refused(request: WriteObject, answer: HttpAnswer) -> WriteRefused | Unknown:
    """After an answer that is no success: refused for good, or not known."""
    return WriteRefused(request, words(answer)) if is_refused(answer) else Unknown(request)


def _change(write: Write, found: ClusterObject) -> dict[str, Any] | str | None:
    """The merge patch that makes a change; None where the object shows it, words where it is not
    what it was taken for."""
    if isinstance(write, BindVolume):
        assert isinstance(found, PersistentVolume)
        return _binding(write, found)
    assert isinstance(found, PersistentVolumeClaim)
    return _selection(write, found)


def _binding(write: BindVolume, volume: PersistentVolume) -> dict[str, Any] | str | None:
    wanted = (write.namespace, write.claim, write.claim_uid)
    if volume.claim == wanted:
        return None
    if volume.claim not in (None, (*wanted[:2], "")):
        return _conflict(VOLUMES, volume.name)
    # A volume that its maker has promised to the claim is not given back when the claim goes.
    notes = {BOUND_BY_CONTROLLER: "yes"} if volume.claim is None else {}
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": write.namespace,
        "name": write.claim,
        "uid": write.claim_uid,
    }
    return {"metadata": {"annotations": notes}, "spec": {"claimRef": reference}}


def _selection(write: SelectNode, claim: PersistentVolumeClaim) -> dict[str, Any] | str | None:
    if claim.uid != write.claim_uid:
        return f'{CLAIMS} "{claim.name}" not found'
    if claim.selected_node == write.node:
        return None
    if claim.selected_node:
        return _conflict(CLAIMS, claim.name)
    return {"metadata": {"annotations": {SELECTED_NODE: write.node}}}


def _conflict(resource: str, name: str) -> str:
    """The API server's words for what is not as it was."""
    return (
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
