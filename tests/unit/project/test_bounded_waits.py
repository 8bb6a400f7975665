"""No test waits forever, and no property has Hypothesis's limit of time: what can be seen of it in
the tests' code.

pytest-timeout (pyproject.toml) ends the rest, with all stacks.
"""

import ast
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import ROOT
from tests.waiting import joined, next_line, until

TESTS = ROOT / "tests"
WAITING = re.compile(r"sleep\(|\.join\(\)|\.result\(\)|\.communicate\(|subprocess\.")
"""Files without any of this hold nothing that is looked for; they need no parsing."""
BOUNDED = re.compile(r"monotonic|\.timeout\(|\.wait\(")
ALLOWED = {
    "tests/cluster/harness/chaos.py": "until its owner ends it",
    "tests/cluster/harness/faults.py": "a held request ends with its proxy",
    "tests/cluster/harness/load.py": "until its owner ends it",
    "tests/cluster/harness/observer.py": "until its owner ends it",
    "tests/cluster/test_gangs.py": "a held request ends with its server",
    "tests/live/test_driver.py": "a task that is cancelled",
    "tests/web/test_listener.py": "a task that is cancelled",
}
"""Where a loop sleeps on purpose until something else ends it."""

PROPERTY = re.compile(r"^(.*)\n *@given\(", re.MULTILINE)
SETTLED = re.compile(r" *@(strategies\.)?(deterministic|bounded)\(")


def _named(call: ast.Call) -> set[str | None]:
    return {keyword.arg for keyword in call.keywords}


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _is_unbounded(call: ast.Call) -> bool:
    name = _name(call)
    last = name.rpartition(".")[2]
    if name in ("subprocess.run", "subprocess.check_output", "subprocess.check_call"):
        return "timeout" not in _named(call)
    if last == "communicate":
        return "timeout" not in _named(call)
    if call.args or call.keywords:
        return False
    receiver = name.rpartition(".")[0]
    return (last == "join" and receiver != "") or (last == "result" and "future" in receiver)


def _unbounded(tree: ast.Module) -> Iterator[int]:
    """Lines that wait for a thread, a process or a condition without an end."""
    inside = {
        id(child)
        for block in ast.walk(tree)
        if isinstance(block, ast.AsyncWith) and ".timeout(" in ast.unparse(block.items[0])
        for child in ast.walk(block)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_unbounded(node):
            yield node.lineno
        if isinstance(node, ast.While) and id(node) not in inside:
            text = ast.unparse(node)
            if "sleep(" in text and not BOUNDED.search(text):
                yield node.lineno


def test_waits_have_an_end() -> None:
    found = [
        f"{place}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if (place := str(path.relative_to(ROOT))) not in ALLOWED
        if WAITING.search(text := path.read_text())
        for line in _unbounded(ast.parse(text))
    ]
    assert found == [], "give it a limit: tests/waiting.py has until, joined and next_line"


def test_properties_have_the_same_cases_in_each_run_and_no_deadline() -> None:
    """A busy machine takes longer than 200 ms for a case, now and then."""
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in PROPERTY.findall(path.read_text())
        if not SETTLED.match(line)
    ]
    assert found == [], "put @deterministic (tests/properties/strategies.py) before @given"


@pytest.mark.parametrize(
    "code",
    [
        "while not done():\n    time.sleep(1)",
        "thread.join()",
        "process.communicate()",
        "subprocess.run(command, check=True)",
        "async def f():\n    while not done():\n        await asyncio.sleep(1)",
    ],
)
def test_a_wait_without_an_end_is_found(code: str) -> None:
    assert list(_unbounded(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "while not done():\n    assert time.monotonic() < deadline\n    time.sleep(1)",
        "thread.join(5)",
        "', '.join(words)",
        "process.communicate(timeout=5)",
        "async def f():\n    async with asyncio.timeout(5):\n        while a: sleep(1)",
    ],
)
def test_a_wait_with_an_end_is_left_alone(code: str) -> None:
    assert not list(_unbounded(ast.parse(code)))


def test_a_condition_that_does_not_come_is_named() -> None:
    with pytest.raises(TimeoutError, match=r"^not the cows are home within 0\.02 s$"):
        until(lambda: False, "the cows are home", 0.02)


@pytest.mark.process
def test_nothing_is_awaited_of_a_process_that_has_ended() -> None:
    ended = pytest.raises(TimeoutError, match="the process ended with exit code 7")
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as process, ended:
        until(lambda: False, "it speaks", of=process)


def test_a_thread_that_goes_on_is_named() -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, args=(60,), name="slow")
    thread.start()
    with pytest.raises(TimeoutError, match="thread slow did not end"):
        joined(thread, 0.02)
    over.set()
    joined(thread)


@pytest.mark.process
def test_a_process_that_says_nothing_is_ended() -> None:
    silent = [sys.executable, "-c", "import time; print('once', flush=True); time.sleep(60)"]
    with subprocess.Popen(silent, stdout=subprocess.PIPE, text=True) as process:
        assert next_line(process) == "once\n"
        with pytest.raises(TimeoutError, match="no line of"):
            next_line(process, 0.1)


@pytest.mark.process
@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_the_last_resort_shows_all_stacks(tmp_path: Path, workers: tuple[str, ...]) -> None:
    """Also of a test in which a plugin's time was guarded: the guard uses the process's timer."""
    (tmp_path / "test_stuck.py").write_text(
        "import time\n"
        "from eventsched.runtime.call_deadlines import Deadlines\n"
        "def test_stuck():\n"
        "    Deadlines(1.0).timed('P', 'filter', lambda: None)\n"
        "    time.sleep(50)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}",
         "--timeout=2", "-o", "faulthandler_timeout=0.5", *workers, str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Timeout" in done.stderr
    assert re.search(r'test_stuck\.py", line 5 in test_stuck', done.stderr)
