"""The versions that a leader remembers: what is old is recognized, and what is gone is dropped."""

from eventsched.cluster.messages import PodGone, PodSeen
from eventsched.domain import records
from eventsched.runtime.reconciliation.seen_versions import POD, SeenResources
from tests.builders import make_pod


def entries(seen: SeenResources) -> int:
    return len(seen.of(POD)._versions)


def test_an_answer_that_comes_after_the_deletion_leaves_nothing_behind() -> None:
    """A bind is on its way while its pod is deleted: the watch reports that first, then the API
    server answers with 404, or with the pod as it was."""
    seen = SeenResources()
    for number in range(100):
        uid, version = f"p{number}", 10 * number + 1
        shown = PodSeen(make_pod(uid), version)
        assert seen.note_event(shown) == records.PodUpdated(pod=shown.pod)
        assert seen.note_event(PodGone(uid, version + 2)) == records.PodDeleted(uid=uid)
        if number % 2:
            seen.of(POD).note_absence(uid)
        else:
            assert not seen.note_answer(PodSeen(make_pod(uid, node_name="n1"), version + 1))
    assert entries(seen) == 0


def test_an_answer_that_comes_before_the_deletion_makes_the_events_between_old() -> None:
    seen = SeenResources()
    seen.note_event(PodSeen(make_pod(), 1))
    seen.of(POD).note_absence("p1")
    assert seen.note_event(PodSeen(make_pod(node_name="n1"), 2)) is None
    assert seen.note_event(PodGone("p1", 3)) == records.PodDeleted(uid="p1")
    assert entries(seen) == 0


def test_a_list_shows_objects_that_are_older_than_the_last_event() -> None:
    """An object that could not be decoded before is new, whatever its version."""
    seen = SeenResources()
    seen.note_event(PodSeen(make_pod("later"), 9))
    listed = seen.note_listed([PodSeen(make_pod("earlier"), 3)])
    assert list(listed) == [records.PodUpdated(pod=make_pod("earlier"))]
