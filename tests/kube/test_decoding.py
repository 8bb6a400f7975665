"""Lists and watches are decoded to exactly what the translation of whole objects gives."""

import contextlib
import copy
import json
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.kube.watch import object_fields, pod_templates
from eventsched.cluster.kube.watch.decoded import Decoded
from eventsched.cluster.kube.watch.object_decoding import Decoder, WatchError
from eventsched.cluster.kube.watch.pod_templates import FINISHED
from eventsched.cluster.kube.watch.resource_store import ResourceStore
from eventsched.cluster.kube.watch.resources import NODE, OPTIONAL, POD, RESOURCES, Resource
from eventsched.cluster.messages import NodeSeen, ObjectSeen, PodSeen
from eventsched.cluster.translate import cluster_objects, manifest
from eventsched.cluster.translate.fields import Field
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod, registry
from tests.kube import objects
from tests.kube.objects import Object
from tests.properties.strategies import deterministic

BY_TYPE = {each.type: each for each in (*RESOURCES, *OPTIONAL)}
POD_SETS = ("ReplicaSet", "StatefulSet", "ReplicationController")
OTHERS = [each for each in (*RESOURCES, *OPTIONAL) if each.type not in (POD, NODE)]
OTHER_DECODERS = {resource.type: Decoder(resource) for resource in OTHERS}
UID = "4f0e5c0e-5c8b-4a0c-8b8e-000000000001"


def encoded(obj: Any) -> bytes:
    return json.dumps(obj, separators=(",", ":"), ensure_ascii=False).encode()


def translated(resource: Resource, obj: Object) -> Any:
    """What the reference makes of an object: a domain object, None for a pod that has finished, or
    the words of its refusal."""
    status = obj.get("status")
    finished = isinstance(status, dict) and status.get("phase") in FINISHED
    if resource.type == POD and finished:
        return None
    try:
        if resource.type == POD:
            found: Any = manifest.pod(obj, "", defaults=False)
        elif resource.type == NODE:
            found = manifest.node(obj, "")
        else:
            found = cluster_objects.read(resource.type, obj, "", defaults=False)
    except InputError as error:
        return f"{error.where.removeprefix(': ')} {error.problem}".strip()
    if obj["metadata"].get("resourceVersion") != "17":
        return "metadata.resourceVersion is not a decimal number"
    return found


def shown(decoded: Decoded) -> Any:
    """The same of what was decoded."""
    match decoded.seen:
        case PodSeen(pod=found) | NodeSeen(node=found) | ObjectSeen(object=found):
            return found
    return decoded.problem or None


def assert_same(decoder: Decoder, obj: Object) -> None:
    decoded, expected = decoder.object(encoded(obj)), translated(decoder.resource, obj)
    if isinstance(expected, str):
        # Which of several faults is named is not part of the promise.
        assert decoded.problem
        assert decoded.seen is None
    else:
        assert shown(decoded) == expected
    if expected is not None and not isinstance(expected, str):
        assert decoded.version == int(obj["metadata"]["resourceVersion"])


@pytest.mark.properties
@deterministic(500)
@given(st.lists(objects.spoiled(objects.pods), min_size=1, max_size=2))
def test_pods_are_decoded_as_by_translate(found: list[Object]) -> None:
    decoder = Decoder(BY_TYPE[POD])
    for obj in [*found, *found]:
        assert_same(decoder, obj)


@pytest.mark.properties
@deterministic(150)
@given(objects.spoiled(objects.nodes))
def test_nodes_are_decoded_as_by_translate(obj: Object) -> None:
    assert_same(Decoder(BY_TYPE[NODE]), obj)


@pytest.mark.properties
@deterministic(30)
@given(objects.spoiled(objects.others))
def test_other_objects_are_decoded_as_by_translate(obj: Object) -> None:
    """Each object is decoded as every resource: drawing it costs much more than decoding it."""
    for resource in OTHERS:
        assert_same(OTHER_DECODERS[resource.type], obj)


