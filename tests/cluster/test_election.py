"""The election by a Lease of a real API server, with the rights of kube-scheduler."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.lease.candidate import Timing
from eventsched.cluster.kube.lease.election import LeaseParticipant
from tests.cluster.harness.client import Object
from tests.cluster.harness.plane import ControlPlane
from tests.waiting import LIMIT

SCHEDULER = "system:kube-scheduler"
SHORT = Timing(lease_duration=3.0, renew_deadline=1.5, retry_period=0.3)
STEADY = Timing(lease_duration=60.0, renew_deadline=50.0, retry_period=0.3)
PATIENT = Timing(lease_duration=120.0, renew_deadline=100.0, retry_period=50.0)


def lease(plane: ControlPlane) -> Object:
    """What the Lease says."""
    return plane.admin.get("Lease", "kube-scheduler", "kube-system")


def played(
    plane: ControlPlane, play: Callable[[Callable[..., LeaseParticipant]], Awaitable[Any]]
) -> Any:
    """Plays with candidates; ``play`` is given a function that makes one by name and timing."""
    kubeconfig = plane.write_kubeconfig("scheduler", {"token": plane.token(SCHEDULER)})

    async def run() -> Any:
        api = await connect(kubeconfig)
        made: list[LeaseParticipant] = []

        def candidate(identity: str, timing: Timing = PATIENT) -> LeaseParticipant:
            made.append(
                LeaseParticipant(api, namespace="kube-system", name="kube-scheduler",
                                 identity=identity, timing=timing)
            )  # fmt: skip
            made[-1].start()
            return made[-1]

        try:
            async with asyncio.timeout(60):
                return await play(candidate)
        finally:
            for each in made:
                await each.close()
            await api.close()

    try:
        return asyncio.run(run())
    finally:
        plane.admin.delete("Lease", "kube-scheduler", "kube-system")


async def known(election: LeaseParticipant, leader: str) -> None:
    """Waits until a candidate knows and watches the leader."""
    async with asyncio.timeout(60):
        while election.leader != leader or not election._candidate.watched:
            await asyncio.sleep(0.01)


def test_a_released_lease_is_taken_at_once_and_counts_its_transitions(plane: ControlPlane) -> None:
    async def play(candidate: Callable[..., LeaseParticipant]) -> list[Any]:
        first = candidate("a_1")
        await first.won()
        created = lease(plane)["spec"]
        second = candidate("b_2")
        await known(second, "a_1")
        await first.release()
        await second.won()
        return [created, lease(plane)["spec"], first.leading, first.lost.is_set()]

    created, taken, leading, lost = played(plane, play)
    assert (created["holderIdentity"], created["leaseTransitions"]) == ("a_1", 0)
    assert created["leaseDurationSeconds"] == 120
    assert created["acquireTime"] == created["renewTime"]
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("b_2", 1)
    assert (leading, lost) == (False, True)


def test_a_deleted_lease_is_recreated_at_once(plane: ControlPlane) -> None:
    async def play(candidate: Callable[..., LeaseParticipant]) -> str:
        first = candidate("a_1")
        await first.won()
        second = candidate("b_2")
        await known(second, "a_1")
        await first.close()
        plane.admin.delete("Lease", "kube-scheduler", "kube-system")
        await second.won()
        return str(lease(plane)["spec"]["holderIdentity"])

    assert played(plane, play) == "b_2"


def test_a_lease_is_renewed_and_taken_when_its_holder_is_gone(plane: ControlPlane) -> None:
    async def play(candidate: Callable[..., LeaseParticipant]) -> tuple[bool, str]:
        first = candidate("a_1", SHORT)
        await first.won()
        begun = lease(plane)["spec"]["renewTime"]
        async with asyncio.timeout(60):
            while lease(plane)["spec"]["renewTime"] == begun:
                await asyncio.sleep(0.05)
        second = candidate("b_2", SHORT)
        await known(second, "a_1")
        both = first.leading and second.leading
        await first.close()
        await second.won()
        return both, str(lease(plane)["spec"]["holderIdentity"])

    assert played(plane, play) == (False, "b_2")


def test_what_others_wrote_into_its_metadata_stays(plane: ControlPlane) -> None:
    async def play(candidate: Callable[..., LeaseParticipant]) -> Object:
        first = candidate("a_1", STEADY)
        await first.won()
        labels = {"metadata": {"labels": {"example.org/kept": "yes"}}}
        plane.admin.patch("Lease", "kube-scheduler", labels, "kube-system",
                          content_type="application/merge-patch+json")  # fmt: skip
        begun = lease(plane)["spec"]["renewTime"]
        async with asyncio.timeout(60):
            while lease(plane)["spec"]["renewTime"] == begun:
                await asyncio.sleep(0.05)
        assert first.leading
        return lease(plane)["metadata"]

    assert played(plane, play)["labels"] == {"example.org/kept": "yes"}


def test_another_name_needs_a_role_of_its_own(plane: ControlPlane) -> None:
    kubeconfig = plane.write_kubeconfig("scheduler", {"token": plane.token(SCHEDULER)})

    async def run() -> list[str]:
        api = await connect(kubeconfig)
        election = LeaseParticipant(
            api, namespace="default", name="other", identity="a_1", timing=SHORT
        )
        election.start()
        try:
            async with asyncio.timeout(LIMIT):
                while len(election._refusals.present) < 2:
                    await asyncio.sleep(0.01)
            return election._refusals.present
        finally:
            await election.close()
            await api.close()

    present = sorted(asyncio.run(run()))
    assert [each.split(":")[0] for each in present] == [
        "may not get lease default/other",
        "may not watch lease default/other",
    ]
    for verb, text in zip(("get", "watch"), present, strict=True):
        rule = f'apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["{verb}"]'
        assert f"add the rule {{{rule}}} to the scheduler's role" in text
