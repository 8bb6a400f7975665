"""Volume plugins at work: what a pod's volumes let it do, what is kept for pods in flight, and
when that ends."""

from typing import Any

import msgspec

from eventsched.domain import records
from eventsched.domain.objects import PodVolume, Requirement
from eventsched.domain.objects.registry import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    StorageClass,
    VolumeAttachment,
)
from eventsched.domain.records import (
    Outcome,
    PodUnreserved,
)
from eventsched.plugins.node_volume_limits import NodeVolumeLimits
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.plugins.volume_restrictions import VolumeRestrictions
from eventsched.plugins.volume_zone import VolumeZone
from tests.builders import (
    SECOND,
    added,
    attempted,
    backing_off,
    engine_of,
    make_pod,
    observed,
    parked,
    refused,
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
    message,
    node,
    pod,
    promise,
    remembered,
    shown,
    volume,
)

# --- reservations -------------------------------------------------------------------------


def test_a_volume_is_reserved_for_the_pod_that_was_placed_with_it() -> None:
    made = engine(LOCAL, node(), claim("c"), claim("d"), volume(), pod(), pod("p2", "d"))
    kept = key("volume", "v")
    assert attempted(made) == [
        scheduled(outcome=Outcome.WAITING, carry=carried(("volume", "v", "c", True))),
        remembered(kept, "p1"),
        intended(promise()),
    ]
    why = "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
    assert attempted(made)[1:] == [
        refused("p2", why, counts=((1, 1),)), parked("p2", "VolumeBinding")
    ]  # fmt: skip


def test_a_reserved_volume_is_released_when_its_write_fails() -> None:
    made = engine(LOCAL, node(), claim(), volume(), pod())
    attempted(made)
    failed = records.WriteFailed(uid="p1", attempt=1, write=promise(), message="no")
    assert observed(made, failed) == [
        failed,
        PodUnreserved(uid="p1", node="n1", plugin="VolumeBinding", message="no"),
        backing_off(cause="BindingFailed", plugin="VolumeBinding", message="no"),
        remembered(key("volume", "v")),
    ]
    assert not made.state.memory["VolumeBinding"]


def test_a_pod_that_lacked_the_volume_wakes_when_it_is_released() -> None:
    """Not when a pod goes that is bound: its volume stays with its claim."""
    made = engine(LOCAL, node(), claim("c"), claim("d"), volume(), pod(), pod("p2", "d"))
    attempted(made)
    attempted(made)
    observed(made, *added(pod("p3", "e", node_name="n1")), records.PodDeleted(uid="p3"))
    waiting = made.state.pods["p2"]
    assert waiting.queue == records.Queue.UNSCHEDULABLE
    observed(made, records.PodDeleted(uid="p1"), at=2 * SECOND)
    assert made.state.pods["p2"].queue == records.Queue.ACTIVE
    assert message(made) == Outcome.WAITING


def test_a_volume_is_provisioned_on_the_node_of_its_first_pod() -> None:
    made = engine(WAIT, node("n1"), claim(storage_class="wait"), pod())
    attempted(made)
    assert made.state.memory["VolumeBinding"] == {key("node", "n1"): ["p1"]}
    observed(made, *added(node("n2"), pod("p2")))
    assert decided(made).node == "n1"
    assert made.state.memory["VolumeBinding"] == {key("node", "n1"): ["p1", "p2"]}
    observed(made, records.PodDeleted(uid="p1"))
    assert made.state.memory["VolumeBinding"] == {key("node", "n1"): ["p2"]}


