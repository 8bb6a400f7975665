"""Changes of volumes and claims that binds wait for: what is asked of an API server, and what its
answers come to."""

from typing import Any

import pytest

from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.messages import ObjectSeen, Unknown, WriteObject, WriteRefused, Written
from eventsched.domain.objects.registry import PersistentVolume, PersistentVolumeClaim
from eventsched.domain.records.object_writes import BindVolume, SelectNode
from tests.kube import skipping_time
from tests.kube.scripted import (
    CUT,
    SILENCE,
    Object,
    RecordedRequest,
    ScriptedAnswer,
    failure,
    serving,
)

BIND = WriteObject(
    "p1", "shop", "web", 1, BindVolume(volume="v", namespace="shop", claim="c", claim_uid="u-c")
)
SELECT = WriteObject(
    "p1", "shop", "web", 1, SelectNode(namespace="shop", claim="c", claim_uid="u-c", node="n1")
)
VOLUME = "/api/v1/persistentvolumes/v"
CLAIM = "/api/v1/namespaces/shop/persistentvolumeclaims/c"
MERGE = "application/merge-patch+json"
REFERENCE = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "shop", "name": "c",
    "uid": "u-c",
}  # fmt: skip
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}
CONFLICTS = {
    resource: f'Operation cannot be fulfilled on {resource} "{name}": the object has been '
    "modified; please apply your changes to the latest version and try again"
    for resource, name in (("persistentvolumes", "v"), ("persistentvolumeclaims", "c"))
}


def volume(version: int = 8, **spec: Any) -> ScriptedAnswer:
    """The volume as an API server shows it."""
    metadata = {"name": "v", "uid": "u-v", "resourceVersion": str(version)}
    made: Object = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata}
    return ScriptedAnswer(200, {**made, "spec": spec, "status": {"phase": "Available"}})


def volume_seen(version: int = 8, claim: tuple[str, str, str] | None = None) -> ObjectSeen:
    """The same as scheduling reads it."""
    kept = PersistentVolume(name="v", uid="u-v", phase="Available", claim=claim)
    return ObjectSeen(kept, version)


def claim(version: int = 8, uid: str = "u-c", notes: Object | None = None) -> ScriptedAnswer:
    """The claim as an API server shows it."""
    metadata: Object = {"name": "c", "namespace": "shop", "uid": uid,
                        "resourceVersion": str(version)}  # fmt: skip
    if notes:
        metadata["annotations"] = notes
    made = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
    return ScriptedAnswer(200, {**made, "spec": {}, "status": {"phase": "Pending"}})


def claim_seen(
    version: int = 8, uid: str = "u-c", notes: dict[str, str] | None = None
) -> ObjectSeen:
    """The same as scheduling reads it."""
    notes = notes or {}
    node = notes.get("volume.kubernetes.io/selected-node", "")
    kept = PersistentVolumeClaim(
        name="c", namespace="shop", uid=uid, phase="Pending", annotations=notes, selected_node=node
    )
    return ObjectSeen(kept, version)


def carried_out(request: WriteObject, *said: ScriptedAnswer) -> tuple[list[RecordedRequest], Any]:
    """The requests that a server with these answers gets, and the outcome."""

    async def run() -> tuple[list[RecordedRequest], Any]:
        async with serving(said) as (server, api):
            answer = await RequestDispatcher(api, host="h").carry_out(request)
            return server.asked, answer

    return skipping_time.run(run())


def test_a_volume_is_bound_at_the_version_that_was_read() -> None:
    """A volume without a claim gets an annotation, so that it is released with its claim."""
    asked, answer = carried_out(BIND, volume(8), volume(9, claimRef=REFERENCE))
    patch = {
        "metadata": {
            "uid": "u-v", "resourceVersion": "8",
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"},
        },
        "spec": {"claimRef": REFERENCE},
    }  # fmt: skip
    assert [each.what for each in asked] == [f"GET {VOLUME}", f"PATCH {VOLUME}"]
    assert asked[1] == RecordedRequest(f"PATCH {VOLUME}", patch, MERGE)
    assert answer == Written(BIND, volume_seen(9, ("shop", "c", "u-c")))


