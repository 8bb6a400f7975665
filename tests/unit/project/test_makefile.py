"""The README's first commands, as far as they can be judged without running them."""

import re
import shutil
import subprocess

import pytest

from tests.databases import ROOT

PAGES = ("README.md", "docs/simulate.md", "docs/write-a-plugin.md")
README = "".join((ROOT / page).read_text() for page in PAGES)
FILE = r"[\w.-]+\.(?:yaml|json|jsonl|py|gz)"


def _asked(*command: str) -> str:
    """What a program says about the checkout."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no program {command[0]}")
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout


def test_the_demo_installs_no_developers_tools() -> None:
    dry = _asked("make", "--dry-run", "--always-make", "demo")
    assert "'.[embedded]'" in dry
    assert "[dev]" not in dry
    assert "--quiet" not in dry


def test_the_demo_leads_to_a_time_with_pods_and_says_what_may_be_deleted() -> None:
    """At the end of its load all pods have ended, so that what is about now is empty."""
    lines = _asked("make", "--dry-run", "--always-make", "demo", "DEMO=the-folder").splitlines()
    said = [line.removeprefix("echo '").removesuffix("'") for line in lines if "echo" in line]
    for command in ("queue", "state"):
        assert f"  .venv/bin/eventsched {command} --at 100s --data-dir the-folder" in said
    assert any("http://127.0.0.1:8787/?at=100s, /pods?at=100s" in line for line in said)
    assert "The folder the-folder may be deleted: make demo makes it again." in said


def test_documents_install_from_a_checkout() -> None:
    """The package is in no index, so ``pip install eventsched`` finds nothing."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "".join(page.read_text() for page in pages)
    assert "pip install '.[cluster,embedded]'" in text
    assert re.findall(r"pip install '?eventsched\[[\w,]*", text) == []


def test_files_that_the_readme_makes_are_ignored_by_git() -> None:
    made = {
        *re.findall(rf"> ({FILE})", README),
        *re.findall(rf"^# ({FILE})$", README, re.MULTILINE),
        *(f"{folder}/x" for folder in re.findall(r"--data-dir ([a-z][\w.-]*)", README)),
        *(".venv/x", ".demo/x"),
    }
    assert {"cluster.yaml", "fast_disk.py", "demo/x"} <= made
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    ignored = _asked("git", "check-ignore", *sorted(made)).split()
    assert sorted(made) == ignored
