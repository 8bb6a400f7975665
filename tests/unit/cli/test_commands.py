"""The list of commands, from which help and completion are made."""

import pytest

from eventsched.cli.main import COMMANDS, every_command, main
from tests.databases import ROOT


def test_every_module_with_a_command_is_in_the_list() -> None:
    modules = sorted((ROOT / "eventsched/cli").glob("*.py"))
    found = {path.stem for path in modules if "def add_to(" in path.read_text(encoding="utf-8")}
    assert found == COMMANDS.keys()


def test_the_list_describes_each_command_as_the_command_itself_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """``eventsched`` alone prints the list without importing any command."""
    assert main([]) == 2
    assert capsys.readouterr().err == every_command().format_help()
