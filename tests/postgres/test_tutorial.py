"""docs/tutorial.md as it stands: its files are written, its commands run, their output compared.

A line of output that is only ``…`` stands for any number of lines, and within a line for any text.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)


def test_the_tutorial_works_as_it_stands(place: Path, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("eventsched", "-m eventsched"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        (programs / name).chmod(0o755)
    folder = tmp_path / "tutorial"
    folder.mkdir()
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.defpath)),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = 0
    for language, text in BLOCKS:
        if language in ("python", "yaml"):
            name = text.partition("\n")[0].removeprefix("# ")
            (folder / name).write_text(text, encoding="utf-8")
            continue
        assert language == "console"
        for command, expected in _commands(text):
            if command.startswith("export EVENTSCHED_DATA_DIR="):
                environment["EVENTSCHED_DATA_DIR"] = str(place / "log")  # not the user's own
                continue
            ended = subprocess.run(
                command, shell=True, cwd=folder, env=environment, timeout=300, check=False,
                capture_output=True, text=True,
            )  # fmt: skip
            said = ended.stdout + ended.stderr
            assert re.fullmatch(_pattern(expected), said), f"$ {command}\n{said}"
            done += 1
    assert done == 18


def _commands(block: str) -> list[tuple[str, str]]:
    """Each command of a block, and what it is said to print."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _pattern(expected: str) -> str:
    lines = []
    for line in expected.splitlines():
        words = r"[^\n]*".join(re.escape(part) for part in line.split("…"))
        lines.append(r"(?:[^\n]*\n)*" if line == "…" else words + r"\n")
    return "".join(lines)
