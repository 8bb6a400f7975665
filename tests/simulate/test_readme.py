"""The plugins, configurations and commands of the README and of the pages that continue it."""

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from eventsched.cli.main import main

ROOT = Path(__file__).parent.parent.parent
PAGES = ("README.md", "docs/simulate.md", "docs/write-a-plugin.md")
README = "".join((ROOT / page).read_text() for page in PAGES)
TUTORIAL = (ROOT / "docs/tutorial.md").read_text()
LOAD = ("simulate", "--generate", "nodes=50,pods=200,shape=mixed,seed=1", "-o", "json")


@pytest.mark.parametrize("name", ["fast_disk", "free_cpu"])
def test_the_readmes_plugins_work_as_they_stand(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    for language, suffix in (("python", "py"), ("yaml", "yaml")):
        [text] = re.findall(rf"```{language}\n(# {name}\.{suffix}\n.*?)```", README, re.DOTALL)
        (tmp_path / f"{name}.{suffix}").write_text(text)
    files = ("--plugin", str(tmp_path / f"{name}.py"), "--config", str(tmp_path / f"{name}.yaml"))
    assert main([*LOAD, *files, "--why", "default/pod-000001"]) == 0
    with_plugin = json.loads(capsys.readouterr().out)
    assert main([*LOAD]) == 0
    without = json.loads(capsys.readouterr().out)
    assert with_plugin["placed"] == without["placed"] == 200
    assert with_plugin["state_digest"] != without["state_digest"]
    plugin = name.title().replace("_", "")
    compared = with_plugin["why"]["attempts"][-1]["scores"]
    raws = [
        [score["raw"] for score in node["plugins"] if score["plugin"] == plugin]
        for node in compared
    ]
    assert all(len(each) == 1 for each in raws)
    assert any(raw for (raw,) in raws)


def test_the_tutorials_column_filter_keeps_cpu_free(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """No node is filled beyond four fifths, and the refusal says why."""
    for language, suffix in (("python", "py"), ("yaml", "yaml")):
        pattern = rf"```{language}\n(# cpu_reserve\.{suffix}\n.*?)```"
        [text] = re.findall(pattern, TUTORIAL, re.DOTALL)
        (tmp_path / f"cpu_reserve.{suffix}").write_text(text)
    files = [f"--plugin={tmp_path}/cpu_reserve.py", f"--config={tmp_path}/cpu_reserve.yaml"]
    load = ["simulate", "--generate", "nodes=5,pods=200,shape=tight,seed=1", "--until", "60"]
    assert main([*load, *files, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0.5 < found["utilization"]["cpu"]["peak"] <= 0.8
    assert any("keep a fifth of their cpu free" in why for why in found["pending_reasons"])


COMMANDS = [
    " ".join(command.replace("\\\n", " ").split("\n")[0].split())
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
    for command in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
]
"""The README's commands, a line each, without what they print."""
OUTSIDE = ("make ", "kubectl ", "cat > eventsched.yaml")
"""Beginnings of commands that need a cluster or an environment: tests/cluster/test_readme.py."""
STORED = ("--data-dir demo", "--data-dir /var/tmp/eventsched")
"""Commands on a database: tests/postgres/test_readme_commands.py, and the cluster's."""
MADE = ("--manifests cluster.yaml", "--plugin fast_disk.py")
"""Commands on files that commands or blocks before them make."""


def test_every_command_of_the_readme_is_run_somewhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that need only the checkout."""
    monkeypatch.chdir(Path(__file__).parent.parent.parent)
    ran = 0
    for command in COMMANDS:
        words = shlex.split(command, comments=True)
        if command.startswith(OUTSIDE) or any(each in command for each in (*STORED, *MADE)):
            continue
        assert words[0] == ".venv/bin/eventsched", f"nobody runs {command!r}"
        if "nodes=1000" in command:
            words[words.index("--generate") + 1] = "nodes=20,pods=50,shape=mixed,seed=1"
        assert main(words[1:]) == 0, command
        assert "placed on" in capsys.readouterr().out
        ran += 1
    assert ran >= 3


def test_the_pages_test_of_a_memory_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("last_seen", "test_last_seen"):
        [text] = re.findall(rf"```python\n(# {name}\.py\n.*?)```", README, re.DOTALL)
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("test_last_seen")

    module.test_a_pod_is_forgotten_a_week_after_it_is_gone()

    assert main(["plugin", "check", str(tmp_path / "last_seen.py"), "--attempts", "20"]) == 0


def test_the_readmes_files_are_there_and_what_it_makes_is_ignored() -> None:
    root = Path(__file__).parent.parent.parent
    named = re.findall(r"examples/quickstart/[\w.-]+", README)
    assert named
    assert all((root / name).is_file() for name in named)
    ignored = (root / ".gitignore").read_text().split()
    blocks = re.findall(r"^# (\w+\.(?:py|yaml))$", README, re.MULTILINE)
    typed = re.findall(r"> (\w+\.yaml)", README)
    folders = ["demo/"]
    assert {f"/{name}" for name in (*blocks, *typed, *folders)} <= set(ignored)


def test_the_readmes_pod_and_configuration_are_taken(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = Path(__file__).parent.parent.parent / "examples/quickstart"
    nodes = tmp_path / "nodes.json"
    nodes.write_text(
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Node",'
        ' "metadata": {"name": "n1"},'
        ' "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}]}'
    )
    files = ("--pod", str(folder / "my-pod.yaml"), "--config", str(folder / "scheduler.yaml"))
    assert main(["evaluate", str(nodes), *files]) == 0
    assert "default/my-pod would go to n1" in capsys.readouterr().out


@pytest.mark.parametrize("kept", ["spare", "reserve"])
def test_the_readmes_plugin_passes_the_checks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kept: str
) -> None:
    """An attribute that is called like an extension point is none."""
    [text] = re.findall(r"```python\n(# free_cpu\.py\n.*?)```", README, re.DOTALL)
    (tmp_path / "free_cpu.py").write_text(text.replace("self.spare", f"self.{kept}"))
    code = main(["plugin", "check", str(tmp_path / "free_cpu.py"), "--attempts", "20"])
    said = capsys.readouterr().out
    assert code == 0, said
