"""Completion in a shell, as bash itself does it, and the version."""

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from eventsched import __version__
from eventsched.cli.completion import SHELLS, script
from eventsched.cli.main import COMMANDS, main
from tests.shells import COMPLETED_BY_BASH

script_of = cache(script)


@pytest.fixture
def bash(tmp_path: Path) -> Path:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    (tmp_path / "completion").write_text(script_of("bash"))
    return tmp_path


def completed(folder: Path, *words: str) -> list[str]:
    """What bash offers for the last of the words."""
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETED_BY_BASH, "bash", "completion", "eventsched", *words],
        cwd=folder, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("ex",), ["extender", "explain"]),
        (("log", ""), ["list", "tail", "streams", "export", "checkpoint"]),
        (("run", "--log-f"), ["--log-format"]),
        (("run", "--log-level", ""), ["debug", "info", "warning", "error"]),
        (("completion", ""), list(SHELLS)),
        (("run", "--config", "comp"), ["completion"]),
        (("config", "check", "comp"), ["completion"]),
        (("run", "--context", "comp"), []),
    ],
)
def test_bash_completes(bash: Path, words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(bash, *words) == offered


@pytest.mark.process
def test_a_folder_is_completed_without_files(bash: Path) -> None:
    (bash / "completions").mkdir()
    assert completed(bash, "explain", "--data-dir", "comp") == ["completions"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert text == script_of(shell)
    assert [name for name in COMMANDS if name not in text] == []


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["completion", "tcsh"])
    assert ended.value.code == 2
    assert "invalid choice: 'tcsh'" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"eventsched {__version__}\n"
