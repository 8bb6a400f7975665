"""The manual: what the parser says, as man pages."""

import argparse
import shutil
import subprocess
from pathlib import Path

import pytest

from eventsched.cli.main import COMMANDS, main
from eventsched.cli.manual.command_pages import CommandOption, CommandPage, OptionGroup, pages_of
from eventsched.cli.manual.roff import file_name, man_page

HELP = CommandOption(("-h", "--help"), "", "show this help message and exit", required=False)


def example() -> argparse.ArgumentParser:
    """With every kind of option, and commands below."""
    parser = argparse.ArgumentParser("tool", description="Does\n  things.")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="show one", description="Shows one.")
    show.add_argument("pod", metavar="POD", help="its name")
    show.add_argument("more", nargs="*", metavar="MORE")
    where = show.add_argument_group("the log")
    where.add_argument("--at", metavar="POS", required=True, help="a position")
    where.add_argument("-o", "--output", choices=["json", "text"], default="text",
                       help="100 %% of it (default: %(default)s)")  # fmt: skip
    show.add_argument("--secret", help=argparse.SUPPRESS)
    return parser


def test_a_parser_becomes_pages() -> None:
    top = pages_of(example())
    show = CommandPage(
        name="tool show",
        summary="show one",
        description="Shows one.",
        groups=(
            OptionGroup(
                "positional arguments",
                (
                    CommandOption(("POD",), "", "its name", required=True),
                    CommandOption(("MORE",), "", "", required=False),
                ),
            ),
            OptionGroup("options", (HELP,)),
            OptionGroup(
                "the log",
                (
                    CommandOption(("--at",), "POS", "a position", required=True),
                    CommandOption(
                        ("-o", "--output"), "{json,text}", "100 % of it (default: text)",
                        required=False,
                    ),
                ),
            ),
        ),
        below=(),
    )  # fmt: skip
    assert top == CommandPage(
        "tool", "", "Does things.", (OptionGroup("options", (HELP,)),), (show,)
    )
    assert top.synopsis == "tool [options] COMMAND"
    assert show.synopsis == "tool show --at POS [options] POD [MORE]"
    assert [page.name for page in top.walk()] == ["tool", "tool show"]


def test_a_page_becomes_roff() -> None:
    """Text that begins like a request or has escapes stays text."""
    option = CommandOption(("-x",), "FILE", ".hidden \\n 'quoted'", required=False)
    page = CommandPage(
        "tool show", "show", ".TH is no title", (OptionGroup("the log", (option,)),), ()
    )
    assert man_page(page, "1.2", {0: "Success."}, ["tool"]).splitlines() == [
        '.TH "TOOL-SHOW" "1" "" "eventsched 1.2" "eventsched"',
        ".SH NAME",
        "tool\\-show \\- show",
        ".SH SYNOPSIS",
        "\\fBtool show [options]\\fR",
        ".SH DESCRIPTION",
        "\\&.TH is no title",
        ".SH THE LOG",
        ".TP",
        "\\fB\\-x\\fR \\fIFILE\\fR",
        "\\&.hidden \\en 'quoted'",
        ".SH EXIT STATUS",
        ".TP",
        "\\fB0\\fR",
        "Success.",
        ".SH SEE ALSO",
        "\\fBtool\\fR(1)",
    ]
    assert file_name(page) == "tool-show.1"


def test_every_command_has_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its options and those of commands below it, and mandoc reads it without an error."""
    assert main(["man", "--to", str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""
    written = {path.name: path.read_text() for path in (tmp_path / "man1").iterdir()}
    assert written.keys() == {
        "eventsched.1", *(f"eventsched-{command}.1" for command in COMMANDS)
    }  # fmt: skip
    assert all(f"\\fBeventsched\\-{name}\\fR(1)" in written["eventsched.1"] for name in COMMANDS)
    assert "eventsched db upgrade" in written["eventsched-db.1"]
    assert "\\fB\\-\\-why\\-not\\fR \\fINODE\\fR" in written["eventsched-explain.1"]
    if shutil.which("mandoc") is None:
        return
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "error", *sorted((tmp_path / "man1").iterdir())],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_one_page_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man", "queue"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith('.TH "EVENTSCHED-QUEUE"')
    assert main(["man"]) == 0
    assert capsys.readouterr().out.startswith('.TH "EVENTSCHED" ')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("queue", "--to", "x"), "--to: writes the pages of all commands; name no command"),
        (("--to", "{file}"), "--to {file}: Not a directory; name a folder to write to"),
    ],
)
def test_bad_input_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert main(["man", *(each.format(file=file) for each in arguments)]) == 2
    assert capsys.readouterr().err == f"eventsched man: {message.format(file=file)}\n"
