"""Brings the log and the cluster to agreement: before a leader's first attempt, and after a gap in
a watch.

After a clean takeover the log is complete: an effect that it does not intend was never requested.
After lost history (a failover, or a restored backup that lacks committed batches) the log may lack
intents whose binds are still on their way, and outcomes of intents that it shows as open.
Therefore:

1. Every pod without a node is touched. A bind that is still on its way then fails.
2. The cluster is listed, and the differences are observed.
3. Everything that the log still promises is voided.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from eventsched.cluster.messages import (
    Listed,
    Listing,
    PodRequest,
    PodSeen,
    TouchPod,
    WriteEvent,
    WriteObject,
)
from eventsched.domain import records
from eventsched.domain.objects.registry import TYPES
from eventsched.domain.records import Stimulus, StreamStarted
from eventsched.domain.records.stimuli import in_force
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.chain import Term
from eventsched.eventlog.port import continues
from eventsched.runtime.reconciliation.seen_versions import (
    NODE,
    POD,
    SeenResources,
    key_of_object,
    resource_and_key,
)

LOST = "history was lost"
CROWDED = "the node is full"
ORDER = {resource: number for number, resource in enumerate([*TYPES, NODE, POD])}
"""Objects are observed in this order, and ends in the reverse order: a pod comes after what its
scheduling depends on, and goes before it."""


def term_record(
    state: SchedulerState, term: Term, opening: StreamStarted, timeline: str = ""
) -> records.TermBegan:
    """A term's first record. It names configuration and plugins only if they have changed, and the
    database's ``timeline`` only if the log has it in the form of version 0.1."""
    is_newer_form = timeline != state.timeline and continues(timeline, state.timeline)
    began = records.TermBegan(
        epoch=term.epoch, token=term.token.hex()[:8], timeline=timeline if is_newer_form else ""
    )
    if state.in_force == in_force(opening):
        return began
    return msgspec.structs.replace(
        began,
        engine=opening.engine,
        inputs=opening.inputs,
        configuration=opening.configuration,
        flags=opening.flags,
        plugins=opening.plugins,
    )


class PodToucher:
    """Touches all pods without a node, a limited number at a time."""

    def __init__(self, listed: Listed, at_once: int) -> None:
        self._at_once = at_once
        objects = (seen for listing in listed.listings for seen in listing.seen)
        pods = (seen.pod for seen in objects if isinstance(seen, PodSeen))
        self._waiting = [
            TouchPod(pod.uid, pod.namespace, pod.name) for pod in pods if not pod.node_name
        ]
        self._waiting.reverse()
        self._under_way: set[str] = set()

    @property
    def done(self) -> bool:
        """Whether every pod has been touched."""
        return not self._waiting and not self._under_way

    def next_requests(self) -> list[TouchPod]:
        """The touches that are to be requested now."""
        touches = []
        while self._waiting and len(self._under_way) < self._at_once:
            touch = self._waiting.pop()
            touches.append(touch)
            self._under_way.add(touch.uid)
        return touches

    def answered(self, request: PodRequest | WriteEvent | WriteObject) -> None:
        """A pod was touched, or is gone."""
        self._under_way.discard(request.uid)


def gaps(
    listings: Iterable[Listing], seen_resources: SeenResources, since: int | None
) -> list[Stimulus]:
    """Records that watches had a gap. It begins at ``since``, or at the last event of each watch if
    that is None."""
    return [
        records.WatchRelisted(
            resource=listing.resource,
            since=seen_resources.of(listing.resource).upto if since is None else since,
            upto=listing.version,
        )
        for listing in listings
    ]


def differences(
    state: SchedulerState, listings: Iterable[Listing], seen_resources: SeenResources
) -> Iterator[Stimulus | None]:
    """What lists of resources show that the state does not: first the ends of objects, then changed
    objects, nodes, and pods. None for an object that does not differ, so that the caller can take a
    break. The state must not change before the end."""
    ordered = sorted(listings, key=lambda listing: ORDER[listing.resource])
    keyed: list[tuple[Listing, set[str]]] = []
    for listing in ordered:
        keys: set[str] = set()
        for seen in listing.seen:
            keys.add(resource_and_key(seen)[1])
            yield None
        keyed.append((listing, keys))
    for listing, keys in reversed(keyed):
        yield from _ends(state, listing.resource, keys)
    for listing, keys in keyed:
        yield from seen_resources.note_listed(listing.seen)
        seen_resources.of(listing.resource).note_list(listing.version, keys)


def _ends(state: SchedulerState, resource: str, listed: set[str]) -> Sequence[Stimulus]:
    """The ends of the objects that the state knows and that are not ``listed``."""
    if resource == POD:
        return [records.PodDeleted(uid=uid) for uid in state.pods if uid not in listed]
    if resource == NODE:
        return [records.NodeDeleted(name=name) for name in state.nodes.rows if name not in listed]
    return [
        records.ObjectDeleted(type=resource, namespace=namespace, name=name)
        for namespace, name in state.registry.all(TYPES[resource])
        if key_of_object(namespace, name) not in listed
    ]


def is_crowded(state: SchedulerState, uid: str) -> bool:
    """Whether the node that is reserved for a pod is gone or overbooked, because another scheduler
    has placed pods there."""
    row = state.pods[uid].row
    return row < 0 or state.nodes.overbooked([row]) > 0


def void(state: SchedulerState, uid: str, reason: str, version: int = 0) -> Stimulus:
    """The end of a reservation whose bind cannot succeed any more. ``version`` is the
    resourceVersion in which the pod was touched."""
    reservation = state.reservations[uid]
    return records.BindVoided(
        uid=uid,
        node=reservation.node,
        attempt=reservation.attempt,
        reason=reason,
        resource_version=version,
    )
