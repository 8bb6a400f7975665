"""Logs for ``eventsched replay``, and its answers about them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.eventlog.postgres.reader import Reader
from tests.postgres.simulations import STREAM, small_batches

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: FirstScheduledNode}, {name: Taste}]}}
"""
TASTE = '''
class Taste:
    """Refuses every ninth pod the second node and likes nodes by their names."""

    name = "Taste"

    def filter_node(self, pod, node):
        if pod.name.endswith("9") and node.name.endswith("1"):
            return "not to its taste"
        return None

    def score_node(self, pod, node):
        return int(node.name[-2:]) * 7 % 10
'''
Line = dict[str, Any]


def simulated(url: str, load: str, *more: object) -> None:
    with small_batches():
        assert main(["simulate", "--generate", load, "--database", url, *map(str, more)]) == 0


@pytest.fixture
def taste(tmp_path: Path) -> tuple[list[str], Path]:
    """Options that name a configuration with a custom plugin, and the plugin's file."""
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "taste.py").write_text(TASTE)
    return ["--config", str(tmp_path / "config.yaml")], tmp_path / "taste.py"


Replay = Callable[..., tuple[int, str, str]]


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str]) -> Replay:
    """Runs the command: exit code, output, errors."""

    def run(url: str, *more: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["replay", "--database", url, *map(str, more)])
        found = capsys.readouterr()
        return code, found.out, found.err

    return run


def find(url: str, kind: str, number: int = 0, **fields: Any) -> tuple[int, Line]:
    """The position and the fields of a stored record of a kind with such fields."""
    found = [
        (stored.position, body)
        for stored in Reader(url, STREAM).read()
        if stored.kind == kind and fields.items() <= (body := json.loads(stored.body)).items()
    ]
    return found[number]


def name_of(url: str, uid: str) -> str:
    """A pod as people know it."""
    pods = (json.loads(s.body)["pod"] for s in Reader(url, STREAM).read() if s.kind == "PodAdded")
    return next(f"default/{pod['name']}" for pod in pods if pod["uid"] == uid)


def diverges(replay: Replay, url: str, *more: object) -> Line:
    """What ``--verify`` names; said alike in text and in JSON, with exit code 1."""
    code, output, errors = replay(url, "--verify", "-o", "json", *more)
    assert code == 1, output
    found = json.loads(output)
    assert not found["verified"]
    divergence: Line = found["divergence"]
    code, output, again = replay(url, "--verify", *more)
    assert (code, again) == (1, errors)
    pod = f", pod {divergence['pod']}" if divergence["pod"] else ""
    assert output.splitlines()[-1] == (
        f"DIFFERS at position {divergence['position']} ({divergence['kind']}{pod}): "
        f"{divergence['what']}: expected {divergence['expected']}, came {divergence['came']}"
    )
    return divergence
