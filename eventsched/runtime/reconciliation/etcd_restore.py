"""A cluster whose storage was put back to an earlier state, as from a backup of etcd.

What binds, answers and watches have shown is then true no more, and resourceVersions may be given
out again. So the term ends, and the next one takes the cluster in as it is; there alone a pod that
the log has on a node may be on none.
"""

from collections.abc import Iterable, Sequence

from eventsched.cluster.messages import Listing, PodSeen, Seen
from eventsched.domain import records
from eventsched.domain.records import Stimulus
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.reconciliation.seen_versions import SeenResources, place_of

REASON = "the cluster's storage was put back to an earlier state"


class EtcdRestoreDetector:
    """Notices in a term that the cluster is older than what is known of it.

    A list of an earlier version shows that. With versions that were raised after the restore (as
    etcd's ``--bump-revision`` does) only its objects do, and there an answer of ours may merely be
    newer than the list: these are ``doubts``, for a list to settle that is asked for after that.
    """

    def __init__(self, state: SchedulerState, sights: SeenResources) -> None:
        self.doubts: set[tuple[str, str]] = set()
        """Resource and key of objects that a list has shown older than they were known."""
        self._state, self._seen = state, sights

    def shows(self, listings: Sequence[Listing], since: int | None) -> bool:
        """Whether lists show it; to be asked before they are taken in. ``since`` is that of
        ``Relisted``; None where they were asked for after any doubts arose."""
        found = {
            place_of(seen) for each in listings for seen in each.seen if self._is_doubtful(seen)
        }
        settled = self.doubts if since is None else set()
        self.doubts = (self.doubts - settled) | found
        return bool(found & settled) or any(
            each.version < max(since or 0, self._seen.of(each.resource).upto) for each in listings
        )

    def _is_doubtful(self, seen: Seen) -> bool:
        resource, key = place_of(seen)
        older = seen.resource_version < self._seen.of(resource).version(key)
        return older or _has_lost_its_node(self._state, seen)


def unbound(state: SchedulerState, listings: Iterable[Listing]) -> list[Stimulus]:
    """At the beginning of a term, when lists are newer than the log: the ends of pods that the log
    has on a node and the cluster on none, as no pod leaves its node. What the lists show of them
    is a pod that comes, and is placed anew."""
    return [
        records.PodDeleted(uid=seen.pod.uid)
        for each in listings
        for seen in each.seen
        if isinstance(seen, PodSeen) and _has_lost_its_node(state, seen)
    ]


def _has_lost_its_node(state: SchedulerState, seen: Seen) -> bool:
    if not isinstance(seen, PodSeen) or seen.pod.node_name:
        return False
    known = state.pods.get(seen.pod.uid)
    return known is not None and known.bound
