"""Objects in answers are read as the watch reads them: no more annotations, and nothing twice."""

import asyncio
import json
from typing import Any

import pytest

from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resource_store import ResourceStore
from eventsched.cluster.kube.watch.resources import POD, RESOURCES
from eventsched.cluster.messages import GetPod, PatchStatus, PodSeen, Seen, WriteObject
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.objects import Pod
from eventsched.domain.records.object_writes import BindVolume
from eventsched.process.kubernetes import Kube
from tests.kube.scripted import Object, ScriptedAnswer, serving

UID = "4f0e5c0e-5c8b-4a0c-8b8e-000000000001"
OF_PODS = next(each for each in RESOURCES if each.type == POD)
NOTES = {"importance": "5", "token": "s3cr3t"}


def pod_object(version: int, **more: Any) -> Object:
    metadata = {"name": "a", "namespace": "b", "uid": UID, "resourceVersion": str(version)}
    spec = {"containers": [{"name": "app", "image": "app:1"}], **more}
    return {"metadata": metadata | {"annotations": NOTES}, "spec": spec, "status": {}}


def pod_of(seen: Seen | None) -> Pod:
    assert isinstance(seen, PodSeen)
    return seen.pod


REPORT = PatchStatus(
    UID, "b", "a", 1, reason="Unschedulable", message="no room", nominated_node="", at=0
)
BIND = WriteObject(
    UID, "b", "a", 1, BindVolume(volume="v", namespace="b", claim="c", claim_uid="u-c")
)


@pytest.mark.parametrize("request_", [GetPod(UID, "b", "a"), REPORT], ids=["look", "report"])
def test_pods_in_answers_have_only_the_annotations_that_are_kept(request_: Any) -> None:
    async def run() -> Any:
        said = [ScriptedAnswer(200, pod_object(version)) for version in (1, 2)]
        async with serving(said) as (_, api):
            kept = KeptAnnotations(["importance"])
            kube = Kube(api, host="h", concurrency=1, annotations=kept)
            return await kube.carry_out(request_)

    answer = asyncio.run(run())

    assert pod_of(answer.seen).annotations == {"importance": "5"}


def test_nor_do_those_of_volumes() -> None:
    bound = {"namespace": "b", "name": "c", "uid": "u-c"}
    metadata = {"name": "v", "uid": "u-v", "resourceVersion": "1", "annotations": NOTES}
    volume = {"metadata": metadata, "spec": {"claimRef": bound}, "status": {}}

    async def run() -> Any:
        async with serving([ScriptedAnswer(200, volume)]) as (_, api):
            kube = Kube(api, host="h", concurrency=1, annotations=KeptAnnotations())
            return await kube.carry_out(BIND)

    assert asyncio.run(run()).seen.object.annotations == {}


def watched() -> tuple[ResourceStore, Decoder]:
    store = ResourceStore(OF_PODS, lambda decoded: None, lambda *_, **__: None)
    return store, Decoder(OF_PODS, known=store.known)


def line(obj: Object) -> bytes:
    return json.dumps({"type": "MODIFIED", "object": obj}, separators=(",", ":")).encode()


def test_an_answer_that_shows_the_pod_of_the_watch_is_not_translated_again() -> None:
    store, decoder = watched()
    store.take(decoder.line(line(pod_object(1))))
    patched = pod_object(2)
    patched["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}]

    answer = decoder.answer(json.dumps(patched).encode().replace(b": ", b":").replace(b", ", b","))

    assert answer.version == 2
    assert pod_of(answer.seen) is pod_of(store.seen[UID])


def test_an_answer_ahead_of_the_watch_does_not_hide_the_update() -> None:
    """The store still has the old pod when the watch sends the version of the answer."""
    store, decoder = watched()
    store.take(decoder.line(line(pod_object(1))))
    ahead = pod_object(2, priority=7)

    assert pod_of(decoder.answer(json.dumps(ahead).encode()).seen).priority == 7
    decoded = decoder.line(line(ahead))

    assert pod_of(decoded.seen).priority == 7


def test_a_fingerprint_is_used_only_for_its_version() -> None:
    """A second watch may be ahead: then the store has a newer pod than the last one decoded."""
    store, decoder = watched()
    first, second = decoder.line(line(pod_object(1))), decoder.line(line(pod_object(2, priority=7)))
    store.take(second)
    decoder.line(line(pod_object(1)))
    store.take(first)

    decoded = decoder.line(line(pod_object(3)))

    assert pod_of(decoded.seen).priority == 0
