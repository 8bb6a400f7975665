"""Pages of the documentation that tests run as they stand.

A block of ``console`` has commands (``$ …``; a backslash at the end of a line continues it) and
what each prints. A line of output that is only ``…`` stands for any number of lines, and within a
line for any text. A block of another language begins with ``# FILE`` and becomes that file.
``export NAME=…`` is not run: a test has values of its own for what a page exports, and the commands
before it do not see them.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.databases import ROOT

_LIMIT = 300


class Page:
    """A page of docs, to be run in a folder. ``environment`` are the values of what it exports, and
    of other variables. ``before`` is called with each command before it is run, and a command for
    which it returns False is left out."""

    def __init__(
        self,
        name: str,
        folder: Path,
        environment: Mapping[str, str],
        *,
        programs: Mapping[str, str] | None = None,
        path: tuple[Path, ...] = (),
        before: Callable[[str], bool | None] = lambda command: True,
    ) -> None:
        """``programs`` are shell scripts that the page finds by their names, before those of
        ``path`` and of the machine."""
        self.text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        self.exported: set[str] = set()
        self._folder, self._given, self._before = folder, environment, before
        own = folder / ".programs"
        own.mkdir()
        scripts = {
            "eventsched": f'exec {sys.executable} -m eventsched "$@"',
            "python": f'exec {sys.executable} "$@"',
            **(programs or {}),
        }
        for program, script in scripts.items():
            (own / program).write_text(f"#!/bin/sh\n{script}\n")
            (own / program).chmod(0o755)
        places = (own, *path, Path(sys.executable).parent)
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("EVENTSCHED_", "PG"))},
            "PATH": os.pathsep.join((*map(str, places), os.environ.get("PATH", os.defpath))),
            "PYTHONPATH": str(ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            **{k: v for k, v in environment.items() if f"$ export {k}=" not in self.text},
        }

    def run(self, until: str = "") -> int:
        """Runs the page, or what is before the heading ``until``; the number of commands that
        were run. Raises AssertionError if one prints something else than the page says."""
        text = self.text
        if until:
            text, found, _ = text.partition(f"\n{until}\n")
            assert found, f"no heading {until}"
        count = 0
        for language, block in _blocks(text):
            if language != "console":
                self._write(block)
                continue
            for command, expected in _commands(block):
                count += self._do(command, expected)
        return count

    def _write(self, block: str) -> None:
        name, _, content = block.partition("\n")
        assert name.startswith("# "), f"a block without a file's name: {name}"
        (self._folder / name.removeprefix("# ")).write_text(content, encoding="utf-8")

    def _do(self, command: str, expected: str) -> bool:
        if exports := re.fullmatch(r"export (\w+)=.*", command):
            name = exports[1]
            self.exported.add(name)
            assert name in self._given, f"{name} has no value"
            self._environment[name] = self._given[name]
            return False
        if self._before(command) is False:
            return False
        ended = subprocess.run(
            ["bash", "-c", command], cwd=self._folder, env=self._environment,
            capture_output=True, text=True, check=False, timeout=_LIMIT,
        )  # fmt: skip
        printed = ended.stdout + ended.stderr
        assert re.fullmatch(_pattern(expected), printed), f"$ {command}\n{printed}"
        return True


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    blocks = re.findall(r"^( *)```(\w+)\n(.*?)^\1```$", text, re.DOTALL | re.MULTILINE)
    for indentation, language, block in blocks:
        yield language, re.sub(f"^{indentation}", "", block, flags=re.MULTILINE)


def _commands(block: str) -> list[tuple[str, str]]:
    """Each command of a block, and what it is said to print."""
    parts = re.split(r"^\$ ((?:.*\\\n)*.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def _pattern(expected: str) -> str:
    lines = []
    for line in expected.splitlines():
        words = r"[^\n]*".join(re.escape(part) for part in line.split("…"))
        lines.append(r"(?:[^\n]*\n)*" if line == "…" else words + r"\n")
    return "".join(lines)
