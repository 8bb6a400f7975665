"""SIGTERM in processes that have no handlers of their own yet."""

import subprocess
import sys
from pathlib import Path

import pytest

from eventsched.signals import ENDED_BY_SIGTERM

pytestmark = pytest.mark.process

KILL = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
INSTALL = "from eventsched import signals; signals.install()"


def ended(*lines: str) -> tuple[int, str]:
    """Exit code and output of a program."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    "body",
    [
        "raise AssertionError('not reached')",
        "while True: pass",
    ],
)
def test_it_ends_with_143_and_without_a_word(body: str) -> None:
    assert ended(INSTALL, KILL, body) == (ENDED_BY_SIGTERM, "")


def test_what_has_begun_is_closed() -> None:
    program = "try:\n    " + KILL + "\nfinally:\n    print('closed')"
    assert ended(INSTALL, program) == (ENDED_BY_SIGTERM, "closed\n")


def test_a_plugins_file_does_not_keep_it(tmp_path: Path) -> None:
    """Nor is it said to be the file's mistake."""
    file = str(tmp_path / "plugin.py")
    Path(file).write_text(KILL)
    load = f"from pathlib import Path; assembly.assemble(None, [Path({file!r})])"
    code, said = ended(INSTALL, "from eventsched.runtime import assembly", load)
    assert (code, said) == (ENDED_BY_SIGTERM, "")


def test_one_that_cannot_be_raised_is_remembered() -> None:
    """Python drops what is raised while an object is finalized; the command ends all the same."""
    program = f"""
class Last:
    def __del__(self):
        {KILL}
        for _ in range(100): pass
{INSTALL}
import sys
from pathlib import Path
sys.unraisablehook = lambda _: None
Last()
sys.argv = ["eventsched", "config", "check", "/none"]
from eventsched.cli.main import main
sys.exit(main())
"""
    assert ended(program) == (ENDED_BY_SIGTERM, "")


def test_the_handler_comes_before_what_takes_long() -> None:
    program = """
import signal, sys
from eventsched import entry
assert not {each for each in sys.modules if each.startswith("eventsched.cli")}
entry.signals.install()
assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
import eventsched.cli.main
heavy = {"numpy", "msgspec", "sqlalchemy", "aiohttp", "kubernetes", "structlog"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
"""
    assert ended(program) == (0, "")
