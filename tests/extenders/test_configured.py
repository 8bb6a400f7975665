"""Extenders of a configuration: their order, resources that NodeResourcesFit ignores, and commands
that cannot call extenders."""

import json
from pathlib import Path

import pytest

from eventsched.cli.main import main
from eventsched.domain.objects import Container, Pod, PodSpec
from eventsched.domain.records import Outcome, PodDecided
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config.configuration import load
from eventsched.scheduling.config.extenders import extenders_of
from eventsched.scheduling.engine import Engine
from tests.builders import added, attempted, make_node, observed

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GPU = "example.com/gpu"


def engine_of(text: str) -> Engine:
    return assemble_loaded(load(HEAD + text, "test.yaml"), "test.yaml", IN_TREE).engine()


def test_ignorable_extenders_come_last() -> None:
    text = """extenders:
- {urlPrefix: "http://a", filterVerb: f, ignorable: true}
- {urlPrefix: "http://b", prioritizeVerb: p, weight: 5}
- {urlPrefix: "http://c", bindVerb: b, managedResources: [{name: example.com/gpu}]}
"""
    extenders = extenders_of(load(HEAD + text, "test.yaml").extenders)
    assert [(extender.index, extender.name, extender.ignorable) for extender in extenders] == [
        (0, "http://b", False), (1, "http://c", False), (2, "http://a", True),
    ]  # fmt: skip
    assert (extenders[0].weight, extenders[1].resources) == (5, frozenset({GPU}))


@pytest.mark.parametrize(
    ("ignored", "args", "outcome"),
    [
        ("true", "", Outcome.SCHEDULED),
        ("false", "", Outcome.UNSCHEDULABLE),
        # Extenders' answers replace the plugin's (as upstream).
        ("true", "ignoredResources: [example.com/other]", Outcome.SCHEDULED),
    ],
)
def test_a_resource_that_an_extender_manages(ignored: str, args: str, outcome: Outcome) -> None:
    profiles = f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {{{args}}}}}]}}]\n"
    resource = f"{{name: {GPU}, ignoredByScheduler: {ignored}}}"
    engine = engine_of(f"{profiles}extenders: [{{managedResources: [{resource}]}}]\n")
    container = Container(requests={GPU: 1})
    pod = Pod(uid="p1", name="p1", spec=PodSpec(containers=(container,)))
    observed(engine, *added(make_node(), pod))
    [decided] = [record for record in attempted(engine) if isinstance(record, PodDecided)]
    assert decided.outcome is outcome


def test_commands_without_extender_calls_say_so(
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
    errors = capsys.readouterr().err
    assert errors == "warning: extender http://x is not asked: its answer is left out\n"


@pytest.mark.parametrize("url", ["127.0.0.1:8888/scheduler", "http://me:hush@x"])
def test_run_refuses_a_url_that_could_never_be_called(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + f'extenders: [{{urlPrefix: "{url}", filterVerb: f}}]\n')
    assert main(["run", "--config", str(config), "--data-dir", str(tmp_path / "data")]) == 2
    errors = capsys.readouterr().err
    assert "extenders[0].urlPrefix" in errors
    assert "hush" not in errors
