"""The files of a new plugin package, by path. scaffold.py replaces ``@…@``:

@NAME@ FastDisk    @MODULE@ fast_disk    @PROJECT@ fast-disk    @LABEL@ example.com/fast-disk
"""

PLUGIN = '''"""@NAME@: pods with a label go only to nodes with the same label.

All other pods avoid these nodes. The label is `@LABEL@`.
"""

import msgspec
from eventsched.domain.objects import Node, Pod
from eventsched.scheduling.framework import ClusterEvent, DependsOn


class @NAME@Args(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The arguments in pluginConfig. Types are checked; unknown names are refused."""

    label: str = "@LABEL@"
    """The label of pods and nodes to compare."""


class @NAME@:
    """Filter and Score by a label of pods and nodes."""

    name = "@NAME@"
    Args = @NAME@Args
    # The answers depend on the node object, not on the pods on the node.
    depends_on = DependsOn.NODE
    # Changes that can make a node acceptable. After one of them refused pods are tried again.
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_LABEL,
        ClusterEvent.POD_UPDATE,
    )

    def __init__(self, args: @NAME@Args) -> None:
        self._label = args.label

    def sign(self, pod: Pod) -> str:
        """What the answers depend on: pods with equal values share verdicts and scores."""
        return pod.labels.get(self._label, "")

    def filter_node(self, pod: Pod, node: Node) -> str | None:
        """None if the pod fits, else the reason. Nodes are counted by reason: use no names."""
        wanted = pod.labels.get(self._label, "")
        if wanted and node.labels.get(self._label) != wanted:
            return f"node(s) had another {self._label}"
        return None

    def score_node(self, pod: Pod, node: Node) -> int:
        """0 to 100: keeps labelled nodes free for the pods with the label."""
        return 0 if self._label in node.labels and self._label not in pod.labels else 100
'''

TEST = '''"""@NAME@ on nodes with and without its label."""

import pytest
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.testing import (
    Answered,
    added,
    attempted,
    engine_with,
    make_node,
    make_pod,
    observed,
    scheduled_to,
    scores,
    typed,
    verdicts,
)

from @MODULE@ import @NAME@

PLUGIN = typed(@NAME@)
LABEL = "@LABEL@"
MARKED = make_node("marked", labels={LABEL: "a"})
PLAIN = make_node("plain")


def test_a_pod_with_the_label_goes_to_a_node_with_the_label() -> None:
    pod = make_pod(labels={LABEL: "a"})
    expected = {"marked": "", "plain": f"node(s) had another {LABEL}"}
    assert verdicts(PLUGIN, pod, [MARKED, PLAIN]) == expected
    assert scheduled_to(pod, [MARKED, PLAIN], PLUGIN) == Answered("marked")


def test_other_pods_avoid_labelled_nodes() -> None:
    assert scores(PLUGIN, make_pod(), [MARKED, PLAIN]) == {"marked": 0, "plain": 100}


def test_the_label_is_an_argument() -> None:
    plugin = typed(@NAME@, label="kind")
    pod = make_pod(labels={"kind": "b"})
    assert verdicts(plugin, pod, [PLAIN]) == {"plain": "node(s) had another kind"}


def test_arguments_are_checked() -> None:
    with pytest.raises(InputError, match="did you mean .label"):
        typed(@NAME@, lable="kind")


def test_a_refused_pod_is_tried_again_when_a_node_gets_the_label() -> None:
    engine = engine_with(PLUGIN)
    observed(engine, *added(PLAIN, make_pod(labels={LABEL: "a"})))
    attempted(engine)
    assert engine.idle
    labelled = make_node("plain", labels={LABEL: "a"})
    observed(engine, records.NodeUpdated(node=labelled), records.TimePassed(), at=2_000_000)
    assert not engine.idle
'''

PYPROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "@PROJECT@"
version = "0.1.0"
description = "@NAME@, a plugin for the scheduler eventsched"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["eventsched"]

[project.optional-dependencies]
dev = ["pytest", "mypy", "ruff"]

# eventsched finds installed plugins by this entry point.
[project.entry-points."eventsched.plugins"]
@NAME@ = "@MODULE@:@NAME@"

[tool.setuptools]
packages = ["@MODULE@"]

[tool.setuptools.package-data]
@MODULE@ = ["py.typed"]

[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]

[tool.mypy]
strict = true
files = ["@MODULE@", "tests"]

[tool.ruff]
line-length = 100
target-version = "py311"
"""

CONFIG = """apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled:
      - {name: @NAME@, weight: 2}
  pluginConfig:
  - name: @NAME@
    args: {label: @LABEL@}
"""

CLUSTER = """apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: marked, labels: {@LABEL@: a}},
   status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
- {apiVersion: v1, kind: Node, metadata: {name: plain},
   status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}}
- {apiVersion: v1, kind: Pod, metadata: {name: asks, namespace: default, labels: {@LABEL@: a}},
   spec: {containers: [{name: main, resources: {requests: {cpu: 500m}}}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: does-not, namespace: default},
   spec: {containers: [{name: main, resources: {requests: {cpu: 500m}}}]}}
"""

README = """# @NAME@

A plugin for [eventsched](https://pypi.org/project/eventsched/). Pods with the label `@LABEL@` go
only to nodes with the same value of that label. All other pods avoid such nodes if they can.

| argument | default | |
| --- | --- | --- |
| `label` | `@LABEL@` | the label of pods and nodes to compare |

Try it, without a cluster:

    pip install -e '.[dev]'
    pytest
    eventsched plugin check .
    eventsched simulate --manifests cluster.yaml --config config.yaml --why default/asks

Run it: install the package where eventsched runs. eventsched finds it by its entry point, and
`config.yaml` enables it. Its decisions are in the log: `eventsched explain default/asks`.

When you change it: a plugin must depend only on its arguments. It uses no clock, no randomness, no
network and no files, and keeps state only with `cycle.remember`. `eventsched plugin check` reports
violations, the cost of each method, and changes that are missing in `wakes_on`.
"""

FILES = {
    "@MODULE@/__init__.py": '"""@NAME@, a plugin for eventsched."""\n\n'
    "from @MODULE@.plugin import (\n    @NAME@,\n    @NAME@Args,\n)\n\n"
    '__all__ = [\n    "@NAME@",\n    "@NAME@Args",\n]\n',
    "@MODULE@/plugin.py": PLUGIN,
    "@MODULE@/py.typed": "",
    "tests/test_@MODULE@.py": TEST,
    "pyproject.toml": PYPROJECT,
    "config.yaml": CONFIG,
    "cluster.yaml": CLUSTER,
    "README.md": README,
}
