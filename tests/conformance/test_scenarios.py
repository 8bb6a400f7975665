"""Verdicts and scores against what upstream's own plugin code says of the same scenarios.

The golden records come from tests/conformance/oracle. Held here are the kinds whose plugins exist;
one test a scenario, with the differences of its pods spelled out.
"""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eventsched.runtime.assembly import registry
from eventsched.runtime.evaluation import evaluate

FOLDER = Path(__file__).parent
KINDS = ("resources", "taints", "nodeaffinity", "ports", "images")


def _lines(name: str) -> list[bytes]:
    with gzip.open(FOLDER / name, "rb") as file:
        return file.read().splitlines()


@cache
def _golden() -> dict[str, dict[str, Any]]:
    found = (json.loads(line) for line in _lines("golden.jsonl.gz"))
    return {each["id"]: each for each in found}


@cache
def _scenarios() -> dict[str, bytes]:
    found = ((json.loads(line), line) for line in _lines("scenarios.jsonl.gz"))
    return {each["id"]: line for each, line in found if each["kind"] in KINDS}


@cache
def _known() -> dict[str, type[Any]]:
    return registry()


def _differences(where: str, ours: Any, theirs: Any) -> list[str]:
    """Every leaf that differs, one a line."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [
            line
            for key in sorted({*ours, *theirs})
            for line in _differences(f"{where}.{key}", ours.get(key), theirs.get(key))
        ]
    return [] if ours == theirs else [f"{where}: upstream {theirs!r}, ours {ours!r}"]


@pytest.mark.parametrize("scenario", _scenarios())
def test_every_pod_is_judged_as_upstream_judges_it(scenario: str) -> None:
    answer = evaluate(_scenarios()[scenario], scenario, _known())
    golden = _golden()[scenario]

    assert "error" not in answer, answer["error"]
    assert [pod["pod"] for pod in answer["pods"]] == [pod["pod"] for pod in golden["pods"]]
    differences = [
        line
        for ours, theirs in zip(answer["pods"], golden["pods"], strict=True)
        for line in _differences(theirs["pod"], ours, theirs)
    ]
    assert not differences, "\n".join([scenario, *differences])


def test_twelve_hundred_pods_are_compared() -> None:
    golden = _golden()
    assert sum(len(golden[scenario]["pods"]) for scenario in _scenarios()) == 1_200
    kinds = [json.loads(line)["kind"] for line in _scenarios().values()]
    assert {kind: kinds.count(kind) for kind in KINDS} == dict.fromkeys(KINDS, 40)
