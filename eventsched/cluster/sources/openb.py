"""The openb lists of Alibaba's cluster trace gpu-v2023: nodes and pods as CSV, plain or .gz.

GPUs are counted in thousandths and per node, not per device: a node's gpu × 1000, a pod's num_gpu ×
gpu_milli. In the files memory is in MiB and times are in seconds. In lists
without the time columns, pods arrive together and do not end.
"""

import csv
import re
from collections.abc import Iterator
from decimal import Decimal
from io import StringIO
from pathlib import Path

from eventsched.cluster.files import read_text
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.translate.manifest import pod_uid
from eventsched.domain.errors import InputError
from eventsched.domain.objects import (
    CPU,
    MEMORY,
    PODS,
    Container,
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Requirement,
)

GPU_MILLI = "openb.io/gpu-milli"
"""Extended resource: thousandths of a GPU."""
GPU_MODEL = "openb.io/gpu-model"
"""Node label: the model of the node's GPUs; nodes without GPUs have none."""
QOS = "openb.io/qos"
"""Pod label: the trace's quality of service, such as LS or BE."""
PODS_PER_NODE = 110

_NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
_POD_COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos")
_MIB = 1024 * 1024
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
# Far above any real node or pod; no product exceeds int64.
_LARGEST_COUNT = 10**9
_LARGEST_SECONDS = 10**12


def read_nodes(path: Path) -> list[Node]:
    """The nodes of a node list, in its order.

    Raises InputError naming file, line and column for anything that is not such a list.
    """
    nodes = []
    for row in _rows(path, _NODE_COLUMNS, key="sn"):
        name, model = row.text("sn"), row.text("model")
        allocatable = {
            CPU: row.count("cpu_milli"),
            MEMORY: row.count("memory_mib") * _MIB,
            PODS: PODS_PER_NODE,
        }
        if gpu := row.count("gpu"):
            allocatable[GPU_MILLI] = gpu * 1000
        labels = {"kubernetes.io/hostname": name}
        if model:
            labels[GPU_MODEL] = model
        nodes.append(Node(name=name, labels=labels, allocatable=allocatable))
    return nodes


def read_pods(path: Path) -> list[TracePod]:
    """The pods of a pod list, in its order (which need not be that of their arrival).

    A pod arrives at its creation and runs for the time between scheduling and deletion; if it was
    never scheduled, for the time between creation and deletion. Raises InputError naming file,
    line and column for anything that is not such a list.
    """
    specs: dict[tuple[int, int, int, str], PodSpec] = {}
    pods = []
    for row in _rows(path, _POD_COLUMNS, key="name"):
        name, qos = row.text("name"), row.text("qos")
        shape = (
            row.count("cpu_milli"),
            row.count("memory_mib") * _MIB,
            row.count("num_gpu") * row.count("gpu_milli"),
            row.text("gpu_spec"),
        )
        spec = specs.get(shape)
        if spec is None:
            spec = specs[shape] = _spec(*shape)
        arrives_at, runs_for = _times(row)
        pod = Pod(
            uid=pod_uid("default", name),
            name=name,
            labels={QOS: qos} if qos else {},
            created_at=arrives_at or 0,
            spec=spec,
        )
        pods.append(TracePod(pod, arrives_at, runs_for))
    return pods


def _spec(cpu: int, memory: int, gpu: int, models: str) -> PodSpec:
    requests = {CPU: cpu, MEMORY: memory}
    if gpu:
        requests[GPU_MILLI] = gpu
    required = None
    if models:
        one_of = Requirement(key=GPU_MODEL, operator="In", values=tuple(models.split("|")))
        required = (NodeSelectorTerm(expressions=(one_of,)),)
    return PodSpec(containers=(Container(requests=requests),), required_node_terms=required)


class _Row:
    """One line of a list, by column; its errors name file, line and column."""

    def __init__(self, path: Path, line: int, cells: dict[str, str]) -> None:
        self._path = path
        self._line = line
        self._cells = cells

    def wrong(self, column: str, problem: str, remedy: str) -> InputError:
        return InputError(f"{self._path}: line {self._line}: {column}", problem, remedy)

    def text(self, column: str) -> str:
        """The cell; "" if the list lacks the column."""
        return self._cells.get(column, "").strip()

    def count(self, column: str) -> int:
        number = self._number(column, _LARGEST_COUNT)
        if number % 1:
            raise self.wrong(column, f"is {number}, not a whole number", "write a whole number")
        return int(number)

    def instant(self, column: str) -> int:
        """The cell's seconds in microseconds."""
        return int(self._number(column, _LARGEST_SECONDS) * 1_000_000)

    def has(self, column: str) -> bool:
        return column in self._cells

    def _number(self, column: str, largest: int) -> Decimal:
        text = self.text(column)
        if not _NUMBER.fullmatch(text):
            raise self.wrong(column, f"is {text!r}, not a number", "write a number of 0 or more")
        number = Decimal(text)
        if number < 0:
            raise self.wrong(column, f"is negative ({text})", "write a number of 0 or more")
        if number > largest:
            raise self.wrong(column, f"is {text}", f"write a number of at most {largest}")
        return number


def _times(row: _Row) -> tuple[int | None, int | None]:
    """When the pod arrives and how long it runs, in microseconds."""
    if not row.has("creation_time"):
        return None, None
    created = row.instant("creation_time")
    if not row.text("deletion_time"):
        return created, None
    started = row.instant("scheduled_time") if row.text("scheduled_time") else created
    return created, max(0, row.instant("deletion_time") - started)


def _rows(path: Path, needed: tuple[str, ...], *, key: str) -> Iterator[_Row]:
    """The lines of a list, whose ``key`` column must be filled and unique."""
    reader = csv.reader(StringIO(read_text(path), newline=""), strict=True)
    seen: dict[str, int] = {}
    try:
        header = [name.strip() for name in next(reader)]
        _check_header(path, header, needed)
        for cells in reader:
            if not cells:
                continue
            line = reader.line_num
            if len(cells) != len(header):
                raise InputError(
                    f"{path}: line {line}",
                    f"has {len(cells)} fields instead of {len(header)}",
                    "complete the line; if it is the last one, the file was cut off",
                )
            row = _Row(path, line, dict(zip(header, cells, strict=True)))
            name = row.text(key)
            if not name:
                raise row.wrong(key, "is empty", "give the line a name")
            if name in seen:
                raise row.wrong(
                    key, f"{name!r} was already used in line {seen[name]}", "use each name once"
                )
            seen[name] = line
            yield row
    except csv.Error as error:
        raise InputError(
            f"{path}: line {reader.line_num}", f"is not CSV ({error})", "check its quotes"
        ) from error


def _check_header(path: Path, header: list[str], needed: tuple[str, ...]) -> None:
    missing = [name for name in needed if name not in header]
    if missing:
        raise InputError(
            f"{path}: line 1",
            f"lacks the columns {', '.join(missing)}",
            f"begin the file with a line that names the columns {', '.join(needed)}",
        )
