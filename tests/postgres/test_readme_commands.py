"""The README's commands on a database, as written there except for the place."""

import re
import shlex
from pathlib import Path

import pytest

from eventsched.cli.main import main
from tests.databases import Server, migrate

README = (Path(__file__).parent.parent.parent / "README.md").read_text()


def test_record_then_ask(one_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """A smaller load; what is asked of it is the same. Tables of SQL fit 80 columns."""
    section = README.partition("## Record, then ask\n")[2].partition("\n## ")[0]
    block = re.findall(r"```console\n(.*?)```", section, re.DOTALL)[0]
    commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    first_sql = re.findall(r'eventsched sql .*?-c "([^"]*)"', README, re.DOTALL)[0]
    assert len(commands) == 3
    with one_server.fresh(migrate) as url:
        for command in (*commands, f'x sql -c "{first_sql}" --data-dir demo'):
            words = shlex.split(command.replace("\\\n", " "))[1:]
            place = words.index("--data-dir")
            words[place : place + 2] = ["--database", url]
            words = [each.replace("nodes=300,pods=3000", "nodes=40,pods=1100") for each in words]
            assert main(words) == 0, command
            printed = capsys.readouterr().out
            assert printed.strip(), command
            if words[0] == "sql":
                assert max(map(len, printed.splitlines())) <= 80