# --- nothing that is read is left out -----------------------------------------------------


def kept(path: tuple[str, ...], kind: Any) -> bool:
    """Whether decoding into a type keeps what lies at a path."""
    for name in path:
        members = typing.get_args(kind)
        if type(None) in members or typing.get_origin(kind) is list:
            kind = next(each for each in members if each is not type(None))
        if typing.get_origin(kind) is list:
            (kind,) = typing.get_args(kind)
        if typing.is_typeddict(kind):
            types = typing.get_type_hints(kind)
        elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            types = {each.encode_name: each.type for each in msgspec.structs.fields(kind)}
        else:
            return True  # kept as it is
        if name not in types:
            return False
        kind = types[name]
    return True


def paths_read(
    readers: Mapping[str, Callable[[Object], Any]], shapes: st.SearchStrategy[Object]
) -> dict[str, set[tuple[str, ...]]]:
    """The paths at which each reader of the reference looks in objects of these shapes."""
    paths: dict[str, set[tuple[str, ...]]] = {name: set() for name in readers}
    reader_name = ""
    get = Field.get

    def recording_get(field: Field, name: str) -> Field:
        steps, parent = [name], field
        while isinstance(parent, Field):
            if parent._step and isinstance(parent._step, str):
                steps.append(parent._step)
            parent = parent._origin  # type: ignore[assignment]
        paths[reader_name].add(tuple(reversed(steps)))
        return get(field, name)

    @deterministic(40)
    @given(shapes)
    def read_all(obj: Object) -> None:
        nonlocal reader_name
        for name, read in readers.items():
            reader_name = name
            with contextlib.suppress(InputError):
                read(obj)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Field, "get", recording_get)
        read_all()
    return paths


def test_no_field_that_is_read_is_left_out_of_pods_and_nodes() -> None:
    pod_readers = {POD: partial(manifest.pod, where="", defaults=False)}
    of_pods = paths_read(pod_readers, objects.pods)[POD]
    of_nodes = paths_read({NODE: partial(manifest.node, where="")}, objects.nodes)[NODE]

    assert ("spec", "topologySpreadConstraints", "labelSelector") in of_pods
    # Conditions other than these two make no difference, and pods with these go the long way.
    judged = {("status", "conditions", "status"), ("status", "conditions", "reason")}
    assert [path for path in of_pods - judged if not kept(path, object_fields.PodFields)] == []
    assert [path for path in of_nodes if not kept(path, object_fields.NodeFields)] == []


def test_no_field_that_is_read_is_left_out_of_other_objects() -> None:
    readers = {
        resource.type: partial(cluster_objects.read, resource.type, where="", defaults=False)
        for resource in OTHERS
    }
    for kind, paths in paths_read(readers, objects.others).items():
        assert ("metadata", "name") in paths, kind
        decoded = object_fields.PodSet if kind in POD_SETS else object_fields.Object
        assert [path for path in paths if not kept(path, decoded)] == [], kind


def test_every_type_of_the_registry_is_watched() -> None:
    assert {each.type for each in (*RESOURCES, *OPTIONAL)} == {POD, NODE, *registry.TYPES}
    assert {each.type: each.group for each in OTHERS} == {
        kind: group for kind, (group, _) in cluster_objects.READERS.items()
    }


# --- lists and lines ----------------------------------------------------------------------


