"""``eventsched plugin``: new packages, and checks of plugins."""

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
def test_impure_calls_are_reported_with_their_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "impure.py"
    file.write_text(IMPURE)
    code, report = checked(capsys, str(file), "--attempts", "20")
    [plugin] = report["plugins"]
    found = {
        (each["kind"], each["point"], each["what"].partition(", ")[0], each["where"])
        for each in plugin["findings"]
        if each["kind"] == "impure"
    }
    assert (code, report["ok"], plugin["points"]) == (
        1, False, ["filter", "score", "reserve", "postBind"],
    )  # fmt: skip
    assert found == {
        ("impure", "filter", "uses the clock: time.time()", "impure.py:17"),
        ("impure", "filter", "uses the clock: datetime.now()", "impure.py:17"),
        ("impure", "reserve", "reads the environment", "impure.py:21"),
        ("impure", "reserve", "accesses a file: open", "impure.py:22"),
        ("impure", "score", "uses randomness: random.random()", "impure.py:25"),
        ("impure", "score", "uses randomness: numpy.random.rand()", "impure.py:26"),
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


def test_a_cause_is_reported_before_its_consequences(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Wake-ups are not checked if filtering is random; a misspelt method gets a remark."""
    file = tmp_path / "fickle.py"
    file.write_text(FICKLE)
    _, report = checked(capsys, str(file), "--attempts", "60")
    [plugin] = report["plugins"]
    first, *rest = [finding["kind"] for finding in plugin["findings"]]
    # Chance decides whether the other process differs as well: one finding or two.
    assert (first, set(rest)) == ("impure", {"unstable"})
    assert "plugin Fickle: method score_nod: did you mean score_node?" in plugin["remarks"]
    assert any(each.startswith("wakes_on is not checked") for each in plugin["remarks"])


@pytest.mark.process
def test_a_process_with_another_hash_seed_answers_differently(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "unstable.py"
    file.write_text(UNSTABLE)
    code, report = checked(capsys, str(file), "--attempts", "5")
    [finding] = report["plugins"][0]["findings"]
    assert (code, finding["kind"], finding["point"]) == (1, "unstable", "score")
    assert "in another process" in finding["what"]


def test_an_exported_log_is_a_history(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An exported log has fewer kinds of changes and other labels than the generated history."""
    logs = sorted((ROOT / "tests" / "histories").glob("**/*.jsonl*"))
    assert logs
    code, report = checked(capsys, "NodeAffinity", "--history", str(logs[0]), "--attempts", "30")
    [plugin] = report["plugins"]
    assert (code, report["ok"]) == (0, True)
    assert plugin["attempts"] > 0
    assert plugin["history"].startswith("stream ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import nothing_of_that_name", "does not import: line 1: ModuleNotFoundError"),
        ("x = 1", "holds no plugin"),
        (BROKEN, "constructor raised ZeroDivisionError"),
        ("import os\nos._exit(7)", "ended with exit code 7"),
    ],
)  # fmt: skip
def test_a_file_without_a_working_plugin_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(text)
    assert main(["plugin", "check", str(file)]) == 2
    message = capsys.readouterr().err
    assert problem in message
    assert message.count("\n") == 1


@pytest.mark.parametrize("target", ["NoSuchPlugin", "no/such/file.py"])
def test_an_unknown_target_is_refused(capsys: pytest.CaptureFixture[str], target: str) -> None:
    assert main(["plugin", "check", target]) == 2
    assert target in capsys.readouterr().err


@pytest.mark.process
def test_a_new_package_passes_its_tests_and_checks(tmp_path: Path) -> None:
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
        ("fast_disk", "is not a class name; write it like FastDisk"),
        ("Größe", "is not a class name"),
        ("NodeName", "a plugin with this name exists"),
        ("Json", "a package cannot be called json"),
        ("A" + "b" * 60, "is too long"),
    ],
)
def test_invalid_plugin_names_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, problem: str
) -> None:
    assert main(["plugin", "new", name, "--dir", str(tmp_path / "new")]) == 2
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_folder_with_files_is_not_overwritten(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("mine")
    assert main(["plugin", "new", "FastDisk", "--dir", str(tmp_path)]) == 2
    assert "is not an empty folder" in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
