"""Pods as a snapshot stores them: the same pods come back, and shared parts are stored once."""

from typing import Any

import msgspec
import pytest

from eventsched.domain.objects import Owner, Pod, PodSpec, PodVolume
from eventsched.domain.records import Queue
from eventsched.domain.state.pod_blocks import (
    BlockEncoder,
    PodBlock,
    PodSnapshot,
    SharedParts,
    decoded_pods,
)
from eventsched.testing import make_pod

SPEC = make_pod("any", cpu=100).spec
WHOLE = Pod(
    uid="u", name="web-0", namespace="shop", labels={"app": "web"}, annotations={"note": "x"},
    owner=Owner(kind="StatefulSet", name="web", uid="o", foreign=True), priority=7,
    scheduler_name="mine", node_name="n1", gates=("g",), deleting=True, created_at=3, spec=SPEC,
    volumes=(PodVolume(name="data", claim="data-web-0"),), resource_claims=("gpu-web-0",),
    preemption_policy="Never", nominated_node="n2", started_at=4, displaced=True,
)  # fmt: skip
"""A pod in which no field has its default value."""


def held(pod: Pod, number: int = 0) -> PodSnapshot:
    return PodSnapshot(
        pod, 5, "n1", 6, True, Queue.BACKOFF, 7, 8, 9, 10, 11, 12, 13, ("A",), ("B",), number
    )


def through_bytes(pods: list[PodSnapshot]) -> tuple[list[PodSnapshot], SharedParts]:
    encoder = BlockEncoder()
    body = msgspec.json.encode((list(encoder.blocks(pods)), encoder.shared))
    blocks, shared = msgspec.json.decode(body, type=tuple[list[PodBlock], SharedParts])
    return decoded_pods(blocks, shared), shared


def test_the_pod_has_every_field() -> None:
    for field in msgspec.structs.fields(Pod):
        assert getattr(WHOLE, field.name) != field.default, field.name


@pytest.mark.parametrize("name", Pod.__struct_fields__)
def test_every_field_of_a_pod_comes_back(name: str) -> None:
    """Beside a pod that is equal in all other fields."""
    plain = Pod(uid="", name="")
    value: Any = PodSpec(guaranteed=True) if name == "spec" else getattr(plain, name)
    other = msgspec.structs.replace(WHOLE, **{name: value})
    pods = [held(WHOLE), held(other, 1), held(WHOLE, 2)]
    assert through_bytes(pods)[0] == pods


def test_copies_share_all_but_what_is_their_own() -> None:
    pods = [
        held(msgspec.structs.replace(WHOLE, uid=f"u{index}", name=f"web-{index}"), index)
        for index in range(600)
    ]
    found, shared = through_bytes(pods)
    assert found == pods
    assert len(shared.pods) == 1
    assert shared.texts == [WHOLE.labels, WHOLE.annotations]
    assert found[0].pod.spec is found[599].pod.spec


def test_without_pods_there_is_nothing() -> None:
    assert through_bytes([]) == ([], SharedParts())


@pytest.mark.parametrize(
    ("field", "value"),
    [("shared", [1]), ("labels", [9]), ("uid", []), ("row", [1, 2]), ("number", [])],
)
def test_blocks_that_contradict_each_other_are_refused(field: str, value: list[Any]) -> None:
    encoder = BlockEncoder()
    [block] = encoder.blocks([held(WHOLE)])
    damaged = msgspec.structs.replace(block, **{field: value})
    with pytest.raises(msgspec.ValidationError, match="a block of pods"):
        decoded_pods([damaged], encoder.shared)
