"""The files of a new plugin's package, by their paths; ``@…@`` is filled in by scaffold.py.

@NAME@ FastDisk    @MODULE@ fast_disk    @PROJECT@ fast-disk    @LABEL@ example.com/fast-disk
"""

PLUGIN = '''"""@NAME@: pods that ask for a kind of node go there only, all others rather not.

A pod asks by a label, and a node has the same label: with `@LABEL@: a` on both they fit.
"""

import msgspec
from eventsched.domain.objects import Node, Pod
from eventsched.scheduling.framework import ClusterEvent, DependsOn


class @NAME@Args(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What may stand in pluginConfig; types are checked, and unknown names refused."""

    label: str = "@LABEL@"
    """The label of pods and nodes that is compared."""


class @NAME@:
    """Filter and Score by a label that pods and nodes share."""

    name = "@NAME@"
    Args = @NAME@Args
    # Of a node only the object matters, not the pods on it.
    depends_on = DependsOn.NODE
    # What can make a node acceptable that was not: a pod that was refused is tried again then.
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_LABEL,
        ClusterEvent.POD_UPDATE,
    )

    def __init__(self, args: @NAME@Args) -> None:
        self._label = args.label

    def sign(self, pod: Pod) -> str:
        """What of a pod matters here: pods that agree in it share their verdicts and scores."""
        return pod.labels.get(self._label, "")

    def filter_node(self, pod: Pod, node: Node) -> str | None:
        """None lets the pod pass; a text says why not. No names in it: it is counted by nodes."""
        wanted = pod.labels.get(self._label, "")
        if wanted and node.labels.get(self._label) != wanted:
            return f"node(s) had another {self._label}"
        return None

    def score_node(self, pod: Pod, node: Node) -> int:
        """0 to 100: keeps nodes that are marked free for the pods that ask for them."""
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


def test_a_pod_that_asks_goes_to_a_node_of_that_kind() -> None:
    pod = make_pod(labels={LABEL: "a"})
    said = {"marked": "", "plain": f"node(s) had another {LABEL}"}
    assert verdicts(PLUGIN, pod, [MARKED, PLAIN]) == said
    assert scheduled_to(pod, [MARKED, PLAIN], PLUGIN) == Answered("marked")


def test_the_others_leave_marked_nodes_alone() -> None:
    assert scores(PLUGIN, make_pod(), [MARKED, PLAIN]) == {"marked": 0, "plain": 100}


def test_the_label_can_be_another_one() -> None:
    plugin = typed(@NAME@, label="kind")
    pod = make_pod(labels={"kind": "b"})
    assert verdicts(plugin, pod, [PLAIN]) == {"plain": "node(s) had another kind"}


def test_arguments_are_checked() -> None:
    with pytest.raises(InputError, match="did you mean .label"):
        typed(@NAME@, lable="kind")


def test_a_pod_that_was_refused_is_tried_again_when_a_node_gets_the_label() -> None:
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

# This is how eventsched finds it where it is installed.
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
only to nodes that have it with the same value; all other pods leave such nodes alone as long as
there are others.

| argument | default | |
| --- | --- | --- |
| `label` | `@LABEL@` | the label of pods and nodes that is compared |

Try it, without a cluster:

    pip install -e '.[dev]'
    pytest
    eventsched plugin check .
    eventsched simulate --manifests cluster.yaml --config config.yaml --why default/asks

Run it: install the package where eventsched runs; its entry point makes it known, and `config.yaml`
enables it. What it decides is in the log: `eventsched explain default/asks`.

Whatever is changed in it: a plugin is a function of what it is given. No clock, no randomness, no
network, no files; what it wants to keep it keeps with `cycle.remember`. `eventsched plugin check`
says where it is not so, what a call costs, and which change it forgot in `wakes_on`.
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
