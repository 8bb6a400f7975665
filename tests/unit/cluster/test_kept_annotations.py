"""Only annotations that a plugin or a setting declares are logged."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resource_store import ResourceStore
from eventsched.cluster.kube.watch.resources import NODE, POD, RESOURCES
from eventsched.cluster.messages import Listing, NodeSeen, PodSeen
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import PersistentVolumeClaim
from eventsched.domain.records import PodAdded, PodUpdated
from eventsched.eventlog import memory
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.plugins.gallery.first_scheduled_node import FirstScheduledNode
from eventsched.plugins.gallery.importance_sort import ImportanceSort
from eventsched.plugins.gallery.node_hardware import NodeHardware
from eventsched.process import settings
from eventsched.runtime.assembly import Assembly, undeclared
from eventsched.runtime.reconciliation import takeover
from eventsched.runtime.reconciliation.seen_versions import SeenResources
from eventsched.scheduling.config import configuration
from eventsched.testing.engines import typed
from tests.builders import added, engine_of, make_node, observed

SECRET = {"vault.example.com/token": "hunter2", "team": "a"}
KEPT = KeptAnnotations(["importance", "example.com/", "gpu-*", "example.com/team"])
RESOURCE = {resource.type: resource for resource in RESOURCES}


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("importance", True), ("importance2", False), ("example.com/a", True), ("gpu-x", True),
        ("gpu", False), ("example.com.evil/a", False),
        ("volume.kubernetes.io/selected-node", False),
        ("kubectl.kubernetes.io/last-applied-configuration", False), ("", False),
    ],
)  # fmt: skip
def test_patterns_are_names_and_prefixes(name: str, kept: bool) -> None:
    pod = Pod(uid="u", name="p", annotations={name: "v"})

    assert KEPT.stripped(pod).annotations == ({name: "v"} if kept else {})
    assert (KEPT.stripped(pod) is pod) == kept


def test_without_patterns_no_annotation_of_a_node_is_kept() -> None:
    assert KeptAnnotations().stripped(Node(name="n", annotations=SECRET)).annotations == {}


def test_claims_also_keep_the_annotations_of_volume_binding() -> None:
    notes = {"volume.kubernetes.io/selected-node": "n", "pv.kubernetes.io/bind-completed": "yes"}
    claim = PersistentVolumeClaim(name="c", namespace="d", annotations={**notes, **SECRET})

    assert KeptAnnotations().stripped(claim).annotations == notes


def api_object(kind: str, version: int, annotations: dict[str, str], **more: Any) -> bytes:
    metadata = {"name": "x", "uid": "u", "resourceVersion": str(version), **more}
    obj = {"metadata": {**metadata, "annotations": annotations}, "spec": {}, "status": {}}
    if kind == POD:
        obj["spec"] = {"containers": [], "nodeName": "n"}
    return json.dumps(obj).encode()


@pytest.mark.parametrize("kind", [POD, NODE])
@pytest.mark.parametrize("unusual", [False, True])
def test_a_watch_drops_the_other_annotations(kind: str, unusual: bool) -> None:
    """Also from objects of an unusual shape, which are translated as a whole."""
    conditions = {"deletionGracePeriodSeconds": "?"} if unusual else {}
    decoder = Decoder(RESOURCE[kind], annotations=KEPT)

    decoded = decoder.object(api_object(kind, 1, {**SECRET, "importance": "5"}, **conditions))

    seen = decoded.seen
    assert isinstance(seen, PodSeen | NodeSeen)
    obj = seen.pod if isinstance(seen, PodSeen) else seen.node
    assert obj.annotations == {"importance": "5"}


@pytest.mark.parametrize("kind", [POD, NODE])
def test_a_change_of_other_annotations_only_is_not_published(kind: str) -> None:
    news: list[Any] = []
    store = ResourceStore(RESOURCE[kind], news.append, lambda *_, **__: None, None, KEPT)
    decoder = Decoder(store.resource, annotations=store.annotations)
    for version, annotations in enumerate(
        [{"importance": "1"}, {"importance": "1", "other": "x"}, {"importance": "1", **SECRET}], 1
    ):
        store.take(decoder.object(api_object(kind, version, annotations)))
    assert len(news) == 1

    store.take(decoder.object(api_object(kind, 4, {"importance": "2"})))

    assert len(news) == 2


def test_a_term_that_keeps_more_annotations_logs_the_pods_that_have_them() -> None:
    """The takeover compares the cluster with the state, also for equal resourceVersions."""
    engine = engine_of()
    pod = Pod(uid="u", name="p", annotations={"importance": "1", **SECRET})
    before, after = KeptAnnotations(["importance"]), KeptAnnotations(["importance", "team"])
    observed(engine, *added(make_node()), PodAdded(pod=before.stripped(pod)))

    made = []
    for kept in (before, after):
        listing = Listing(POD, 7, [PodSeen(kept.stripped(pod), 7)])
        found = list(takeover.differences(engine.state, [listing], SeenResources()))
        news = [stimulus for stimulus in found if stimulus is not None]
        made.append([each for each in observed(engine, *news) if isinstance(each, PodUpdated)])

    assert made[0] == []
    assert [each.pod.annotations for each in made[1]] == [{"importance": "1", "team": "a"}]


# --- who declares them ------------------------------------------------------------------------


def assembly(*plugins: Any) -> Assembly:
    profile = type("Profile", (), {"plugins": list(plugins)})()
    return Assembly(configuration.default(), {"p": profile}, {}, "", "", ())


def test_the_plugins_of_the_gallery_declare_theirs() -> None:
    hardware = typed(NodeHardware, hardware=[{"name": "gpu", "label": "gpu"}], annotation="needs")
    first = typed(FirstScheduledNode, key="annotation", keyAnnotation="set")
    found = assembly(ImportanceSort(), hardware, first, Coscheduling(), FirstScheduledNode())

    assert {"importance", "needs", "set"} < set(found.annotations)
    assert "pod-group.scheduling.sigs.k8s.io/name" in found.annotations


@pytest.mark.parametrize("declared", ["importance", ("",), (5,), [None]])
def test_a_declaration_that_is_none_is_refused(declared: Any) -> None:
    plugin = type("Odd", (), {"name": "Odd", "annotations": declared})()

    with pytest.raises(InputError, match="plugin Odd: annotations"):
        _ = assembly(plugin).annotations


class Reads:
    name = "Reads"

    def filter_node(self, pod: Pod, node: Node) -> str | None:
        return pod.annotations.get("team")


class Declares(Reads):
    name = "Declares"
    annotations = ("team",)


def test_a_plugin_that_reads_and_does_not_declare_is_warned_about() -> None:
    found = undeclared({"Reads": Reads, "Declares": Declares})

    assert len(found) == 1
    assert "plugin Reads reads annotations and declares none" in found[0]


@pytest.mark.parametrize("text", ["''", "a*b", "'*x'"])
def test_a_setting_that_names_none_is_refused(text: str) -> None:
    document = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
---
apiVersion: eventsched.io/v1alpha1
kind: EventschedConfiguration
keepAnnotations: [team, {text}]
"""
    with pytest.raises(InputError, match=r"keepAnnotations\[1\]"):
        settings.load(document, "c.yaml")


# --- the whole way ----------------------------------------------------------------------------

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {disabled: [{name: '*'}], enabled: [{name: ImportanceSort}]}
---
apiVersion: eventsched.io/v1alpha1
kind: EventschedConfiguration
keepAnnotations: [team]
"""
CLUSTER = """---
{apiVersion: v1, kind: Node, metadata: {name: n, annotations: {secret: hunter2}},
 status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: i}]},
 metadata: {name: p, annotations: {secret: hunter2, importance: "5", team: a}}}
"""


def test_a_simulation_logs_what_is_declared_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs: list[memory.MemoryEventLog] = []
    make = memory.MemoryEventLog.__init__

    def kept(self: memory.MemoryEventLog, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        logs.append(self)

    monkeypatch.setattr(memory.MemoryEventLog, "__init__", kept)
    cluster, config = tmp_path / "cluster.yaml", tmp_path / "config.yaml"
    cluster.write_text(CLUSTER)
    config.write_text(CONFIG)

    assert main(["simulate", "--manifests", str(cluster), "--config", str(config)]) == 0

    bodies = b"".join(each.body for each in logs[0].read())
    assert b"hunter2" not in bodies
    assert b'"annotations":{"importance":"5","team":"a"}' in bodies
