"""Logs of 0.1 with what it wrote otherwise: they replay, and the difference has a name."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cli.main import main
from eventsched.domain.objects import CPU, Image, Node, Pod, canonical
from eventsched.history.replay.tolerances import escaped, has_edges, unescaped
from tests.builders import added, engine_of, make_node, make_pod, observed
from tests.old_logs import HISTORIES, TOLERATED
from tests.properties.strategies import deterministic


def replayed(capsys: pytest.CaptureFixture[str], path: Path) -> tuple[int, dict[str, Any]]:
    code = main(["replay", "--verify", "--file", str(path), "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", TOLERATED)
def test_an_old_log_replays(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, said = replayed(capsys, HISTORIES / f"{name}.jsonl.gz")

    assert (code, said["divergence"]) == (0, None)
    assert said["tolerated"] == TOLERATED[name]


def test_the_differences_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    main(["replay", "--verify", "--file", str(HISTORIES / "0.1-nul.jsonl.gz")])

    told = capsys.readouterr().out
    assert "every decision came out as it is written, except for:" in told
    assert "2 steps with the known difference escaped-nul of 0.1" in told


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("0.1-nul.jsonl.gz", '"feasible":2', '"feasible":1'),  # there is no number at an edge
        ("0.1-edges.jsonl.gz", '"kind":"PodAdded"', '"kind":"PodUpdated"'),  # no decision
    ],
)
def test_nothing_else_is_tolerated(
    name: str, old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = tmp_path / "log.jsonl"
    written = gzip.decompress((HISTORIES / name).read_bytes())
    lines = [json.loads(line) for line in written.splitlines()]
    batch = next(line["batch"] for line in lines if old in line.get("batch", [""])[-1])
    batch[-1] = batch[-1].replace(old, new, 1)
    changed.write_text("".join(json.dumps(line) + "\n" for line in lines))

    code, said = replayed(capsys, changed)

    assert (code, said["divergence"] is not None) == (1, True)


texts = st.text(st.sampled_from('ab\\u0ffd"\0\ufffd{}é\n'), max_size=12)


@deterministic(100)
@given(st.dictionaries(texts, texts, max_size=4))
def test_escapes_are_read_and_nothing_else(value: dict[str, str]) -> None:
    """Whatever 0.1 made of a text, the text is the same."""
    body = canonical(value)

    assert unescaped(body) == body
    assert unescaped(escaped(body)) == body
    assert msgspec.json.decode(escaped(body)) == msgspec.json.decode(body)


EDGE = 2**52


@pytest.mark.parametrize(
    "make",
    [
        lambda number: make_node(cpu=number),
        lambda number: make_node(images=(Image(names=("a",), size=number),)),
        lambda number: make_pod(cpu=number),
        lambda number: make_pod(spec={"overhead": {CPU: number}}),
        lambda number: make_pod(cpu=number, node_name="n2"),
    ],
    ids=["node", "image", "pod", "overhead", "pod on a node"],
)
def test_numbers_that_0_1_computed_with_differently(make: Callable[[int], Node | Pod]) -> None:
    """Of a node, an image, or a pod wherever it is: from 2^52 on."""
    for number, expected in ((EDGE - 1, False), (EDGE, True), (EDGE + 1, True)):
        engine = engine_of()
        observed(engine, *added(make_node("n2"), make(number)))
        assert has_edges(engine.state) == expected