def api_pod(name: str = "a", uid: str = UID, version: int = 17, **more: Any) -> Object:
    """A pod of the deployment ``web``, as a server prints it; ``more`` are fields of its spec."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {"app": "web"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "app",
                    "image": "web:1",
                    "resources": {"requests": {"cpu": "250m"}},
                    "volumeMounts": [{"name": f"kube-api-access-{name}"}],
                }
            ],
            "volumes": [{"name": f"kube-api-access-{name}", "projected": {}}],
            **more,
        },
        "status": {"phase": "Pending"},
    }


def pod_of(decoded: Decoded) -> Pod:
    assert isinstance(decoded.seen, PodSeen)
    return decoded.seen.pod


def test_pods_of_one_template_share_their_parts() -> None:
    decoder = Decoder(BY_TYPE[POD])
    one, two = (
        pod_of(decoder.object(encoded(api_pod(name, uid))))
        for name, uid in (("a", UID), ("b", UID.replace("1", "2")))
    )
    bound = pod_of(decoder.object(encoded(api_pod(nodeName="n1"))))

    assert (one.name, two.name, bound.node_name) == ("a", "b", "n1")
    assert one.spec is two.spec is bound.spec
    assert one.labels is two.labels
    assert one.owner is two.owner


@pytest.mark.properties
@deterministic(100)
@given(
    st.lists(objects.spoiled(objects.pods), min_size=2, max_size=3),
    st.lists(st.integers(0, 2), min_size=2, max_size=12),
)
def test_a_changed_pod_is_decoded_as_if_it_were_new(shapes: list[Object], turns: list[int]) -> None:
    """No cached part of an earlier version is used for a later one, whether the pod is valid,
    undecodable, finished or deleted."""
    events: list[Any] = []
    store = ResourceStore(BY_TYPE[POD], events.append, lambda *_, **__: None)
    decoder = Decoder(BY_TYPE[POD], known=store.known)
    for version, turn in enumerate(turns, 1):
        made = copy.deepcopy(shapes[turn % len(shapes)])
        meta = made.get("metadata") if isinstance(made, dict) else None
        if isinstance(meta, dict):
            meta.update(uid=UID, name="a", namespace="b", resourceVersion=str(version))
        ended = "DELETED" if turn == 2 and version % 3 == 0 else "MODIFIED"
        written = line(ended, made)
        found, fresh = decoder.line(written), Decoder(BY_TYPE[POD]).line(written)
        assert shown(found) == shown(fresh)
        store.take(found)


def test_an_update_of_status_alone_gives_the_pod_that_is_known() -> None:
    store = ResourceStore(BY_TYPE[POD], lambda decoded: None, lambda *_, **__: None)
    decoder = Decoder(BY_TYPE[POD], known=store.known)
    store.take(decoder.line(line("ADDED", api_pod(version=1))))
    patched = api_pod(version=2)
    patched["status"]["conditions"] = [{"type": "Patched", "status": "True"}]
    pods = decoder._decode_watched.__self__  # type: ignore[attr-defined]
    pods._decode_spec = None  # decoding the spec would fail
    decoded = decoder.line(line("MODIFIED", patched))
    assert decoded.version == 2
    assert pod_of(decoded) is store.seen[decoded.key].pod


def test_a_page_has_a_version_objects_and_whether_there_is_more() -> None:
    decoder = Decoder(BY_TYPE[POD])
    broken = api_pod("b", version=18, priority="high")
    finished = api_pod("c", version=19) | {"status": {"phase": "Succeeded"}}
    page = {
        "kind": "PodList",
        "metadata": {"resourceVersion": "20", "continue": "more", "remainingItemCount": 5},
        "items": [api_pod(), broken, finished],
    }

    found = decoder.page(encoded(page))

    assert (found.version, found.next) == (20, "more")
    decoded = decoder.objects(found)
    assert [(each.key, each.version, each.problem) for each in decoded] == [
        (UID, 17, ""),
        (UID, 18, "spec.priority is not a whole number ('high')"),
        (UID, 19, ""),
    ]
    assert [each.seen is not None for each in decoded] == [True, False, False]
    assert decoded[1].name == "shop/b"
    empty = decoder.page(b'{"metadata":{"resourceVersion":"3"},"items":null}')
    assert (empty.version, empty.next, decoder.objects(empty)) == (3, "", [])


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"metadata":{}}', b"<html>"])
def test_a_body_that_is_not_a_list_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        Decoder(BY_TYPE[NODE]).page(body)


NESTED = b"[" * 3_000 + b"]" * 3_000


@pytest.mark.parametrize("kind", [POD, NODE, "PersistentVolumeClaim"])
@pytest.mark.parametrize(
    ("name", "version", "more", "problem"),
    [
        (b"a", b"17", NESTED, "it is not JSON: maximum recursion depth"),
        (b"\xff", b"17", b"1", "it is not JSON: 'utf-8' codec can't decode"),
        (b"a", "²".encode(), b"1", "metadata.resourceVersion is not a decimal number"),
        (b"a", b"9" * 30, b"1", "metadata.resourceVersion is not a decimal number"),
        (b"a", b"9" * 5_000, b"1", "metadata.resourceVersion is not a decimal number"),
    ],
    ids=["nested", "not UTF-8", "no digit", "beyond 64 bits", "5,000 digits"],
)
def test_what_no_server_should_send_is_a_problem(
    kind: str, name: bytes, version: bytes, more: bytes, problem: str
) -> None:
    meta = b'{"name":"%b","resourceVersion":"%b"}' % (name, version)
    body = b'{"metadata":%b,"spec":{},"status":{},"x":%b}' % (meta, more)
    decoder = Decoder(BY_TYPE[kind])
    for decoded in (decoder.object(body), decoder.answer(body)):
        assert decoded.seen is None
        assert decoded.problem.startswith(problem)


def test_a_list_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        Decoder(BY_TYPE[NODE]).page(b'{"metadata":{"resourceVersion":"3"},"x":%b}' % NESTED)


def line(kind: str, obj: Any) -> bytes:
    return encoded({"type": kind, "object": obj})


def test_lines_of_a_watch() -> None:
    decoder = Decoder(BY_TYPE[POD])
    obj = api_pod()
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "30"}}
    seen = decoder.object(encoded(obj))

    assert decoder.line(line("ADDED", obj)) == seen
    assert decoder.line(line("MODIFIED", obj)) == seen
    assert decoder.line(line("DELETED", obj)) == Decoded(UID, 17)
    assert decoder.line(line("DELETED", api_pod(priority="high"))) == Decoded(UID, 17)
    assert decoder.line(line("BOOKMARK", bookmark)) == Decoded("", 30)
    # Also as no server writes it.
    assert decoder.line(json.dumps({"object": obj, "type": "ADDED"}, indent=1).encode()) == seen
    cut = line("ADDED", obj)[:-40]
    assert decoder.line(cut).problem.startswith("it is not JSON")


@pytest.mark.parametrize(
    ("status", "code", "text"),
    [
        ({"code": 410, "message": "too old"}, 410, "too old"),
        ({"code": "x"}, 500, "no Status"),
        ([], 500, "no Status"),
    ],
)
def test_an_error_ends_the_watch(status: Any, code: int, text: str) -> None:
    with pytest.raises(WatchError) as caught:
        Decoder(BY_TYPE[POD]).line(line("ERROR", status))
    assert (caught.value.code, str(caught.value)) == (code, text)


def test_keys_of_other_objects() -> None:
    def decode(kind: str, **metadata: str) -> Decoded:
        obj = {"metadata": {"resourceVersion": "5", **metadata}}
        return Decoder(BY_TYPE[kind]).object(encoded(obj))

    assert decode("Node", name="n1").key == "n1"
    assert decode("StorageClass", name="fast").key == "fast"
    assert decode("Service", name="web", namespace="shop").key == "shop/web"
    assert decode("Node") == Decoded("", 5, problem="metadata.name is missing", name="")


def test_large_maps_are_not_remembered() -> None:
    read: list[bytes] = []

    def counted(raw: bytes) -> dict[str, str]:
        read.append(raw)
        return {}

    remembering = pod_templates._cached(counted)
    for raw in (b"small", b"small", b"x" * 5000, b"x" * 5000):
        remembering(raw)
    assert [len(raw) for raw in read] == [5, 5000, 5000]