def test_a_volume_that_was_reserved_by_name_gets_the_uid() -> None:
    reference = {"namespace": "shop", "name": "c"}
    asked, _ = carried_out(BIND, volume(8, claimRef=reference), volume(9, claimRef=REFERENCE))
    assert asked[1].body == {
        "metadata": {"uid": "u-v", "resourceVersion": "8", "annotations": {}},
        "spec": {"claimRef": REFERENCE},
    }


def test_a_node_is_selected_for_a_claim() -> None:
    asked, answer = carried_out(SELECT, claim(8), claim(9, notes=SELECTED))
    patch = {"metadata": {"uid": "u-c", "resourceVersion": "8", "annotations": SELECTED}}
    assert [each.what for each in asked] == [f"GET {CLAIM}", f"PATCH {CLAIM}"]
    assert asked[1] == RecordedRequest(f"PATCH {CLAIM}", patch, MERGE)
    assert answer == Written(SELECT, claim_seen(9, notes=SELECTED))


@pytest.mark.parametrize(
    ("request_", "shown", "seen"),
    [
        (BIND, volume(claimRef=REFERENCE), volume_seen(8, ("shop", "c", "u-c"))),
        (SELECT, claim(notes=SELECTED), claim_seen(notes=SELECTED)),
    ],
)
def test_a_change_that_the_object_has_already_is_not_written(
    request_: Any, shown: ScriptedAnswer, seen: Any
) -> None:
    asked, answer = carried_out(request_, shown)
    assert (len(asked), answer) == (1, Written(request_, seen))


ANOTHER = {**REFERENCE, "name": "d", "uid": "u-d"}
NOT_FOUND = failure(404, "NotFound", 'persistentvolumes "v" not found')
FORBIDDEN = failure(
    403, "Forbidden", 'persistentvolumes "v" is forbidden: User "me" cannot get resource '
    '"persistentvolumes" in API group "" at the cluster scope',
)  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "said", "answer"),
    [
        (BIND, [NOT_FOUND], WriteRefused(BIND, 'persistentvolumes "v" not found')),
        (
            BIND,
            [volume(claimRef=ANOTHER)],
            WriteRefused(
                BIND, CONFLICTS["persistentvolumes"], volume_seen(8, ("shop", "d", "u-d"))
            ),
        ),
        (BIND, [volume(), failure(409, "Conflict", "modified")], WriteRefused(BIND, "modified")),
        (BIND, [volume(), failure(422, "Invalid", "bad")], WriteRefused(BIND, "bad")),
        (
            SELECT,
            [claim(uid="new")],
            WriteRefused(SELECT, 'persistentvolumeclaims "c" not found', claim_seen(uid="new")),
        ),
        (
            SELECT,
            [claim(notes={**SELECTED, "volume.kubernetes.io/selected-node": "n2"})],
            WriteRefused(
                SELECT,
                CONFLICTS["persistentvolumeclaims"],
                claim_seen(notes={"volume.kubernetes.io/selected-node": "n2"}),
            ),
        ),
        (BIND, [CUT], Unknown(BIND)),
        (BIND, [volume(), CUT], Unknown(BIND)),
        (BIND, [volume(), SILENCE], Unknown(BIND)),
        (BIND, [failure(500, "InternalError")], Unknown(BIND)),
        (BIND, [volume(), failure(503, "ServiceUnavailable")], Unknown(BIND)),
        (BIND, [failure(401, "Unauthorized")], Unknown(BIND)),
    ],
)
def test_outcomes_of_other_answers(request_: Any, said: list[ScriptedAnswer], answer: Any) -> None:
    """The write is refused, or its outcome is unknown and the request is repeated."""
    assert carried_out(request_, *said)[1] == answer


def test_a_volume_that_cannot_be_read() -> None:
    _, answer = carried_out(BIND, volume(capacity={"storage": "much"}))
    assert isinstance(answer, WriteRefused)
    assert "storage" in answer.message


def test_a_forbidden_write_is_reported_with_the_missing_rule() -> None:
    async def run() -> tuple[Any, list[str]]:
        async with serving([FORBIDDEN]) as (_, api):
            calls = RequestDispatcher(api, host="h")
            return await calls.carry_out(BIND), calls.refusals.present

    answer, present = skipping_time.run(run())
    assert isinstance(answer, WriteRefused)
    [said] = present
    rule = '{apiGroups: [""], resources: ["persistentvolumes"], verbs: ["get"]}'
    assert said.startswith("may not get persistentvolumes: ")
    assert f"add the rule {rule}" in said
