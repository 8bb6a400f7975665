"""Answers on terminals: bars and colours, the same from the API as from the commands; and ASCII on
terminals without UTF-8."""

from pathlib import Path

import pytest

from eventsched.cli.main import main
from tests.api.asking import Client
from tests.api.test_now import waiting_log
from tests.api.test_text_answers import NARROW, PODS, words_of
from tests.postgres.histories import TIGHT
from tests.terminals import PLAIN_LOCALE, on_terminal, without_styles

COMMANDS = {
    "explain": ["explain", "default/pod-000001"],
    "why-not": ["explain", "default/pod-000001", "--why-not", "node-00003"],
    "queue": ["queue", "--at", "200"],
    "diff": ["diff", "--from", "100", "--to", "300"],
    "try": ["try", "-f", "FILE"],
}


@pytest.fixture
def placed(client: Client) -> str:
    """A pod that could have had several nodes."""
    page = client.get(f"/decisions?stream={TIGHT}&outcome=scheduled&limit=1000")
    decided = next(each for each in page["decisions"] if each["runner_up"])
    return f"{decided['namespace']}/{decided['pod']}"


def test_the_api_answers_what_a_terminal_shows(client: Client, logs: str, placed: str) -> None:
    shown = on_terminal("explain", placed, *NARROW, "--database", logs, columns=130)
    asked = f"/pods/{placed}/explain?stream={TIGHT}&width=130"
    assert words_of(client, f"{asked}&bars=true&colours=true") == shown
    assert "█" in shown
    assert "\x1b[1mWhy " in shown
    plain = words_of(client, asked)
    assert "█" not in plain
    assert "\x1b" not in plain
    assert without_styles(words_of(client, f"{asked}&colours=true")) == plain


@pytest.mark.parametrize("name", COMMANDS)
def test_colours_take_no_room_and_can_be_left_out(
    name: str, logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / "pods.yaml").write_text(PODS)
    words = [word.replace("FILE", str(tmp_path / "pods.yaml")) for word in COMMANDS[name]]
    printed = []
    for variables in ({}, {"FORCE_COLOR": "1"}, {"FORCE_COLOR": "1", "NO_COLOR": "1"}):
        for variable in ("FORCE_COLOR", "NO_COLOR"):
            monkeypatch.delenv(variable, raising=False)
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value)
        main([*words, *NARROW, "--database", logs])
        out = capsys.readouterr().out
        printed.append(out.partition("Decided again")[0])  # after it are seconds
    plain, coloured, refused = printed
    assert refused == plain
    assert without_styles(coloured) == plain != coloured


def test_the_queue_and_a_trial_have_colours_from_the_api(client: Client) -> None:
    queue = f"/queue?stream={TIGHT}&at=200"
    assert without_styles(words_of(client, f"{queue}&colours=true")) == words_of(client, queue)
    tried = client.post(f"/try?stream={TIGHT}&text=true&colours=true", PODS.encode())["text"]
    assert tried.startswith("\x1b[31m0 of 1 pod would be placed\x1b[0m\n\n")


def test_a_terminal_without_utf_8_has_ascii(
    database: str, logs: str, placed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting_log(database)
    frame = on_terminal("top", "--once", "--database", database, environ=PLAIN_LOCALE)
    assert frame.isascii()
    cpu = next(line for line in without_styles(frame).splitlines() if line.startswith("cpu "))
    assert cpu.split()[1].startswith("###")
    assert set(cpu.split()[1]) <= set("#=-.")
    story = on_terminal("explain", placed, *NARROW, "--database", logs, environ=PLAIN_LOCALE)
    rich = on_terminal("explain", placed, *NARROW, "--database", logs)
    assert story.isascii()
    assert "####" in story
    assert list(map(len, story.splitlines())) == list(map(len, rich.splitlines()))


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_lines_fit_the_terminal(columns: int, logs: str, placed: str) -> None:
    """On 40 columns the words of tables do not fit, paragraphs do."""
    shown = on_terminal("explain", placed, *NARROW, "--database", logs, columns=columns)
    lines = without_styles(shown).splitlines()
    if columns > 40:
        assert [line for line in lines if len(line) > columns] == []
    assert max(map(len, lines[: lines.index("")])) <= columns
    assert ("█" in shown) is (columns > 40)
