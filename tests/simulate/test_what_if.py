"""``eventsched replay --what-if`` on exported logs: text, JSON, conditions, and bad input."""

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eventsched.cli.main import main
from eventsched.output.replays.grid_output import grid_text
from tests.databases import ROOT

LOG = ROOT / "tests" / "histories" / "0.1-generated.jsonl.gz"
EXTENDERS = ROOT / "tests" / "histories" / "0.1-extenders.jsonl.gz"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality}]}}
"""
WhatIf = Callable[..., tuple[int, str, str]]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path / "config.yaml"


@pytest.fixture
def what_if(capsys: pytest.CaptureFixture[str]) -> WhatIf:
    """Runs the command on an exported log: exit code, output, errors without warnings."""

    def run(*options: object, log: Path = LOG) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(["replay", "--file", str(log), *map(str, options)])
        found = capsys.readouterr()
        errors = [line for line in found.err.splitlines() if not line.startswith("warning:")]
        return code, found.out, "\n".join(errors)

    return run


def test_same_rules_show_no_difference(what_if: WhatIf) -> None:
    code, text, _ = what_if("--what-if", "--fail-if", "moved() > 0 or preempted(priority>=9) > 99")
    assert code == 0
    assert text.splitlines()[-2:] == [
        "no pod differs",
        "false: moved() > 0 or preempted(priority>=9) > 99 "
        "(moved() is 0, preempted(priority>=9) is 0)",
    ]
    code, text, _ = what_if("--what-if", "--open-loop", "--fail-if", "moved() > 0")
    assert code == 0
    differing, condition = text.splitlines()[-2:]
    assert differing.startswith("0 of ")
    assert condition == "false: moved() > 0 (moved() is 0)"
    code, text, _ = what_if("--what-if")
    assert (code, text.splitlines()[-1]) == (0, "no pod differs")


def test_other_rules_as_json(what_if: WhatIf, config: Path) -> None:
    conditions = ("moved() > 0", "moved() > 9999", "waited(p99) >= 0")
    asked = [word for text in conditions for word in ("--fail-if", text)]
    code, text, _ = what_if("--what-if", config, "-o", "json", *asked)
    found = json.loads(text)
    assert (code, found["failed"]) == (1, ["moved() > 0", "waited(p99) >= 0"])
    moved, waited = {"moved()": found["moved"]}, {"waited(p99)": found["after"]["waited"]["p99"]}
    assert found["conditions"] == [
        {"condition": "moved() > 0", "holds": True, "values": moved},
        {"condition": "moved() > 9999", "holds": False, "values": moved},
        {"condition": "waited(p99) >= 0", "holds": True, "values": waited},
    ]
    assert (found["stream"], found["rules"], found["loop"], found["first"]) == (
        "generated", str(config), "closed", 0,
    )  # fmt: skip
    assert found["moved"] == sum(
        bool(each["before"]["node"] and each["after"]["node"]) for each in found["differences"]
    )
    assert found["moved"] > 0
    for side in (found["before"], found["after"]):
        assert side["placed"] + side["pending"] == 60
        assert {"cpu", "memory", "pods"} <= set(side["utilization"])
        assert {"cpu", "memory"} <= set(side["fragmentation"]) == set(side["spread"])


def test_other_rules_as_text(what_if: WhatIf, config: Path) -> None:
    conditions = ("--fail-if", "moved() > 0", "--fail-if", "waited(p50) > 1h")
    code, text, _ = what_if("--what-if", config, *conditions)
    assert code == 1
    assert f"rules: {config}, closed loop" in text
    assert " pods would differ, " in text
    assert " more: --full shows all" in text
    true, false = text.splitlines()[-2:]
    assert re.fullmatch(r"true: moved\(\) > 0 \(moved\(\) is [1-9]\d*\)", true)
    assert re.fullmatch(r"false: waited\(p50\) > 1h \(waited\(p50\) is \d+\.\d{3}s\)", false)
    _, full, _ = what_if("--what-if", config, "--full")
    assert "--full" not in full


def test_open_loop_as_json(what_if: WhatIf, config: Path) -> None:
    code, text, _ = what_if("--what-if", config, "--open-loop", "-o", "json")
    found = json.loads(text)
    assert (code, found["loop"]) == (0, "open")
    assert found["decisions"] >= len(found["differences"]) >= found["moved"] > 0
    assert {"position", "attempt", "reason"} <= set(found["differences"][0])


def test_a_chart(what_if: WhatIf, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "chart.svg"
    code, text, _ = what_if("--what-if", config, "--chart", file, "-o", "json")
    assert code == 0
    root = ElementTree.fromstring(file.read_text(encoding="utf-8"))
    lines = root.findall("{http://www.w3.org/2000/svg}polyline")
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"cpu requested, %", "memory requested, %", "pods that wait"} <= set(titles)
    assert f"{json.loads(text)['moved']} pods on another node" in titles
    samples = len(json.loads(text)["before"]["samples"])
    assert len(lines) >= 6
    assert {len(line.attrib["points"].split()) for line in lines} == {samples}
    code, _, errors = what_if("--what-if", "--chart", tmp_path / "none" / "chart.svg")
    assert code == 2
    assert "cannot be written: No such file or directory" in errors


def test_a_grid(what_if: WhatIf, config: Path) -> None:
    """Each row is what its configuration alone gives."""
    code, text, _ = what_if(
        "--what-if", "--what-if", config, "-o", "json", "--from", "150", "--fail-if", "moved() > 0"
    )
    same, other = json.loads(text)["configurations"]
    assert (code, same["failed"], other["failed"]) == (1, [], ["moved() > 0"])
    for name, found in ((None, same), (config, other)):
        words = ["--what-if"] if name is None else ["--what-if", name]
        _, alone, _ = what_if(*words, "-o", "json", "--from", "150", "--fail-if", "moved() > 0")
        assert json.loads(alone) == found


@pytest.mark.parametrize("loop", [(), ("--open-loop",)])
def test_a_grid_as_text(what_if: WhatIf, config: Path, loop: tuple[str, ...]) -> None:
    code, text, _ = what_if("--what-if", config, "--what-if", *loop)
    rows = [line.split()[0] for line in text.splitlines()[3:]]
    assert (code, rows) == (0, ([] if loop else ["(was)"]) + [str(config), "recorded"])
    words = ("--what-if", config, "--what-if", "--fail-if", "moved() > 0", *loop)
    code, text, _ = what_if(*words)
    *_, before, other, same = text.splitlines()
    assert (code, before) == (1, "")
    assert other.startswith(f"{config}: true: moved() > 0 (moved() is ")
    assert same == "recorded: false: moved() > 0 (moved() is 0)"


def test_long_waits_in_a_grid_are_told_as_in_a_single_answer() -> None:
    side = {
        "waited": {"p50": 0.5, "p99": 2100.0}, "pending": 0, "evicted": 0, "empty_nodes": [],
        "utilization": {},
    }  # fmt: skip
    document = {
        "stream": "s", "first": 0, "end": 9, "loop": "closed", "rules": "recorded",
        "before": side, "after": side, "differences": [], "moved": 0, "failed": [],
        "conditions": [],
    }  # fmt: skip
    was = next(line for line in grid_text([document]).splitlines() if line.startswith("(was)"))
    assert was.split() == ["(was)", "0", "0", "0.500s", "35m00s", "0"]


def test_a_part_of_history(what_if: WhatIf) -> None:
    code, text, _ = what_if("--what-if", "-o", "json", "--from", 100, "--until", 150)
    found = json.loads(text)
    assert (code, found["differences"]) == (0, [])
    assert 95 <= found["first"] <= 100 < found["end"] <= 150
    code, text, _ = what_if("--what-if", "-o", "json", "--from", "0s", "--until", "1d")
    assert code == 2


def test_other_nodes(what_if: WhatIf) -> None:
    code, text, _ = what_if("--nodes", "+2xnode-00000|-node-00001", "-o", "json")
    assert code == 0
    nodes = {each["after"]["node"] for each in json.loads(text)["differences"]}
    assert "node-00001" not in nodes
    assert nodes & {"node-00000-more-0", "node-00000-more-1"}


@pytest.mark.parametrize("form", [("--nodes", "-node-00001"), ("--nodes=-node-00001",)])
def test_a_node_left_out(what_if: WhatIf, form: tuple[str, ...]) -> None:
    code, text, errors = what_if(*form, "-o", "json")
    assert (code, errors) == (0, "")
    moved = json.loads(text)["differences"]
    assert "node-00001" in {each["before"]["node"] for each in moved}
    assert "node-00001" not in {each["after"]["node"] for each in moved}


@pytest.mark.parametrize("option", ["-o", "--what-if", "-h", "-"])
def test_an_option_is_no_value_of_nodes(
    option: str, what_if: WhatIf, capsys: pytest.CaptureFixture[str]
) -> None:
    if option == "-":
        code, _, errors = what_if("--nodes", option)
        assert (code, "'-' does not say which nodes" in errors) == (2, True)
        return
    with pytest.raises(SystemExit) as ended:
        what_if("--nodes", option)
    assert ended.value.code == 2
    assert "--nodes: expected one argument" in capsys.readouterr().err


def test_nodes_that_history_does_not_have(what_if: WhatIf, tmp_path: Path) -> None:
    """In a grid, too, whose workers do not read the file."""
    file = tmp_path / "node.yaml"
    file.write_text(
        "kind: Node\napiVersion: v1\nmetadata: {name: large}\n"
        "status: {allocatable: {cpu: 640, memory: 2560Gi, pods: 1100}}\n"
    )
    code, text, _ = what_if("--nodes", f"+1x{file}|-node-00001", "-o", "json")
    assert code == 0
    nodes = {each["after"]["node"] for each in json.loads(text)["differences"]}
    assert "large-more-0" in nodes
    code, grid, _ = what_if("--what-if", "--what-if", "--nodes", f"+1x{file}|-node-00001")
    assert code == 0
    assert f"{len(json.loads(text)['differences'])} " in grid
    code, _, error = what_if("--nodes", f"+1x{tmp_path}/missing.yaml")
    assert (code, "missing.yaml" in error) == (2, True)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--what-if", "none.yaml"], "none.yaml: "),
        (["--what-if", "--verify"], "--verify: does not go with --what-if"),
        (["--open-loop"], "--open-loop: is about a run under other rules; add --what-if"),
        (["--from", "3"], "--from: begins at a checkpoint of a database"),
        (["--fail-if", "moved() > 0"], "--fail-if: is about a run under other rules"),
        (["--chart", "a.svg"], "--chart: is about a run under other rules"),
        (
            ["--what-if", "--from", "soon", "--chart", "none/a.svg"],  # before anything is read
            "none/a.svg: cannot be written: No such file or directory; name another file",
        ),
        (["--what-if", "--from", "soon", "--chart", "/"], "/: cannot be written: Is a directory"),
        (["--what-if", "--open-loop", "--chart", "a.svg"], "--chart: does not go with"),
        (["--what-if", "--what-if", "--chart", "a.svg"], "--chart: draws one configuration"),
        (["--what-if", "--what-if", "none.yaml"], "none.yaml: "),
        (["--store", "a"], "--store: is about a run under other rules; add --what-if CONFIG"),
        (["--what-if", "--store", "a"], "--store: does not say in which database; add --store-in"),
        (["--what-if", "--store", " "], "--store: is empty; name a new stream"),
        (["--what-if", "--store-in", "a"], "--store-in: is about a stream; add --store STREAM"),
        (["--what-if", "--open-loop", "--store", "a"], "--store: does not go with --open-loop"),
        (["--what-if", "--what-if", "--store", "a"], "--store: stores one result; name only one"),
        (["--full"], "--full: is about a run under other rules"),
        (["--until", "10m"], "--until: '10m' is not a position; write a number"),
        (["--what-if", "--fail-if", "moved() >"], "--fail-if: column 10: expected a number"),
        (["--what-if", "--nodes", "20"], "--nodes: '20' does not say which nodes"),
        (["--what-if", "--nodes", "+1xmissing"], "--nodes: history has no node missing in that"),
        (["--nodes", "+2xnode-0001"], "no node node-0001 in that range; did you mean node-00001?"),
        (["--nodes", "+zzz"], "in that range; there are, among others: node-00000, node-00001"),
        (["--nodes", "-node-xyz", "--from", "100"], "in that range; did you mean node-000"),
        (["--what-if", "--open-loop", "--nodes", "+1xa"], "--nodes: does not go with --open-loop"),
        (
            ["--what-if", "--open-loop", "--fail-if", "waited(p99) > 1"],
            "--fail-if: waited() is not known in an open loop",
        ),
        (["--what-if", "--until", "0"], "--until: is position 0, not after the beginning (0)"),
        (
            ["--what-if", "--until", "5"],
            "the range: holds no decision from position 0 to 5; the next one after it is at",
        ),
        (["--what-if", "--from", "999999"], "--from: the log ends at position "),
        (
            ["--what-if", "--from", "378"],
            "--from: is position 378, not before the end of the log (378)",
        ),
        (["--what-if", "--from", "soon"], "--from: 'soon' is neither a position nor a time"),
    ],
)
def test_bad_input(what_if: WhatIf, options: list[str], error: str) -> None:
    code, text, errors = what_if(*options)
    assert (code, text) == (2, "")
    assert error in errors.splitlines()[0]


def test_a_plugin_that_is_not_installed(what_if: WhatIf, config: Path) -> None:
    config.write_text(CONFIG.replace("ImageLocality", "Missing"))
    code, _, errors = what_if("--what-if", config)
    assert code == 2
    assert "Missing" in errors
    assert len(errors.splitlines()) == 1


def test_extenders_are_refused(what_if: WhatIf, config: Path) -> None:
    config.write_text(CONFIG + 'extenders: [{urlPrefix: "http://127.0.0.1:9/"}]\n')
    code, _, errors = what_if("--what-if", config)
    assert code == 2
    assert "extenders: http://127.0.0.1:9/ would have to be asked" in errors
    code, _, errors = what_if("--what-if", log=EXTENDERS)
    assert code == 2
    assert "would have to be asked" in errors


def test_a_damaged_log(what_if: WhatIf, tmp_path: Path) -> None:
    lines = gzip.decompress(LOG.read_bytes()).splitlines(keepends=True)
    path = tmp_path / "cut.jsonl"
    path.write_bytes(b"".join(lines[: len(lines) // 2])[:-20])
    code, _, errors = what_if("--what-if", log=path)
    assert code == 3
    assert len(errors.splitlines()) == 1
