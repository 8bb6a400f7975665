"""What a new leader does before its first attempt, and after a gap in a watch: the log and the
cluster are brought to agree.

After a clean takeover the log is complete: what it does not intend was never sent. After lost
history (a failover or a restored backup that lacks committed batches) it may be missing intents
whose binds are still on their way, and ends of intents that it shows as open. So every pod without
a node is touched, which stops whatever is on its way; what the cluster has then is taken in; and
everything that the log still promises is void.
"""

from collections.abc import Iterable, Sequence

import msgspec

from eventsched.cluster.messages import (
    Announce,
    Listed,
    Listing,
    PodRequest,
    PodSeen,
    Seen,
    TouchPod,
    WriteObject,
)
from eventsched.domain import records
from eventsched.domain.objects.registry import TYPES
from eventsched.domain.records import Stimulus, StreamStarted
from eventsched.domain.records.stimuli import in_force
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.chain import Term
from eventsched.runtime.reconciliation.seen_versions import (
    NODE,
    POD,
    SeenResources,
    key_of_object,
    place_of,
)

LOST = "history was lost"
CROWDED = "the node is full"
ORDER = {resource: number for number, resource in enumerate([*TYPES, NODE, POD])}
"""A pod comes after what its scheduling depends on, and goes before it."""


def beginning(state: SchedulerState, term: Term, opening: StreamStarted) -> records.TermBegan:
    """A term's first record. It says what is in force, where that is not what was before."""
    began = records.TermBegan(epoch=term.epoch, token=term.token.hex()[:8])
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


class Fence:
    """Touches pods, some at a time, and knows which of them have not been touched yet."""

    def __init__(self, listed: Listed, at_once: int) -> None:
        self._at_once = at_once
        self._waiting = [
            TouchPod(pod.uid, pod.namespace, pod.name)
            for pod in (each.pod for each in _seen(listed) if isinstance(each, PodSeen))
            if not pod.node_name
        ]
        self._waiting.reverse()
        self._under_way: set[str] = set()

    @property
    def done(self) -> bool:
        """Whether every pod has been touched."""
        return not self._waiting and not self._under_way

    def more(self) -> list[TouchPod]:
        """The touches that are to be sent now."""
        found = []
        while self._waiting and len(self._under_way) < self._at_once:
            found.append(self._waiting.pop())
            self._under_way.add(found[-1].uid)
        return found

    def answered(self, request: PodRequest | Announce | WriteObject) -> None:
        """A pod was touched, or is gone."""
        self._under_way.discard(request.uid)


def _seen(listed: Listed) -> Iterable[Seen]:
    return (each for listing in listed.listings for each in listing.seen)


def gaps(listings: Iterable[Listing], sights: SeenResources, since: int | None) -> list[Stimulus]:
    """That watches had a gap: from ``since``, or where that is None from what they told last."""
    return [
        records.WatchRelisted(
            resource=each.resource,
            since=sights.of(each.resource).upto if since is None else since,
            upto=each.version,
        )
        for each in listings
    ]


def differences(
    state: SchedulerState, listings: Iterable[Listing], sights: SeenResources
) -> list[Stimulus]:
    """What lists of resources say that is news: ends first, then objects, nodes, and pods."""
    ordered = sorted(listings, key=lambda listing: ORDER[listing.resource])
    parts = [(listing, {place_of(each)[1] for each in listing.seen}) for listing in ordered]
    found: list[Stimulus] = []
    for listing, there in reversed(parts):
        found += _ends(state, listing.resource, there)
    for listing, there in parts:
        found += sights.news(listing.seen)
        sights.of(listing.resource).relisted(listing.version, there)
    return found


def _ends(state: SchedulerState, resource: str, there: set[str]) -> Sequence[Stimulus]:
    """The ends of what the state knows of a resource and is not there any more."""
    if resource == POD:
        return [records.PodDeleted(uid=uid) for uid in state.pods if uid not in there]
    if resource == NODE:
        return [records.NodeDeleted(name=name) for name in state.nodes.rows if name not in there]
    return [
        records.ObjectDeleted(type=resource, namespace=namespace, name=name)
        for namespace, name in state.registry.all(TYPES[resource])
        if key_of_object(namespace, name) not in there
    ]


def is_crowded(state: SchedulerState, uid: str) -> bool:
    """Whether the node that is held for a pod is gone, or is booked beyond what it has: somebody
    else has placed pods there."""
    row = state.pods[uid].row
    return row < 0 or state.nodes.overbooked([row]) > 0


def void(state: SchedulerState, uid: str, reason: str, version: int = 0) -> Stimulus:
    """The end of a reservation for which no bind can land."""
    held = state.reservations[uid]
    return records.BindVoided(
        uid=uid, node=held.node, attempt=held.attempt, reason=reason, resource_version=version
    )
