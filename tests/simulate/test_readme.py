"""The README's plugins and configurations, as they stand there, in simulations."""

import json
import re
from pathlib import Path

import pytest

from eventsched.cli.main import main

README = (Path(__file__).parent.parent.parent / "README.md").read_text()
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


@pytest.mark.parametrize("kept", ["spare", "reserve"])
def test_the_readmes_plugin_has_nothing_to_mend(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kept: str
) -> None:
    """An attribute that is called like an extension point is none."""
    [text] = re.findall(r"```python\n(# free_cpu\.py\n.*?)```", README, re.DOTALL)
    (tmp_path / "free_cpu.py").write_text(text.replace("self.spare", f"self.{kept}"))
    code = main(["plugin", "check", str(tmp_path / "free_cpu.py"), "--attempts", "20"])
    said = capsys.readouterr().out
    assert code == 0, said
