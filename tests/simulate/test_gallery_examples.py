"""The examples of the gallery: where each pod goes, and what the others wait for."""

import json
from pathlib import Path

import pytest

from eventsched.cli.main import main
from eventsched.cluster.sources import load
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation.resumption import new_or_resumed
from tests.databases import ROOT

EXAMPLES = ROOT / "examples"
WAITS = ""
PLACES: list[tuple[str, dict[str, str]]] = [
    (
        "Coscheduling",
        {f"big-{number}": WAITS for number in range(5)}
        | {f"short-{number}": WAITS for number in range(2)},
    ),
    ("CapacityScheduling", {"beyond-max": WAITS, "needs-its-own": "only", "fits": "only"}),
    ("FixedNode", {f"web-{number}": "b" for number in range(3)}),
    (
        "ImportanceSort",
        {
            "first-come": WAITS, "odd": WAITS, "important": "only", "most-important": "only",
        },
    ),
    (
        "NodeGroup",
        {
            "hello-minikube-1-aaaaa": "custom-scheduler-demo-m02",
            "hello-minikube-1-bbbbb": "custom-scheduler-demo-m02",
            "hello-minikube-2-aaaaa": "custom-scheduler-demo-m03",
            "hello-minikube-2-bbbbb": "custom-scheduler-demo-m03",
            "hello-minikube-3-aaaaa": WAITS,
        },
    ),
    (
        "NodeHardware",
        {
            "trains-on-a100": "a100", "needs-four": "h100", "needs-v100": WAITS,
            "misspelt": WAITS,
        },
    ),
    (
        "NodeResourceTopologyMatch",
        {"aligned": "whole", "two-containers": "split", "too-large": WAITS},
    ),
    (
        "NodeResourcesAllocatable", {"web-0": "small", "web-1": "small", "web-2": "medium"},
    ),
    ("NetworkTraffic", {f"web-{number}": "node01" for number in range(3)}),
    ("PriorityLabel", {"test-7f7bb8f449-w6wvv": "scheduler-2"}),
    ("multipoint-communicating-plugin", {"my-test-pod": WAITS}),
    ("tonodename-scoring-plugin", {f"web-{number}": "piworknode001" for number in range(10)}),
]  # fmt: skip
"""Example → where some of its pods go."""
OTHERS = {"FirstScheduledNode", "RandomScore"}
"""Examples with a test of their own."""


def nodes_of(folder: Path) -> dict[str, str]:
    """Pod → node after a simulation; "" for one that waits."""
    assembly = assemble(folder / "config.yaml")
    assert assembly.warnings == ()
    files = (
        folder / f"{name}.yaml" for name in ("nodes", "quotas", "topologies", "pods", "samples")
    )
    objects = [each for each in files if each.exists()]
    source = load.read(nodes=None, pods=None, objects=objects, generate=None)
    log = MemoryEventLog("s")
    simulation = new_or_resumed(
        assembly, source.of_profiles(assembly.profiles), log, "seed", None, None
    )
    simulation.run(600_000_000)
    state = simulation.engine.state
    return {each.pod.name: each.pod.node_name for each in state.pods.values()}


def test_every_example_is_judged() -> None:
    folders = {path.parent.name for path in EXAMPLES.glob("*/config.yaml")}
    assert folders == {name for name, _ in PLACES} | OTHERS


@pytest.mark.parametrize(("name", "expected"), PLACES)
def test_pods_go_where_the_page_says(name: str, expected: dict[str, str]) -> None:
    """Those that it does not speak of go somewhere."""
    found = nodes_of(EXAMPLES / name)
    assert {pod: found[pod] for pod in expected} == expected
    assert all(node for pod, node in found.items() if pod not in expected)


def test_a_pod_that_is_never_bound_is_not_parked(capsys: pytest.CaptureFixture[str]) -> None:
    """It is tried again and again, as its example's first line shows."""
    text = (EXAMPLES / "multipoint-communicating-plugin/config.yaml").read_text()
    command = (
        text.splitlines()[0].removeprefix("# eventsched ").replace("examples/", f"{EXAMPLES}/")
    )
    assert main([*command.split(), "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["placed"], found["pending"], found["parked"]) == (1, 1, 0)
    assert found["pending_reasons"] == {"pod is not permitted": 1}
    assert len(found["why"]["attempts"]) > 5


def test_the_next_pod_of_a_deployment_goes_where_the_first_one_was() -> None:
    """Though the default plugins would have it elsewhere: the other node is emptier."""
    found = nodes_of(EXAMPLES / "FirstScheduledNode")
    assert found["web-7f7bb8f449-bbbbb"] == found["web-6d4cf56db6-aaaaa"]


def test_random_scores_spread_pods() -> None:
    """Over more than one node, the same ones every time."""
    found = nodes_of(EXAMPLES / "RandomScore")
    assert len(set(found.values())) > 1
    assert nodes_of(EXAMPLES / "RandomScore") == found