def test_a_reservation_lasts_until_the_volume_shows_the_binding() -> None:
    made = engine(LOCAL, node(), claim("c"), claim("d"), volume(), pod())
    attempted(made)
    observed(made, *added(pod("p2", "d")))
    assert "didn't find available persistent volumes" in message(made)
    observed(made, shown(claim("c", volume="v", bound=True)), *added(pod("p3", "d")))
    assert "didn't find available persistent volumes" in message(made)
    observed(made, shown(volume(claim=("default", "c", "uid-c"))), shown(volume("w")), at=9_000_000)
    assert attempted(made)[1:] == [
        remembered(key("volume", "v")),
        remembered(key("volume", "w", "d"), "p2"),
        intended(promise("w", "d"), uid="p2", attempt=2, at=9 * SECOND),
    ]


def test_a_recreated_claim_does_not_inherit_the_reservation() -> None:
    made = engine(LOCAL, node(), claim(), volume(), pod())
    attempted(made)
    observed(made, shown(claim(uid="another")), *added(pod("p2")))
    attempted(made)
    assert list(made.state.memory["VolumeBinding"]) == ['["volume","v","default","c","another"]']


def test_reservations_survive_a_restart() -> None:
    made = engine(LOCAL, node(), claim("c"), claim("d"), volume(), pod())
    attempted(made)
    other = engine_of(VolumeBinding())
    other.restore(made.snapshot(), made.position)
    assert other.state.digest() == made.state.digest()
    observed(other, *added(pod("p2", "d")))
    assert "didn't find available persistent volumes" in message(other)
    failed = records.WriteFailed(uid="p1", attempt=1, write=promise(), message="no")
    observed(other, failed, *added(pod("p3", "d")))
    assert message(other) == Outcome.WAITING


def test_a_promised_volume_is_not_reserved_twice() -> None:
    mine = volume(claim=("default", "c", "uid-c"))
    made = engine(LOCAL, node(), claim(), mine, pod())
    assert attempted(made) == [
        scheduled(outcome=Outcome.WAITING, carry=carried(("volume", "v", "c", False))),
        intended(),
    ]


def test_pods_without_volumes_share_their_columns() -> None:
    plugins: list[Any] = [VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone()]
    plain = make_pod(volumes=(PodVolume(name="x", driver="csi.example.com"),))
    assert [each.sign(make_pod()) for each in plugins] == [()] * 4
    assert [each.sign(plain) for each in plugins] == [()] * 4
    assert [each.sign(pod()) for each in plugins] == [None] * 4
    own = make_pod(volumes=(PodVolume(name="x", claim="p1-x", ephemeral=True),))
    assert [each.sign(own) for each in plugins] == [(), None, None, ()]


# --- verdicts -----------------------------------------------------------------------------


def test_the_smallest_volume_that_fits() -> None:
    volumes = [volume("a", capacity=20), volume("b", capacity=10), volume("c", capacity=5)]
    made = engine(LOCAL, node(), claim(requested=7), *volumes, pod())
    attempted(made)
    assert list(made.state.memory["VolumeBinding"]) == [key("volume", "b")]


def test_two_claims_get_two_volumes() -> None:
    volumes = [volume("a", capacity=5), volume("b", "n1", "n2", capacity=10)]
    claims = [claim("c", requested=1), claim("d", requested=2)]
    made = engine(LOCAL, node("n2"), node("n1"), *claims, *volumes, pod("p1", "c", "d"))
    assert decided(made).node == "n1"
    held = {key("volume", "a"): ["p1"], key("volume", "b", "d"): ["p1"]}
    assert made.state.memory["VolumeBinding"] == held


def test_no_volume_is_chosen_twice() -> None:
    """Small claims first; the third one's first two choices are taken, in the other order."""
    labelled = volume("b", capacity=6, labels={"kind": "x"})
    volumes = [volume("a", capacity=5), labelled, volume("c", capacity=7)]
    wanted = (Requirement(key="kind", operator="In", values=("x",)),)
    claims = [claim("e", requested=3), claim("d", requested=2), claim("c", selector=wanted)]
    made = engine(LOCAL, node(), *claims, *volumes, pod("p1", "e", "d", "c"))
    attempted(made)
    held = [key("volume", "b", "c"), key("volume", "a", "d"), key("volume", "c", "e")]
    assert list(made.state.memory["VolumeBinding"]) == held


