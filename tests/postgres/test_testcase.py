"""``eventsched testcase``: a decision of a log becomes a test that holds, and that can fail."""

import statistics
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eventsched.cli.main import main
from eventsched.domain.records import Outcome, PodDecided
from eventsched.eventlog.postgres.reader import Reader
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from tests.databases import ROOT, Server, migrate

LOAD = "nodes=100,pods=900,shape=tight,seed=4"


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    with one_server.fresh(migrate) as url:
        assert main(["simulate", "--generate", LOAD, "--database", url]) == 0
        yield url


@pytest.fixture(scope="module")
def decisions(address: str) -> list[tuple[int, PodDecided]]:
    """The decisions of the history and their positions."""
    with closing(Reader(address, "simulation")) as reader:
        return [
            (stored.position, stored.record)
            for stored in reader.read()
            if isinstance(stored.record, PodDecided)
        ]


@pytest.fixture
def written(address: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """The file of a decision, and how many nodes and pods it says are needed."""

    def write(position: int, *options: str) -> tuple[str, int, int]:
        capsys.readouterr()
        assert main(["testcase", str(position), *options, "--database", address]) == 0
        printed = capsys.readouterr()
        assert printed.err.endswith("run the file by `pytest FILE` (pip install pytest)\n")
        assert "Run it by `pytest FILE`." in printed.out
        words = printed.err.split()
        assert [words[1].removesuffix("s"), words[5].removesuffix("s")] == ["node", "pod"]
        return printed.out, int(words[0]), int(words[4])

    return write


def _run(text: str) -> None:
    """Runs the test that a file holds."""
    names: dict[str, Any] = {}
    exec(compile(text, "test_case.py", "exec"), names)
    names["test_the_decision"]()


def _some(decisions: list[tuple[int, PodDecided]], *outcomes: Outcome) -> list[int]:
    found = [position for position, decided in decisions if decided.outcome in outcomes]
    return found[:: max(1, len(found) // 6)]


def test_each_decision_holds_in_its_file_with_few_nodes(
    written: Any, decisions: list[tuple[int, PodDecided]]
) -> None:
    sizes = []
    for position in _some(decisions, Outcome.SCHEDULED, Outcome.UNSCHEDULABLE):
        text, nodes, pods = written(position)
        _run(text)
        sizes.append((nodes, pods))
    assert len(sizes) >= 6
    assert statistics.median(nodes for nodes, _ in sizes) <= 5  # of 100
    assert statistics.median(pods for _, pods in sizes) <= 9  # of some 900


def test_it_fails_if_the_plugin_is_broken(
    written: Any, decisions: list[tuple[int, PodDecided]], monkeypatch: pytest.MonkeyPatch
) -> None:
    position = next(
        position
        for position, decided in decisions
        if decided.outcome is Outcome.UNSCHEDULABLE and "Insufficient cpu" in decided.message
    )
    text, *_ = written(position)
    _run(text)
    monkeypatch.setattr(
        NodeResourcesFit, "filter", lambda self, cycle, pod, nodes: np.zeros(len(nodes), np.int64)
    )
    with pytest.raises(AssertionError):
        _run(text)


def test_opaque_names_keep_the_decision_and_no_name(
    written: Any, decisions: list[tuple[int, PodDecided]]
) -> None:
    for position in _some(decisions, Outcome.SCHEDULED, Outcome.UNSCHEDULABLE)[:3]:
        text, *_ = written(position, "--anonymous")
        _run(text)
        for name in ("app-", "pod-0", "node-0", "zone-", "default/", "simulation"):
            assert name not in text


GROUP = ROOT / "examples" / "Coscheduling"


def test_each_decision_about_a_group_holds_in_its_file(
    database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What refuses a pod may be the pods of its group that wait, too."""
    words = [f"--{name}={GROUP / name}.yaml" for name in ("nodes", "pods", "config")]
    assert main(["simulate", *words, "--database", database]) == 0
    refusing = set()
    with closing(Reader(database, "simulation")) as reader:
        found = [s for s in reader.read() if isinstance(s.record, PodDecided)]
    for stored in found:
        capsys.readouterr()
        assert main(["testcase", str(stored.position), "--database", database]) == 0
        text = capsys.readouterr().out
        _run(text)
        assert text.count("kind: Node\n") >= 1
        if reason := stored.record.message.partition(": ")[2].partition(". ")[0]:
            refusing.add(reason)
            assert reason.removeprefix("2 ") in text
    assert any(reason.endswith("has 2 of the 3 pods that it needs") for reason in refusing)
    assert "2 Insufficient cpu" in refusing


def test_a_plugin_of_a_file(
    one_server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plugin, config = tmp_path / "no_odd.py", tmp_path / "config.yaml"
    plugin.write_text(
        "from eventsched.scheduling.framework import DependsOn, Status\n"
        "import numpy as np\n"
        "class NoOdd:\n"
        "    name = 'NoOdd'\n"
        "    depends_on = DependsOn.NODE\n"
        "    def filter(self, cycle, pod, nodes):\n"
        "        return np.array([int(name[-1]) % 2 for name in nodes.names], dtype=np.int64)\n"
        "    def explain(self, cycle, pod, code):\n"
        "        return Status.unschedulable('node(s) were odd')\n"
    )
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NoOdd}]}}}]\n"
    )
    with one_server.fresh(migrate) as url:
        files = ("--config", str(config), "--plugin", str(plugin))
        load = ("--generate", "nodes=10,pods=5,seed=1")
        assert main(["simulate", *load, *files, "--database", url]) == 0
        with closing(Reader(url, "simulation")) as reader:
            position = next(
                stored.position for stored in reader.read() if stored.kind == "PodDecided"
            )
        capsys.readouterr()
        assert main(["testcase", str(position), "--plugin", str(plugin), "--database", url]) == 0
    text = capsys.readouterr().out
    assert "node(s) were odd" in text
    _run(text)


@pytest.mark.parametrize(
    ("seq", "words"),
    [
        ("999999", "is not in the log, which ends at"),
        ("0", "is a StreamStarted, not a decision; name a PodDecided"),
    ],
)
def test_a_position_without_a_decision_is_refused(
    address: str, capsys: pytest.CaptureFixture[str], seq: str, words: str
) -> None:
    capsys.readouterr()
    assert main(["testcase", seq, "--database", address]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
