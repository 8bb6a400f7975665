"""The API server's guarantees for lists and watches, which reflectors and a new leader's barrier
rely on. Numbers of ``row`` are rows of the failure matrix."""

from contextlib import closing
from typing import Any

import pytest

from tests.cluster.harness.client import Answer, ApiError, Client, Object
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane


def _version(found: Object) -> int:
    return int(found["metadata"]["resourceVersion"])


def _watched(client: Client, count: int, kind: str, namespace: str | None, **params: Any) -> Any:
    """The first events of a watch."""
    with closing(client.watch(kind, namespace, **params)) as events:
        return [next(events) for _ in range(count)]


def _short(event: Object) -> tuple[str, str, int]:
    metadata = event["object"]["metadata"]
    return event["type"], metadata.get("name", ""), int(metadata["resourceVersion"])


@pytest.mark.row(21)
def test_a_watch_tells_everything_after_its_version_once_and_in_order(
    plane: ControlPlane, namespace: str
) -> None:
    client = plane.admin
    since = _version(client.listing("Pod", namespace))
    one = client.create(pod("one"), namespace)
    two = client.create(pod("two"), namespace)
    client.bind(one, "a")
    bound = client.get("Pod", "one", namespace)
    client.delete("Pod", "two", namespace)

    whole = _watched(client, 5, "Pod", namespace, resourceVersion=since)
    rest = _watched(client, 3, "Pod", namespace, resourceVersion=_version(two))

    assert [_short(each)[:2] for each in whole] == [
        ("ADDED", "one"),
        ("ADDED", "two"),
        ("MODIFIED", "one"),
        ("MODIFIED", "two"),  # its deletionTimestamp
        ("DELETED", "two"),
    ]
    versions = [_version(each["object"]) for each in whole]
    assert versions[:3] == [_version(one), _version(two), _version(bound)]
    assert versions == sorted(set(versions))
    assert rest == whole[2:]


@pytest.mark.row(21)
def test_versions_of_all_resources_come_from_one_clock(plane: ControlPlane, namespace: str) -> None:
    client = plane.admin

    made = [
        client.create(pod("one"), namespace),
        client.create(node("a")),
        client.create(pod("two"), namespace),
        client.patch("Node", "a", {"spec": {"unschedulable": True}}),
    ]

    versions = [_version(each) for each in made]
    assert versions == sorted(set(versions))
    assert versions[-1] <= _version(client.listing("Pod", namespace, limit=1))


@pytest.mark.row(21)
def test_a_bookmark_is_a_version_and_nothing_else(plane: ControlPlane, namespace: str) -> None:
    client = plane.admin
    client.create(pod("one"), namespace)
    wanted = {
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }

    first, bookmark = _watched(client, 2, "Pod", namespace, **wanted)

    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "one")
    assert bookmark["type"] == "BOOKMARK"
    assert set(bookmark["object"]["metadata"]) == {"resourceVersion", "annotations"}
    assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert _version(bookmark["object"]) >= _version(first["object"])


@pytest.mark.row(20)
def test_a_watch_without_news_ends_with_a_bookmark(plane: ControlPlane, namespace: str) -> None:
    client = plane.admin
    since = _version(client.listing("Pod", namespace))
    later = _version(client.create(node("a")))

    wanted = {"resourceVersion": since, "allowWatchBookmarks": "true"}
    for _ in range(3):  # a server that hangs for a second misses the moment before the end
        if events := list(client.watch("Pod", namespace, seconds=6, **wanted)):
            break

    assert {each["type"] for each in events} == {"BOOKMARK"}
    # Other resources move the version on: it is where to resume.
    assert _version(events[-1]["object"]) >= later


@pytest.mark.row(13)
def test_a_list_of_one_has_a_version_not_older_than_what_was_written(
    plane: ControlPlane, namespace: str
) -> None:
    client = plane.admin
    client.create(pod("one"), namespace)
    two = client.create(pod("two"), namespace)

    first = client.listing("Pod", namespace, limit=1)
    none = client.listing("ReplicationController", namespace, limit=1)

    assert [each["metadata"]["name"] for each in first["items"]] == ["one"]
    assert first["metadata"]["remainingItemCount"] == 1
    assert _version(first) >= _version(two)
    assert none["items"] == []
    assert _version(none) >= _version(two)


@pytest.mark.row(20)
def test_pages_show_one_moment(plane: ControlPlane, namespace: str) -> None:
    client = plane.admin
    for name in ("one", "three"):
        client.create(pod(name), namespace)

    first = client.listing("Pod", namespace, limit=1)
    client.create(pod("two"), namespace)
    rest = client.listing("Pod", namespace, **{"continue": first["metadata"]["continue"]})

    assert [each["metadata"]["name"] for each in first["items"] + rest["items"]] == ["one", "three"]
    assert _version(rest) == _version(first)


@pytest.mark.row(20)
def test_compacted_versions_are_expired(own_plane: ControlPlane) -> None:
    client = own_plane.admin
    for name in ("one", "two"):
        client.create(pod(name), "default")
    first = client.listing("Pod", limit=1)
    client.create(pod("three"), "default")
    client.delete("Pod", "one", "default")
    own_plane.forget_history()

    since = _version(first)
    path = client.path("Pod")
    answers = [
        client.call("GET", path, **{"continue": first["metadata"]["continue"]}),
        client.call("GET", path, resourceVersion=since, resourceVersionMatch="Exact", limit=1),
        _refusal(client, since),
    ]

    assert [(each.status, each.reason) for each in answers] == [(410, "Expired")] * 3
    assert [each["metadata"]["name"] for each in client.list("Pod")] == ["three", "two"]


def _refusal(client: Client, since: int) -> Answer:
    """The refusal of a watch from that version, as the answer to its request or as its first event.
    Clients have to handle both."""
    try:
        events = list(client.watch("Pod", seconds=3, resourceVersion=since))
    except ApiError as refused:
        return refused.answer
    assert [each["type"] for each in events] == ["ERROR"]
    return Answer(events[0]["object"]["code"], events[0]["object"], {})


@pytest.mark.row(20)
def test_a_watch_from_a_version_of_the_future_is_refused(
    plane: ControlPlane, namespace: str
) -> None:
    """As after the restore of an older etcd."""
    path = plane.admin.path("Pod", None, namespace)

    answer = plane.admin.call("GET", path, resourceVersion=plane.revision() + 1_000_000)

    assert answer.status == 504
    assert "Too large resource version" in answer.message


@pytest.mark.row(22)
def test_one_object_that_does_not_decode_spoils_every_list(own_plane: ControlPlane) -> None:
    client = own_plane.admin
    client.create(pod("good"), "default")
    own_plane.store("/registry/pods/default/bad", b"this is no pod")

    answer = client.call("GET", client.path("Pod"), limit=10)

    assert answer.status == 500
    good = client.find("Pod", "good", "default")
    assert good is not None
