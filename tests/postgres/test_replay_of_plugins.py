"""``eventsched replay`` when a plugin of the log decides otherwise now, or is not named."""

import json
from pathlib import Path

import pytest

from tests.postgres.replays import (
    TASTE,
    Line,
    Replay,
    diverges,
    find,
    name_of,
    simulated,
)


@pytest.fixture
def tasted(database: str, taste: tuple[list[str], Path]) -> tuple[str, Path]:
    """The address of a log that was made with the plugin, and the plugin's file."""
    options, file = taste
    simulated(database, "nodes=3,pods=40,shape=tight,seed=2", *options, "--plugin", file)
    return database, file


WARNING = "warning: plugin Taste has another version now; decisions may differ\n"


def test_a_plugin_that_scores_otherwise(tasted: tuple[str, Path], replay: Replay) -> None:
    url, file = tasted
    file.write_text(TASTE.replace("* 7 % 10", "* 7 % 10 + (node.name == 'node-00002')"))
    found = diverges(replay, url, "--plugin", file)
    assert found["what"] == "plugin Taste, raw score of node node-00002"
    assert (found["expected"], found["came"]) == ("4", "5")
    assert found["position"] == find(url, "PodDecided")[0]
    assert found["pod"] == name_of(url, find(url, "PodDecided")[1]["uid"])
    assert replay(url, "--verify", "--plugin", file)[2] == WARNING


@pytest.mark.parametrize("text", ["no good", None])
def test_a_plugin_that_refuses_otherwise(
    text: str | None, tasted: tuple[str, Path], replay: Replay
) -> None:
    """By other words, or not at all."""
    url, file = tasted
    changed = TASTE.replace("not to its taste", text) if text else TASTE.replace('"9"', '"none"')
    file.write_text(changed)
    found = diverges(replay, url, "--plugin", file)
    assert found["what"] == "plugin Taste, verdict on node node-00001"
    assert found["expected"] == "Taste: not to its taste"
    assert found["came"] == (f"Taste: {text}" if text else "passes")
    assert found["pod"].endswith("9")


def test_a_plugin_that_breaks(tasted: tuple[str, Path], replay: Replay) -> None:
    url, file = tasted
    file.write_text(TASTE.replace("return int(", "return 1 // 0 + int("))
    found = diverges(replay, url, "--plugin", file)
    assert found["position"] == find(url, "PodAdded")[0] + 2
    assert (found["what"], found["expected"]) == ("plugin Taste", "scheduled")
    assert "ZeroDivisionError" in found["came"]


def test_a_plugin_by_chance(database: str, taste: tuple[list[str], Path], replay: Replay) -> None:
    """Named at the first decision that comes out otherwise (by chance not always the very first),
    with plugin and column."""
    options, file = taste
    file.write_text(
        TASTE.replace(
            "int(node.name[-2:]) * 7 % 10", "random.SystemRandom().randrange(101)"
        ).replace("\nclass", "import random\n\n\nclass", 1)
    )
    # Eight nodes are feasible. With one, the same score would come again once in a hundred runs.
    simulated(database, "nodes=8,pods=20,shape=plain,seed=2", *options, "--plugin", file)
    found = diverges_twice(replay, database, file)
    assert found["what"].startswith("plugin Taste, raw score of node node-"), found
    assert found["kind"] == "PodDecided"
    assert replay(database, "--verify", "--plugin", file)[2] == ""
    assert replay(database, "--plugin", file)[0] == 0, "what is applied is what is written"


def diverges_twice(replay: Replay, url: str, file: Path) -> Line:
    """Like ``diverges``, where each time something else comes."""
    code, output, _ = replay(url, "--verify", "--plugin", file, "-o", "json")
    assert code == 1
    found: Line = json.loads(output)["divergence"]
    assert found["expected"] != found["came"]
    return found


def test_a_plugin_that_is_not_named(tasted: tuple[str, Path], replay: Replay) -> None:
    url, _ = tasted
    code, output, errors = replay(url, "--verify")
    assert (code, output, len(errors.splitlines())) == (2, "", 1)
    assert "Taste" in errors
