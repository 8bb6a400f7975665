"""Stored verdict codes and the keys of a cycle are two numberings that cannot be mixed up."""

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from eventsched.domain.records import verdicts
from eventsched.scheduling.cycle import cycle_keys

ROOT = Path(__file__).resolve().parents[3]
CODES = {name: value for name, value in vars(verdicts).items() if name.startswith("STORED_")}
KEYS = {name: value for name, value in vars(cycle_keys).items() if name.startswith("KEY_")}


def constants(path: Path) -> list[str]:
    """The names in capitals that a module assigns to."""
    found = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        found += [t.id for t in targets if isinstance(t, ast.Name) and t.id.isupper()]
    return found


def test_a_name_belongs_to_one_numbering_and_is_defined_once() -> None:
    assert len(CODES) == len(KEYS) == 4
    places = defaultdict(list)
    for path in (ROOT / "eventsched").rglob("*.py"):
        for name in constants(path):
            places[name].append(path)
    for name in (*CODES, *KEYS):
        assert len(places[name]) == 1, places[name]
        for bare in (name.removeprefix("STORED_"), name.removeprefix("KEY_")):
            # Verification shares no code with what it checks, so it has its own copy.
            others = [path for path in places[bare] if path.parent.name != "verify"]
            assert bare == name or not others, others


def test_no_value_stands_for_something_in_both() -> None:
    assert len({*CODES.values(), *KEYS.values()}) == 8


@pytest.mark.process
def test_mixing_them_is_a_type_error() -> None:
    code = "\n".join([
        "from eventsched.domain.records.verdicts import STORED_PASSES, VerdictCode",
        "from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES, CycleKey",
        "counts: dict[CycleKey, int] = {KEY_PASSES: 1}",
        "counts[STORED_PASSES]",
        "code: VerdictCode = KEY_PASSES",
        "KEY_PASSES == STORED_PASSES",
    ])  # fmt: skip
    # Without the project's configuration, which names packages, and so not with its cache either.
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir=.mypy_cache/snippets"]
    command += ["--strict", "-c", code]
    told = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    wrong = [line.split(":")[1] for line in told.stdout.splitlines() if ": error:" in line]
    assert wrong == ["4", "5", "6"], told.stdout + told.stderr
