"""Each method that the engine calls has a Protocol, and calls and plugins keep to it."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventsched.plugins import IN_TREE
from eventsched.scheduling.framework import POINTS, PluginError, Status, extension_points
from eventsched.scheduling.framework.call_guard import METHODS
from eventsched.scheduling.framework.plugin_calls import PluginCalls
from eventsched.scheduling.framework.profile import Profile

ROOT = Path(__file__).resolve().parents[3]
NOT_PROTOCOLS = {"filter_node", "score_node"}
"""Methods of one node: an adapter makes columns of them."""
PROTOCOLS = {
    name: [method for method in vars(kind) if not method.startswith("_")]
    for name, kind in vars(extension_points).items()
    if isinstance(kind, type) and kind.__module__ == extension_points.__name__
    if kind is not extension_points.NamedPlugin
}


def test_each_method_that_is_called_has_one_protocol() -> None:
    methods = [method for found in PROTOCOLS.values() for method in found]
    assert sorted(methods) == sorted({*METHODS, "sign", "drop_codes"} - NOT_PROTOCOLS)


def test_the_engine_looks_no_attribute_of_a_plugin_up_by_its_name() -> None:
    found = []
    for path in (ROOT / "eventsched" / "scheduling").rglob("*.py"):
        if path.parent.name in ("config", "framework"):
            continue  # of documents; at assembly
        found += [
            f"{path}:{node.lineno}"
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Name) and node.id in ("getattr", "hasattr")
        ]
    assert not found


class Bare:
    """Serves no point."""

    name = "Bare"


class Chatty(Bare):
    def permit(self, cycle: Any, pod: Any, node: str) -> Any:
        return Status.unschedulable("a\0b")


def test_a_method_that_is_missing_fails_when_it_is_called() -> None:
    calls = PluginCalls(Bare())
    assert (calls.hint, calls.unreserve, calls.prepared) == (None, None, None)
    with pytest.raises(PluginError, match="Bare failed in bind: raised AttributeError"):
        calls.bind(None, None, "n")  # type: ignore[arg-type]


def test_an_answer_is_checked_whoever_asks() -> None:
    calls = PluginCalls(Chatty())
    assert calls.permit(None, None, "n") == Status.unschedulable("a\ufffdb")  # type: ignore[arg-type]


def test_a_plugin_at_several_points_is_bound_once() -> None:
    class Sorts(Chatty):
        def sort_key(self, queued: Any) -> tuple[Any, ...]:
            return ()

    plugin = Sorts()
    points = {
        point: [plugin] if point in ("queueSort", "permit", "bind") else [] for point in POINTS
    }
    profile = Profile("p", points, {})
    assert profile.permit == profile.bind == [profile.calls("Bare")]


@pytest.mark.process
def test_in_tree_plugins_keep_to_the_protocols() -> None:
    lines = ["from eventsched.scheduling.framework.extension_points import *"]
    for number, plugin in enumerate(IN_TREE.values()):
        lines.append(f"from {plugin.__module__} import {plugin.__name__} as Plugin{number}")
        for name, (method,) in PROTOCOLS.items():
            if hasattr(plugin, method):
                lines.append(f"def as_{name}_{number}(it: Plugin{number}) -> {name}: return it")
    assert len(lines) > 2 * len(IN_TREE)
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir=.mypy_cache/snippets"]
    command += ["--strict", "-c", "\n".join(lines)]
    told = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
