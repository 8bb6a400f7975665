"""Half of a surrogate pair cannot be stored as text: every input says so, and where it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.cluster.extenders.served_requests import parse_request
from eventsched.cluster.extenders.wire_format import WrongShapeError
from eventsched.cluster.kube.watch.object_decoding import Decoder
from eventsched.cluster.kube.watch.resources import POD, RESOURCES
from eventsched.cluster.sources import manifests
from eventsched.domain.errors import InputError
from eventsched.domain.records.extender_records import FILTER

HALF = "a\ud800"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {}}


def pod(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "uid": "u", "resourceVersion": "1", **metadata},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {},
    }


with_image = pod()
with_image["spec"]["containers"][0]["image"] = HALF
with_request = pod()
with_request["spec"]["containers"][0]["resources"] = {"requests": {HALF: "1"}}
PODS = [
    (pod(annotations={"k": HALF}), "Pod default/p: metadata.annotations.k"),
    (pod(annotations={HALF: "v"}), "Pod default/p: metadata.annotations"),
    (pod(labels={"k": HALF}), "Pod default/p: metadata.labels.k"),
    (pod(name=HALF), r"Pod default/a\ud800: metadata.name"),
    (with_image, "Pod default/p: spec.containers[0].image"),
    (with_request, "Pod default/p: spec.containers[0].resources.requests"),
]


@pytest.mark.parametrize(("obj", "place"), PODS, ids=[place for _, place in PODS])
def test_a_manifest_is_refused_by_file_and_field(
    obj: dict[str, Any], place: str, tmp_path: Path
) -> None:
    path = tmp_path / "pod.json"
    path.write_text(json.dumps(obj))

    with pytest.raises(InputError) as refused:
        manifests.read(path)

    assert refused.value.where == f"{path}: {place}"
    assert "half of a surrogate pair" in refused.value.problem
    str(refused.value).encode()


def test_yaml_is_refused_by_line(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text('kind: Pod\nmetadata: {name: "\\ud800"}\n')

    with pytest.raises(InputError, match="line 2: is not YAML"):
        manifests.read(path)


def test_evaluate_says_so_and_ends_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, question = tmp_path / "cluster.json", tmp_path / "pod.json"
    cluster.write_text(json.dumps(NODE))
    question.write_text(json.dumps(pod(annotations={"k": HALF})))

    assert main(["evaluate", str(cluster), "--pod", str(question)]) == 2

    told = capsys.readouterr()
    assert told.out == ""
    assert f"{question}: Pod default/p: metadata.annotations.k" in told.err
    assert told.err.count("\n") == 1


def test_a_scheduler_that_sends_one_is_told(tmp_path: Path) -> None:
    body = json.dumps({"Pod": pod(annotations={"k": HALF}), "NodeNames": ["n"]}).encode()

    with pytest.raises(WrongShapeError, match="the request to filter is not JSON"):
        parse_request(FILTER, body)


def test_an_object_of_a_watch_is_skipped_with_a_reason() -> None:
    decoder = Decoder(next(each for each in RESOURCES if each.type == POD))

    told = decoder.object(json.dumps(pod(annotations={"k": HALF})).encode())

    assert told.seen is None
    assert told.problem.startswith("it is not JSON")
