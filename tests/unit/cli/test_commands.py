"""The list of commands, from which help and completion are made."""

import argparse
from collections.abc import Iterator

import pytest

from eventsched.cli.main import COMMANDS, every_command, main
from eventsched.kubectl_plugin import plugin_commands
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


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser with those of its commands and actions."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


def test_no_option_can_be_abbreviated() -> None:
    """Of any command, and of the plugin of kubectl."""
    made = [*parsers(every_command()), *parsers(plugin_commands.parser())]
    assert len(made) > len(COMMANDS)
    assert [parser.prog for parser in made if parser.allow_abbrev] == []


@pytest.mark.parametrize(
    ("command", "short"),
    [("verify", "--from-a"), ("replay", "--from-arch"), ("db stats", "--data")],
)
def test_what_is_short_for_an_option_is_refused(
    command: str, short: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named, and the exit code is that of bad input."""
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), short, "8000"])
    assert ended.value.code == 2
    assert f"unrecognized arguments: {short} 8000; see `eventsched" in capsys.readouterr().err
