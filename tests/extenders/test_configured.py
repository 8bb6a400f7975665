"""Extenders as a configuration has them: order, resources that NodeResourcesFit leaves alone, and
commands that cannot call extenders."""

import json
from pathlib import Path

import pytest

from eventsched.cli.main import main
from eventsched.domain.objects import Container, Pod, PodSpec
from eventsched.domain.records import Outcome, PodDecided
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assembled
from eventsched.scheduling.config.configuration import load
from eventsched.scheduling.config.extenders import extenders_of
from eventsched.scheduling.engine import Engine
from tests.builders import added, attempted, make_node, observed

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GPU = "example.com/gpu"


def engine_of(text: str) -> Engine:
    return assembled(load(HEAD + text, "test.yaml"), "test.yaml", IN_TREE).engine()


def test_those_that_may_be_ignored_come_last() -> None:
    text = """extenders:
- {urlPrefix: "http://a", filterVerb: f, ignorable: true}
- {urlPrefix: "http://b", prioritizeVerb: p, weight: 5}
- {urlPrefix: "http://c", bindVerb: b, managedResources: [{name: example.com/gpu}]}
"""
    found = extenders_of(load(HEAD + text, "test.yaml").extenders)
    assert [(each.index, each.name, each.ignorable) for each in found] == [
        (0, "http://b", False), (1, "http://c", False), (2, "http://a", True),
    ]  # fmt: skip
    assert (found[0].weight, found[1].resources) == (5, frozenset({GPU}))


@pytest.mark.parametrize(
    ("ignored", "args", "outcome"),
    [
        ("true", "", Outcome.SCHEDULED),
        ("false", "", Outcome.UNSCHEDULABLE),
        # Extenders' answers replace the plugin's (as upstream).
        ("true", "ignoredResources: [example.com/other]", Outcome.SCHEDULED),
    ],
)
def test_a_resource_that_an_extender_counts(ignored: str, args: str, outcome: Outcome) -> None:
    profiles = f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{{args}}}}}]}}]\n"
    resource = f"{{name: {GPU}, ignoredByScheduler: {ignored}}}"
    engine = engine_of(f"{profiles}extenders: [{{managedResources: [{resource}]}}]\n")
    container = Container(requests={GPU: 1})
    wants = Pod(uid="p1", name="p1", spec=PodSpec(containers=(container,)))
    observed(engine, *added(make_node(), wants))
    [decided] = [each for each in attempted(engine) if isinstance(each, PodDecided)]
    assert decided.outcome is outcome


def test_commands_that_ask_nobody_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + 'extenders: [{urlPrefix: "http://x", filterVerb: f}]\n')
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "pods": "9"}},
    }
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p1"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [node, pod]}))
    assert main(["simulate", "--manifests", str(cluster), "--config", str(config)]) == 2
    assert "http://x would have to be asked" in capsys.readouterr().err
    asking = ["evaluate", str(cluster), "--pod", "default/p1", "--config", str(config)]
    assert main(asking) == 0
    said = capsys.readouterr().err
    assert said == "warning: extender http://x is not asked: its answer is left out\n"


@pytest.mark.parametrize("url", ["127.0.0.1:8888/scheduler", "http://me:hush@x"])
def test_run_refuses_what_can_never_be_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + f'extenders: [{{urlPrefix: "{url}", filterVerb: f}}]\n')
    assert main(["run", "--config", str(config), "--data-dir", str(tmp_path / "data")]) == 2
    said = capsys.readouterr().err
    assert "extenders[0].urlPrefix" in said
    assert "hush" not in said
