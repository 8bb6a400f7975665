"""The openb lists: their mapping, and errors that name file, line and column."""

import gzip
import os
from pathlib import Path

import pytest

from eventsched.cluster.sources import openb
from eventsched.cluster.translate.manifest import pod_uid
from eventsched.domain.errors import InputError
from eventsched.domain.objects import NodeSelectorTerm, Requirement
from eventsched.domain.units import SECOND

NODES = "sn,cpu_milli,memory_mib,gpu,model\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
TIMED = PODS.rstrip() + ",pod_phase,creation_time,deletion_time,scheduled_time\n"
MIB = 1024 * 1024


def written(folder: Path, text: str, name: str = "list.csv") -> Path:
    path = folder / name
    body = text.encode()
    path.write_bytes(gzip.compress(body, mtime=0) if name.endswith(".gz") else body)
    return path


@pytest.mark.parametrize("name", ["nodes.csv", "nodes.csv.gz"])
def test_nodes(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, NODES + "n0,32000,1024,0,\nn1,64000,2048,2,P100\n", name)
    plain, gpu = openb.read_nodes(path)
    assert plain.name == "n0"
    assert plain.labels == {"kubernetes.io/hostname": "n0"}
    assert plain.allocatable == {"cpu": 32000, "memory": 1024 * MIB, "pods": 110}
    assert gpu.labels == {"kubernetes.io/hostname": "n1", "openb.io/gpu-model": "P100"}
    assert gpu.allocatable["openb.io/gpu-milli"] == 2000


def test_pods_with_times(tmp_path: Path) -> None:
    path = written(tmp_path, TIMED + "p0,1000,10,2,500,A|B,LS,Running,5,20,8\n")
    (found,) = openb.read_pods(path)
    pod = found.pod
    assert (pod.full_name, pod.uid) == ("default/p0", pod_uid("default", "p0"))
    assert pod.labels == {"openb.io/qos": "LS"}
    assert pod.spec.containers[0].requests == {
        "cpu": 1000,
        "memory": 10 * MIB,
        "openb.io/gpu-milli": 1000,
    }
    assert pod.spec.required_node_terms == (
        NodeSelectorTerm(
            expressions=(Requirement(key="openb.io/gpu-model", operator="In", values=("A", "B")),)
        ),
    )
    assert (found.arrives_at, found.runs_for) == (5 * SECOND, 12 * SECOND)
    assert pod.created_at == 5 * SECOND


@pytest.mark.parametrize(
    ("times", "runs_for"),
    [
        ("5,20,", 15 * SECOND),  # never scheduled: from its creation on
        ("5,,8", None),  # never deleted
        ("5,7,8", 0),  # deleted before it was scheduled
        ("5,9.5,8.0", 1_500_000),
    ],
)
def test_running_time(tmp_path: Path, times: str, runs_for: int | None) -> None:
    path = written(tmp_path, TIMED + f"p0,1,1,0,0,,BE,Pending,{times}\n")
    (found,) = openb.read_pods(path)
    assert (found.arrives_at, found.runs_for) == (5 * SECOND, runs_for)


def test_lists_without_times(tmp_path: Path) -> None:
    path = written(tmp_path, PODS + "p0,1000,10,0,0,,\np1,1000,10,0,0,,\n\n")
    first, second = openb.read_pods(path)
    assert (first.arrives_at, first.runs_for, first.pod.created_at) == (None, None, 0)
    assert first.pod.labels == {}
    assert first.pod.spec.containers[0].requests == {"cpu": 1000, "memory": 10 * MIB}
    assert first.pod.spec.required_node_terms is None
    assert second.pod.spec is first.pod.spec


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeff" + (NODES + "n0,1,1,0,\n").replace("\n", "\r\n"))
    assert [node.name for node in openb.read_nodes(path)] == ["n0"]


