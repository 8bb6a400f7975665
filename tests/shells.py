"""Shells that complete a command line, as they do it for a user who presses TAB."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.waiting import LIMIT

COMPLETED_BY_BASH = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
read -ra entry <<<"$(complete -p eventsched)"
"${entry[-2]}" eventsched "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Calls the function that the script registers as bash does when TAB is pressed."""
_FISH = "source $argv[1]; complete -C $argv[2]"
_ZSH = """
PROMPT=; autoload -U compinit; compinit -u -D; source {script}
show() {{ print -r -- "LINE[$BUFFER]" }}; zle -N show; bindkey '^X' show; print READY
"""


class TypingShell:
    """A shell with the script of ``eventsched completion`` and the command in its PATH."""

    def __init__(self, shell: str, folder: Path, script: str) -> None:
        """Skips the test if there is no such shell."""
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed: apt-get install {shell}")
        self.shell = shell
        self._script = folder / f"completion.{shell}"
        self._script.write_text(script)
        programs = folder / "programs"
        programs.mkdir(exist_ok=True)
        command = programs / "eventsched"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m eventsched "$@"\n')
        command.chmod(0o755)
        self._environment = {
            **{name: value for name, value in os.environ.items() if "EVENTSCHED" not in name},
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(folder), "TERM": "dumb",
        }  # fmt: skip

    def offered(self, *words: str) -> list[str]:
        """What is offered for the last of the words of a command line, without what is said about
        each. zsh, which has to be asked through a terminal, says only what the line becomes."""
        line = " ".join(("eventsched", *words))
        if self.shell == "zsh":
            return [self._typed(line).split(" ", len(words))[-1].strip()]
        command = {
            "bash": (
                "bash",
                "--norc",
                "-c",
                COMPLETED_BY_BASH,
                "bash",
                self._script,
                "eventsched",
                *words,
            ),
            "fish": ("fish", "--no-config", "-c", _FISH, str(self._script), line),
        }[self.shell]
        done = subprocess.run(
            [str(word) for word in command], env=self._environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=True, timeout=LIMIT,
        )  # fmt: skip
        assert done.stderr == ""
        return [each.partition("\t")[0] for each in done.stdout.splitlines() if each]

    def _typed(self, line: str) -> str:
        """The line of zsh after TAB."""
        process, terminal = pty.fork()
        if process == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], self._environment)
        try:
            os.write(terminal, _ZSH.format(script=self._script).strip().encode() + b"\n")
            _read_to(terminal, "READY\r\n")
            os.write(terminal, line.encode() + b"\t\x18")
            return _read_to(terminal, "]\r\n", after="LINE[")
        finally:
            os.close(terminal)
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


def _read_to(terminal: int, end: str, after: str = "") -> str:
    """What a terminal shows between two texts, or from the beginning."""
    shown, deadline = "", time.monotonic() + LIMIT
    while True:
        last = shown.rpartition(after)[2] if after and after in shown else shown
        if end in last and after in shown:
            return last.partition(end)[0]
        ready, _, _ = select.select([terminal], [], [], deadline - time.monotonic())
        assert ready, f"not {end!r} within {LIMIT:g} s: {shown!r}"
        shown += os.read(terminal, 65536).decode(errors="replace")
