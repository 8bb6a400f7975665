"""Files with plugins are executed once for their content."""

import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventsched.domain.errors import InputError
from eventsched.runtime import plugin_files
from eventsched.runtime.assembly import registry

PLUGIN = """
from pathlib import Path
with Path(__file__).with_suffix(".log").open("a") as log:
    log.write("x")

class Mine:
    name = "Mine"
    def score_node(self, pod, node):
        return {score}
"""


def executions(path: Path) -> int:
    return len(path.with_suffix(".log").read_text())


def test_a_file_is_executed_again_only_if_its_content_has_changed(tmp_path: Path) -> None:
    """Also if its size and its time of change are those of before."""
    path = tmp_path / "mine.py"
    found = []
    for score, times in ((1, 1), (1, 1), (2, 2), (1, 2)):
        path.write_text(PLUGIN.format(score=score))
        found.append(registry([path])["Mine"])
        assert executions(path) == times
    first, again, changed, former = found
    assert first is again is former
    assert changed is not first
    assert (changed().score_node(None, None), former().score_node(None, None)) == (2, 1)


def test_files_of_one_name_have_their_own_sources(tmp_path: Path) -> None:
    """Whatever the order in which they are asked for."""
    paths = [tmp_path / name / "mine.py" for name in "ab"]
    for score, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(PLUGIN.format(score=score))
    for score in (0, 1, 0, 0, 1):
        plugin: Any = registry([paths[score]])["Mine"]
        assert plugin().score_node(None, None) == score
        assert inspect.getfile(plugin) == str(paths[score])
        assert f"return {score}" in inspect.getsource(plugin)


def test_a_file_that_fails_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN.format(score=1) + "raise ValueError\n")
    for times in (1, 2):
        with pytest.raises(InputError, match="line 10: ValueError"):
            plugin_files.imported(path)
        assert executions(path) == times


def test_the_modules_that_were_used_last_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_files, "_MOST", 2)
    plugin_files._modules.clear()
    paths = [tmp_path / f"{name}.py" for name in "abc"]
    for path in paths:
        path.write_text(PLUGIN.format(score=1))
    a, b, c = paths
    for path in (a, b, a, c, a, b):  # b is dropped for c, c for b
        plugin_files.imported(path)
    assert [executions(path) for path in paths] == [1, 2, 1]
    assert len(plugin_files._modules) == 2


def test_threads_that_need_a_file_at_once_execute_it_once(tmp_path: Path) -> None:
    """The file waits until the other threads have asked for it, or 10 s; none of them gets a module
    that is not whole."""
    path = tmp_path / "slow.py"
    path.write_text(f"import threading\nthreading.gate.wait(10)\n{PLUGIN.format(score=1)}")
    asked = threading.Semaphore(0)
    gate = threading.Event()

    def found() -> object:
        asked.release()
        return plugin_files.imported(path).Mine

    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(4) as threads:
        patched.setattr(threading, "gate", gate, raising=False)
        answers = [threads.submit(found) for _ in range(4)]
        for _ in answers:
            assert asked.acquire(timeout=10)
        gate.set()
        assert len({answer.result(timeout=20) for answer in answers}) == 1
    assert executions(path) == 1


WAITING = """
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from eventsched.runtime import plugin_files
with ThreadPoolExecutor(1) as thread:
    other = thread.submit(plugin_files.imported, Path(__file__).with_name("{needed}")).result()
"""


def test_a_file_that_waits_for_a_thread_that_imports_another_file(tmp_path: Path) -> None:
    """The other file does not wait for the first one."""
    path, other = tmp_path / "waits.py", tmp_path / "other.py"
    path.write_text(WAITING.format(needed="other.py"))
    other.write_text(PLUGIN.format(score=1))
    with ThreadPoolExecutor(1) as thread:  # a thread, so that a deadlock fails instead of hanging
        module = thread.submit(plugin_files.imported, path).result(timeout=20)
    assert module.other is plugin_files.imported(other)
    assert executions(other) == 1


def test_a_file_that_waits_for_a_thread_that_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is an error, and later ones are not affected."""
    monkeypatch.setattr(plugin_files, "_PATIENCE", 0.05)
    path = tmp_path / "itself.py"
    path.write_text(WAITING.format(needed="itself.py"))
    with pytest.raises(InputError, match=r"line 6: .*another thread has been importing a file"):
        plugin_files.imported(path)
    path.write_text(PLUGIN.format(score=1))
    assert plugin_files.imported(path).Mine.name == "Mine"
