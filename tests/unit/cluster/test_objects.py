"""Objects other than nodes and pods: from the inputs through the log into the state."""

import json
from pathlib import Path

import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import load
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.objects.registry import (
    AnyObject,
    PersistentVolumeClaim,
    Service,
    StorageClass,
)
from eventsched.history.explain.record_text import describe_with_pod
from eventsched.plugins import IN_TREE
from eventsched.runtime.queries.scenario_evaluation import evaluate
from eventsched.scheduling.engine import Engine
from tests.builders import engine_of, make_node, make_pod, observed

CLAIM = PersistentVolumeClaim(name="data", namespace="shop", phase="Pending")
BOUND = PersistentVolumeClaim(name="data", namespace="shop", phase="Bound")
CLASS = StorageClass(name="fast")


def changed(each: AnyObject) -> records.ObjectChanged:
    return records.ObjectChanged(object=each)


GONE = records.ObjectDeleted(type="PersistentVolumeClaim", name="data", namespace="shop")


def test_what_changes_nothing_gives_no_record() -> None:
    engine = engine_of()
    assert observed(engine, changed(CLAIM), changed(CLAIM)) == [changed(CLAIM)]
    assert observed(engine, changed(BOUND), GONE, GONE) == [changed(BOUND), GONE]
    assert list(engine.state.registry.everything()) == []


@pytest.mark.parametrize(
    "unknown",
    [GONE, records.ObjectDeleted(type="Nonsense", name="data")],
)
def test_the_end_of_what_is_not_known_is_no_news(unknown: records.ObjectDeleted) -> None:
    assert observed(engine_of(), unknown) == []


def test_people_are_told_of_them() -> None:
    assert describe_with_pod(changed(CLAIM), str) == "PersistentVolumeClaim shop/data changed"
    assert describe_with_pod(changed(CLASS), str) == "StorageClass fast changed"
    assert describe_with_pod(GONE, str) == "PersistentVolumeClaim shop/data is gone"


def test_a_snapshot_holds_them() -> None:
    engine = engine_of()
    observed(engine, changed(CLAIM), changed(CLASS))
    other: Engine = engine_of()
    other.restore(engine.snapshot(), engine.position)
    assert list(other.state.registry.everything()) == [CLAIM, CLASS]
    assert other.state.digest() == engine.state.digest() != engine_of().state.digest()


def test_they_come_before_nodes_and_pods() -> None:
    cluster = InMemoryCluster(
        [make_node()], [TracePod(make_pod("p1"), 0)], [make_pod("b", node_name="n1")],
        objects=[CLAIM, CLASS],
    )  # fmt: skip
    assert cluster.due_stimuli(0) == [
        changed(CLAIM),
        changed(CLASS),
        records.NodeAdded(node=make_node()),
        records.PodAdded(pod=make_pod("b", node_name="n1")),
        records.PodAdded(pod=make_pod("p1")),
    ]


def test_a_restored_cluster_goes_on_with_them() -> None:
    def made() -> InMemoryCluster:
        return InMemoryCluster([make_node()], [], objects=[CLAIM, CLASS])

    cluster, other = made(), made()
    other.restore(json.loads(json.dumps(cluster.snapshot())))
    cluster.forget(1)
    assert cluster.due_stimuli(0) == [changed(CLASS), records.NodeAdded(node=make_node())]
    assert len(other.due_stimuli(0)) == 3


def written(folder: Path, name: str, *objects: object) -> Path:
    path = folder / name
    path.write_text(json.dumps({"kind": "List", "items": list(objects)}))
    return path


NODE = {"kind": "Node", "metadata": {"name": "n1"}}
SERVICE = {"kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}}}


def test_manifests_give_them(tmp_path: Path) -> None:
    files = [written(tmp_path, "a.json", NODE), written(tmp_path, "b.json", SERVICE)]
    source = load.read(nodes=None, pods=None, objects=files, generate=None)
    assert source.objects == [Service(name="web", namespace="default", selector={"app": "web"})]
    assert source.together().objects == source.limited(0).objects == source.objects


def test_one_object_in_two_files_is_refused(tmp_path: Path) -> None:
    files = [written(tmp_path, name, NODE, SERVICE) for name in ("a.json", "b.json")]
    files[1] = written(tmp_path, "b.json", SERVICE)
    with pytest.raises(InputError) as caught:
        load.read(nodes=None, pods=None, objects=files, generate=None)
    assert caught.value.problem == "Service default/web is there twice"
    assert caught.value.where == f"{files[0]}, {files[1]}"


def line(*objects: object) -> bytes:
    return json.dumps({"id": "s", "objects": objects, "pending": []}).encode()


def test_a_scenario_names_each_once() -> None:
    with pytest.raises(InputError) as caught:
        evaluate(line(SERVICE, NODE, SERVICE), "f", IN_TREE)
    assert caught.value.where == "f: objects[2]"
    assert caught.value.problem == "Service default/web is there twice"


def test_a_bad_object_of_a_scenario_is_named() -> None:
    with pytest.raises(InputError) as caught:
        evaluate(line(NODE, {"kind": "Service", "metadata": {}}), "f", IN_TREE)
    assert caught.value.where == "f: objects[1]: metadata.name"
