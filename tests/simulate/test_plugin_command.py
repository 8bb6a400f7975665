"""``eventsched plugin``: a package that is made, and plugins that are checked."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main

ROOT = Path(__file__).resolve().parents[2]

IMPURE = """
import datetime
import os
import random
import time
from pathlib import Path

import numpy as np

from eventsched.scheduling.framework import ClusterEvent


class Impure:
    name = "Impure"

    def filter_node(self, pod, node):
        if time.time() < 0 or datetime.datetime.now().year < 0:
            return "node(s) are early"

    def reserve(self, cycle, pod, node):
        os.environ.get("HOME")
        Path(__file__).read_text()

    def score(self, cycle, pod, nodes):
        random.random()
        np.random.rand(1)
        return np.zeros(len(nodes), dtype=int)

    def post_bind(self, cycle, pod, node):
        cycle.remember("pods", sorted({f"a{pod.name}", "b", "c"}))
"""
UNSTABLE = """
class Unstable:
    name = "Unstable"

    def score_node(self, pod, node):
        return hash(node.name) % 100
"""
BROKEN = """
class Broken:
    name = "Broken"

    def __init__(self):
        1 / 0

    def filter_node(self, pod, node):
        pass
"""


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["plugin", "check", *arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.process
def test_what_a_plugin_reaches_for_is_named_with_its_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "impure.py"
    file.write_text(IMPURE)
    code, said = checked(capsys, str(file), "--attempts", "20")
    [plugin] = said["plugins"]
    found = {
        (each["kind"], each["point"], each["what"].partition(", ")[0], each["where"])
        for each in plugin["findings"]
        if each["kind"] == "impure"
    }
    assert (code, said["ok"], plugin["points"]) == (
        1, False, ["filter", "score", "reserve", "postBind"],
    )  # fmt: skip
    assert found == {
        ("impure", "filter", "asks the clock: time.time()", "impure.py:17"),
        ("impure", "filter", "asks the clock: datetime.now()", "impure.py:17"),
        ("impure", "reserve", "reads the environment", "impure.py:21"),
        ("impure", "reserve", "reaches for a file: open", "impure.py:22"),
        ("impure", "score", "asks chance: random.random()", "impure.py:25"),
        ("impure", "score", "asks chance: numpy.random.rand()", "impure.py:26"),
    }


FICKLE = """
import random

class Fickle:
    name = "Fickle"
    wakes_on = ()

    def filter_node(self, pod, node):
        return "unlucky" if random.random() < 0.3 else None

    def score_nod(self, pod, node):
        return 1
"""


def test_the_reason_stands_before_what_follows_from_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Wake-ups are not looked at where nodes pass by chance; a misspelt method is noticed."""
    file = tmp_path / "fickle.py"
    file.write_text(FICKLE)
    _, said = checked(capsys, str(file), "--attempts", "60")
    [plugin] = said["plugins"]
    assert [each["kind"] for each in plugin["findings"]] == ["impure", "unstable"]
    assert "plugin Fickle: method score_nod: did you mean score_node?" in plugin["remarks"]
    assert any(each.startswith("wakes_on is not looked at") for each in plugin["remarks"])


@pytest.mark.process
def test_a_process_with_another_hash_seed_answers_differently(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "unstable.py"
    file.write_text(UNSTABLE)
    code, said = checked(capsys, str(file), "--attempts", "5")
    [found] = said["plugins"][0]["findings"]
    assert (code, found["kind"], found["point"]) == (1, "unstable", "score")
    assert "in another process" in found["what"]


def test_an_exported_log_is_a_history(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One that the load generator made: fewer kinds of changes, other labels."""
    logs = sorted((ROOT / "tests" / "histories").glob("**/*.jsonl*"))
    assert logs
    code, said = checked(capsys, "NodeAffinity", "--history", str(logs[0]), "--attempts", "30")
    [plugin] = said["plugins"]
    assert (code, said["ok"]) == (0, True)
    assert plugin["attempts"] > 0
    assert plugin["history"].startswith("stream ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import nothing_of_that_name", "does not import: line 1: ModuleNotFoundError"),
        ("x = 1", "holds no plugin"),
        (BROKEN, "cannot be made: ZeroDivisionError"),
        ("import os\nos._exit(7)", "has ended with 7"),
    ],
)  # fmt: skip
def test_what_is_no_plugin_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(text)
    assert main(["plugin", "check", str(file)]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("target", ["NoSuchPlugin", "no/such/file.py"])
def test_what_is_not_there_is_refused(capsys: pytest.CaptureFixture[str], target: str) -> None:
    assert main(["plugin", "check", target]) == 2
    assert target in capsys.readouterr().err


@pytest.mark.process
def test_what_is_made_passes_its_tests_and_checks(tmp_path: Path) -> None:
    """Its own test, ruff, mypy in strict mode, and the check."""
    folder = tmp_path / "two-words"
    assert main(["plugin", "new", "TwoWords", "--dir", str(folder)]) == 0
    python = [sys.executable, "-m"]
    for command in (
        [*python, "pytest", "-q", "-p", "no:cacheprovider"],
        [*python, "ruff", "check", "--no-cache", "."],
        [*python, "ruff", "format", "--no-cache", "--check", "."],
        [*python, "mypy", "--no-incremental"],
        [*python, "eventsched", "plugin", "check", ".", "--attempts", "50"],
        [*python, "eventsched", "simulate", "--manifests", "cluster.yaml", "--config",
         "config.yaml", "--plugin", "two_words/plugin.py", "-o", "json"],
    ):  # fmt: skip
        ended = subprocess.run(
            command, cwd=folder, env=_environment(), capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip
        assert ended.returncode == 0, f"{command}\n{ended.stdout}{ended.stderr}"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("fast_disk", "is no name of a class; write it like FastDisk"),
        ("Größe", "is no name of a class"),
        ("NodeName", "a plugin of that name exists already"),
        ("Json", "a package cannot be called json"),
        ("A" + "b" * 60, "is too long"),
    ],
)
def test_names_that_will_not_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, problem: str
) -> None:
    assert main(["plugin", "new", name, "--dir", str(tmp_path / "new")]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_what_is_there_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["plugin", "new", "FastDisk", "--dir", str(tmp_path)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