def test_volumes_are_found_on_nodes_that_were_added_later() -> None:
    made = engine(LOCAL, node("n1"), claim("c"), claim("d"), volume("v", "n2"), pod())
    assert "didn't find available persistent volumes" in message(made)
    observed(made, *added(node("n2"), pod("p2", "d")))
    assert decided(made).node == "n2"


def test_the_first_claim_that_cannot_be_made_gives_the_reason() -> None:
    pools = StorageClass(name="pools", provisioner="p", binding_mode="WaitForFirstConsumer")
    claims = [claim("c", storage_class="pools", requested=5), claim("d", requested=9)]
    things = [LOCAL, pools, CSIDriver(name="p", capacity=True)]
    made = engine(node(), *things, *claims, pod("p1", "c", "d"))
    no_room = "0/1 nodes are available: 1 node(s) did not have enough free storage."
    assert message(made) == no_room
    pool = CSIStorageCapacity(name="s", storage_class="pools", topology=(), capacity=4)
    observed(made, shown(pool), at=2_000_000)
    assert message(made) == no_room
    observed(made, shown(msgspec.structs.replace(pool, capacity=5)), at=9_000_000)
    assert "didn't find available persistent volumes" in message(made)


def test_a_claim_for_one_pod() -> None:
    mine = claim(access_modes=("ReadWriteOncePod",), volume="v", bound=True)
    made = engine(node(), mine, volume(), pod("p1", node_name="n1"), pod("p2"))
    assert message(made) == (
        "0/1 nodes are available: 1 node(s) unavailable due to PersistentVolumeClaim with "
        "ReadWriteOncePod access mode already in-use by another pod."
    )
    observed(made, records.PodDeleted(uid="p1"), at=2_000_000)
    assert message(made) == Outcome.SCHEDULED


def test_a_node_takes_so_many_volumes() -> None:
    limited = CSINode(name="n1", drivers=(NodeDriver(name="csi.example.com", limit=1),))
    claims = [claim("c", volume="v", bound=True), claim("d", volume="w", bound=True)]
    volumes = [
        volume(name, driver="csi.example.com", handle=name, node_terms=None) for name in "vw"
    ]
    made = engine(node(), limited, *claims, *volumes, pod("p1", node_name="n1"), pod("p2", "d"))
    assert "1 node(s) exceed max volume count" in message(made)
    observed(made, *added(pod("p3", "c")))
    assert message(made) == Outcome.SCHEDULED  # the same volume is not counted twice
    more = msgspec.structs.replace(limited, drivers=(NodeDriver(name="csi.example.com", limit=2),))
    observed(made, shown(more), at=2_000_000)
    assert message(made) == Outcome.SCHEDULED


def test_an_attached_volume_counts_without_a_pod_and_once_with_it() -> None:
    limited = CSINode(name="n1", drivers=(NodeDriver(name="csi.example.com", limit=2),))
    csi = {"driver": "csi.example.com", "node_terms": None}
    things: list[Any] = [node(), limited]
    for name in "vwx":
        things += [volume(name, handle=name, **csi), claim(f"c{name}", volume=name, bound=True)]
    attached = VolumeAttachment(name="a", attacher="csi.example.com", node="n1", volume="v")
    made = engine(*things, attached, pod("p1", "cv", node_name="n1"), pod("p2", "cw"))
    assert message(made) == Outcome.SCHEDULED
    observed(made, *added(pod("p3", "cx")))
    assert "1 node(s) exceed max volume count" in message(made)
    observed(made, records.PodDeleted(uid="p1"), at=2_000_000)
    assert "1 node(s) exceed max volume count" in message(made)
    gone = records.ObjectDeleted(type="VolumeAttachment", name="a")
    observed(made, gone, at=9_000_000)
    assert message(made) == Outcome.SCHEDULED
