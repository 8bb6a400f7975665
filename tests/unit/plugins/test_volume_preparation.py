"""What a pod with volumes waits for before it is bound: claims that are bound to volumes that are
there, or for which volumes are made; and when it gives up."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodUnreserved
from eventsched.domain.records.object_writes import SelectNode
from eventsched.scheduling.engine import Engine
from tests.builders import (
    SECOND,
    added,
    attempted,
    backing_off,
    make_node,
    observed,
    scheduled,
)
from tests.volumes import (
    LOCAL,
    WAIT,
    carried,
    claim,
    decided,
    engine,
    intended,
    key,
    node,
    pod,
    promise,
    remembered,
    selection,
    shown,
    volume,
    written,
)

BOUND = (
    shown(volume(claim=("default", "c", "uid-c"), phase="Bound")),
    shown(claim(volume="v", bound=True)),
)
BIND = records.BindIntended(uid="p1", node="n1", attempt=1)


def preparing(*things: Any) -> Engine:
    """p1 is to be bound to n1 once its volume is, or at least what is asked for is done."""
    made = engine(*things, pod())
    attempted(made)
    [write] = made.state.reservations["p1"].open_writes()
    if isinstance(write, SelectNode):
        observed(made, shown(claim(storage_class="wait", selected_node="n1", annotations=NOTED)))
    else:
        observed(made, shown(volume(claim=("default", "c", "uid-c"))))
    observed(made, written(write))
    return made


NOTED = {"volume.kubernetes.io/selected-node": "n1"}


def given_up(made: Engine, *stimuli: records.Stimulus) -> str:
    """What is said when the pod goes back to a queue."""
    found = [each for each in observed(made, *stimuli) if isinstance(each, PodUnreserved)]
    return found[0].message if found else ""


def test_a_pod_is_bound_when_its_claim_is_bound_to_the_volume() -> None:
    made = preparing(LOCAL, node(), claim(), volume())
    observed(made, BOUND[0])
    assert observed(made, BOUND[1]) == [BOUND[1], BIND]


def test_a_pod_is_bound_when_its_volume_is_provisioned() -> None:
    """Also where the volume shows after the claim that names it."""
    made = preparing(WAIT, node(), claim(storage_class="wait"))
    done = shown(
        claim(storage_class="wait", selected_node="n1", annotations=NOTED, volume="w", bound=True)
    )
    assert observed(made, done) == [done]
    there = shown(volume("w", storage_class="wait", claim=("default", "c", "uid-c")))
    assert observed(made, there) == [there, BIND]


def test_a_pod_waits_for_both_of_its_claims() -> None:
    made = engine(LOCAL, WAIT, node(), claim("c"), claim("d", storage_class="wait"), volume(),
                  pod("p1", "c", "d"))  # fmt: skip
    writes = attempted(made)[-1].writes["VolumeBinding"]
    assert writes == (promise(), selection("n1", "d"))
    observed(made, *BOUND, written(promise()))
    selected = {"storage_class": "wait", "selected_node": "n1", "annotations": NOTED}
    observed(made, shown(claim("d", **selected)), written(selection("n1", "d")))
    assert not made.state.reservations["p1"].intended
    observed(made, shown(volume("w", storage_class="wait", claim=("default", "d", "uid-d"))))
    observed(made, shown(claim("d", volume="w", bound=True, **selected)))
    assert made.state.reservations["p1"].intended


def test_a_claim_whose_node_was_selected_before_is_only_waited_for() -> None:
    """By another pod that uses it, or before a restart."""
    selected = claim(storage_class="wait", selected_node="n1", annotations=NOTED)
    made = engine(WAIT, node(), selected, pod())
    assert attempted(made) == [
        scheduled(outcome=Outcome.WAITING, carry=carried(("node", "n1", "c", False))),
        intended(),
    ]


def test_a_pod_with_bound_claims_waits_for_nothing() -> None:
    made = engine(LOCAL, node(), claim(volume="v", bound=True), volume(), pod())
    assert attempted(made) == [scheduled()]


@pytest.mark.parametrize(
    ("stimuli", "words"),
    [
        ([shown(volume())], 'ClaimRef got reset for pv "v"'),
        ([shown(volume(claim=("default", "d", "uid-d")))], 'ClaimRef got reset for pv "v"'),
        (
            [shown(volume("v", "n2", claim=("default", "c", "uid-c")))],
            'pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
        ),
        (
            [records.NodeUpdated(node=make_node())],
            'pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
        ),
        ([records.NodeDeleted(name="n1")], 'failed to get node "n1": node "n1" not found'),
        (
            [records.ObjectDeleted(type="PersistentVolume", name="v")],
            'failed to check binding: persistentvolumes "v" not found',
        ),
        (
            [records.ObjectDeleted(type="PersistentVolumeClaim", name="c", namespace="default")],
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
        (
            [shown(claim(uid="another"))],
            'failed to check binding: persistentvolumeclaims "default/c" not found',
        ),
    ],
)
def test_a_volume_that_can_no_longer_be_bound_fails_the_attempt(
    stimuli: list[Any], words: str
) -> None:
    made = preparing(LOCAL, node(), claim(), volume())
    assert given_up(made, *stimuli) == f"binding volumes: {words}"
    assert not made.state.memory["VolumeBinding"]


@pytest.mark.parametrize(
    ("stimuli", "words"),
    [
        (
            [shown(claim(storage_class="wait", annotations={"provisioner": "x"}))],
            'provisioning failed for PVC "c"',
        ),
        ([shown(claim(storage_class="wait"))], 'selectedNode annotation reset for PVC "c"'),
        (
            [shown(claim(storage_class="wait", selected_node="n2", annotations=NOTED))],
            'provisioning failed for PVC "c"',
        ),
        (
            [records.ObjectDeleted(type="PersistentVolumeClaim", name="c", namespace="default")],
            'failed to check provisioning pvc: persistentvolumeclaims "default/c" not found',
        ),
        (
            [
                shown(volume("w", "n2", storage_class="wait")),
                shown(claim(storage_class="wait", selected_node="n1", volume="w",
                            annotations=NOTED)),
            ],
            'pv "w" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
        ),
    ],
)  # fmt: skip
def test_a_volume_that_is_not_provisioned_fails_the_attempt(stimuli: list[Any], words: str) -> None:
    """A provisioner that gives up takes the annotation away: the pod is tried again elsewhere."""
    made = preparing(WAIT, node(), claim(storage_class="wait"))
    assert given_up(made, *stimuli) == f"binding volumes: {words}"
    assert not made.state.memory["VolumeBinding"]


def test_volumes_that_take_too_long() -> None:
    made = preparing(LOCAL, node(), claim(), volume())
    assert made.due == 600 * SECOND
    tick = records.TimePassed()
    message = "binding volumes: context deadline exceeded"
    assert observed(made, tick, at=600 * SECOND) == [
        tick,
        PodUnreserved(uid="p1", node="n1", plugin="VolumeBinding", message=message),
        backing_off(
            cause="BindingFailed", plugin="VolumeBinding", until=601 * SECOND, message=message
        ),
        # What it held was swept or given up: the volume is the claim's by now.
        remembered(key("volume", "v")),
    ]


def test_a_pod_that_is_tried_again_goes_where_its_volume_is() -> None:
    """What was written stays, as upstream: there is no way back for that."""
    made = preparing(LOCAL, node(), claim(), volume())
    observed(made, records.TimePassed(), at=600 * SECOND)
    observed(made, *added(node("n2")), records.TimePassed(), at=602 * SECOND)
    again = decided(made)
    assert (again.node, again.carry) == ("n1", carried(("volume", "v", "c", False)))