@pytest.mark.parametrize(
    ("line", "place", "problem", "remedy"),
    [
        ("n0,x,1,0,", "line 3: cpu_milli", "'x', not a number", "write a number"),
        ("n0,nan,1,0,", "line 3: cpu_milli", "not a number", "write a number"),
        ("n0,,1,0,", "line 3: cpu_milli", "not a number", "write a number"),
        ("n0,1,-5,0,", "line 3: memory_mib", "negative (-5)", "0 or more"),
        ("n0,1,1,0.5,", "line 3: gpu", "not a whole number", "whole number"),
        ("n0,1,9999999999999,0,", "line 3: memory_mib", "9999999999999", "at most"),
        ("n0,1,1", "line 3", "3 fields instead of 5", "cut off"),
        ("n0,1,1,0,,,", "line 3", "7 fields instead of 5", "complete the line"),
        ("first,1,1,0,", "line 3: sn", "'first' was already used in line 2", "once"),
        (",1,1,0,", "line 3: sn", "is empty", "name"),
        ('"n0,1,1,0,', "line 3", "is not CSV", "quotes"),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, line: str, place: str, problem: str, remedy: str
) -> None:
    path = written(tmp_path, f"{NODES}first,1,1,0,\n{line}\n")
    with pytest.raises(InputError) as caught:
        openb.read_nodes(path)
    assert caught.value.where == f"{path}: {place}"
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


@pytest.mark.parametrize(
    ("line", "column"),
    [
        ("p0,1,1,0,0,,LS,Running,,20,8", "creation_time"),
        ("p0,1,1,0,0,,LS,Running,5,soon,8", "deletion_time"),
        ("p0,1,1,0,0,,LS,Running,5,20,-8", "scheduled_time"),
        ("p0,1,1,one,0,,LS,Running,5,20,8", "num_gpu"),
    ],
)
def test_a_bad_pod_line_is_named(tmp_path: Path, line: str, column: str) -> None:
    path = written(tmp_path, f"{TIMED}{line}\n")
    with pytest.raises(InputError) as caught:
        openb.read_pods(path)
    assert caught.value.where == f"{path}: line 2: {column}"
    assert "number" in caught.value.remedy


def test_a_pod_name_twice(tmp_path: Path) -> None:
    path = written(tmp_path, PODS + "p0,1,1,0,0,,LS\np0,1,1,0,0,,LS\n")
    with pytest.raises(InputError, match="line 3: name: 'p0' was already used in line 2"):
        openb.read_pods(path)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, "sn,memory_mib,model\nn0,1,\n")
    with pytest.raises(InputError, match="lacks the columns cpu_milli, gpu;") as caught:
        openb.read_nodes(path)
    assert caught.value.where == f"{path}: line 1"
    assert "sn,cpu_milli,memory_mib,gpu,model" in caught.value.remedy.replace(", ", ",")


def test_a_node_list_is_no_pod_list(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks the columns name, num_gpu"):
        openb.read_pods(written(tmp_path, NODES + "n0,1,1,0,\n"))


@pytest.mark.parametrize(
    ("name", "body", "problem", "remedy"),
    [
        ("a.csv", b"", "is empty", "completely"),
        ("a.csv.gz", b"", "is empty", "completely"),
        ("a.csv.gz", gzip.compress(b"\n", mtime=0), "is empty", "completely"),
        ("a.csv.gz", NODES.encode(), "not valid gzip", ".gz"),
        (
            "a.csv.gz",
            gzip.compress(NODES.encode(), mtime=0)[:-9],
            "middle of the gzip data",
            "again",
        ),
        ("a.csv", gzip.compress(NODES.encode(), mtime=0), "is compressed", "ends in .gz"),
        ("a.csv", b"sn,\xff", "is not UTF-8 text (byte 3)", "in UTF-8"),
    ],
)
def test_an_unreadable_file_is_named(
    tmp_path: Path, name: str, body: bytes, problem: str, remedy: str
) -> None:
    path = tmp_path / name
    path.write_bytes(body)
    with pytest.raises(InputError) as caught:
        openb.read_nodes(path)
    assert caught.value.where == str(path)
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


def test_damaged_gzip_data(tmp_path: Path) -> None:
    body = bytearray(gzip.compress(NODES.encode() * 50, mtime=0))
    body[15:20] = b"\xff" * 5
    path = tmp_path / "a.csv.gz"
    path.write_bytes(bytes(body))
    with pytest.raises(InputError, match="gzip"):
        openb.read_nodes(path)


def test_missing_file_and_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.csv: cannot be read \(No such file") as caught:
        openb.read_nodes(tmp_path / "none.csv")
    assert "check the path" in caught.value.remedy
    with pytest.raises(InputError, match="cannot be read"):
        openb.read_nodes(tmp_path)


@pytest.mark.trace
def test_the_real_trace() -> None:
    folder = os.environ.get("EVENTSCHED_TRACES")
    if not folder:
        pytest.skip("EVENTSCHED_TRACES does not name the folder of the openb trace")
    nodes = openb.read_nodes(Path(folder) / "openb_node_list_all_node.csv.gz")
    pods = openb.read_pods(Path(folder) / "openb_pod_list_default.csv.gz")
    assert len(nodes) == 1523
    assert sum(node.allocatable.get(openb.GPU_MILLI, 0) for node in nodes) == 6_212_000
    assert len(pods) == 8152
    assert all(pod.arrives_at is not None and pod.runs_for is not None for pod in pods)
