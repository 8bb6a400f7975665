"""``eventsched config`` as its users run it: output, exit codes, one line for each problem."""

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from eventsched.cli.main import main

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GOOD = (
    HEAD
    + """
parallelism: 4
profiles:
- schedulerName: a
  percentageOfNodesToScore: 10
  plugins: {score: {enabled: [{name: NodeAffinity, weight: 5}]}}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
- schedulerName: b
"""
)
BAD = (
    HEAD
    + """
paralellism: 4
percentageOfNodesToScore: 101
profiles:
- schedulerName: a
  plugins:
    filter: {enabled: [{name: NodeNam}, {nme: NodeName}]}
    bind: {disabled: [{name: '*'}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: ['b b', cpu, 'c c'], scoringStrategy: {type: Foo}}
  - name: PodTopologySpread
    args: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: a}]}
"""
)


def written(tmp_path: Path, text: str, name: str = "sched.yaml") -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def test_check_shows_the_plugins_of_each_profile_by_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "check", written(tmp_path, GOOD)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["PROFILE", "POINT", "PLUGINS"]
    assert "b         bind         DefaultBinder" in lines
    [score] = [line for line in lines if line.startswith("a         score")]
    assert score.split("   ")[-1].strip().startswith("NodeAffinity=5, TaintToleration=3, ")


def test_check_names_what_is_wrong_in_the_second_document(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "---\napiVersion: eventsched.io/v1alpha1\nkind: EventschedConfiguration\n"
    assert main(["config", "check", written(tmp_path, f"{GOOD}{own}stream: a\n")]) == 0
    capsys.readouterr()
    path = written(tmp_path, f"{BAD}{own}strem: a\nbatch: {{records: 0}}\n")
    assert main(["config", "check", path]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == [
        f"eventsched config: {path}: strem: unknown field 'strem'; did you mean 'stream'?",
        f"eventsched config: {path}: batch.records: Expected int >= 1; correct this value",
    ]
    assert len(lines) > 2
    path = written(tmp_path, f"a: [\n{own}")
    assert main(["config", "check", path]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_check_in_json_is_in_the_goldens_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "check", written(tmp_path, GOOD), "-o", "json"]) == 0
    profiles = json.loads(capsys.readouterr().out)["profiles"]
    assert list(profiles) == ["a", "b"]
    assert profiles["b"]["queueSort"] == ["PrioritySort"]
    assert profiles["a"]["score"][0] == "NodeAffinity=5"
    assert "permit" not in profiles["a"]


def test_check_names_each_problem_in_a_line_and_nothing_that_only_follows_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, BAD)
    assert main(["config", "check", path, "-o", "json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    fit, spread = (f"profiles[0].pluginConfig[{i}].args" for i in (0, 1))
    lines = [line for line in said.err.splitlines() if "warning:" not in line]
    assert [line.split(": ")[2] for line in lines] == [
        "paralellism",
        "profiles[0].plugins.filter.enabled[1].nme",
        "percentageOfNodesToScore",
        "profiles[0].plugins.filter.enabled[0].name",
        "profiles[0].plugins.bind",
        f"{fit}.ignoredResources[0]",
        f"{fit}.ignoredResources[2]",
        f"{fit}.scoringStrategy.type",
        f"{spread}.defaultConstraints[0].maxSkew",
        f"{spread}.defaultConstraints[0].whenUnsatisfiable",
    ]
    assert lines[0] == (
        f"eventsched config: {path}: paralellism: unknown field 'paralellism'; "
        "did you mean 'parallelism'?"
    )


@pytest.mark.parametrize("text", ["profiles: [", "- a\n", "kind: Pod\n", HEAD + "profiles: 4\n"])
def test_what_cannot_be_read_on_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    assert main(["config", "check", written(tmp_path, text)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_warnings_are_on_stderr_and_change_no_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD.replace("/v1\n", "/v1beta3\n") + "extenders: [{urlPrefix: x}]\n"
    assert main(["config", "check", written(tmp_path, text)]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert "warning: apiVersion kubescheduler.config.k8s.io/v1beta3 is deprecated" in first
    assert "warning: extenders[0].urlPrefix: 'x' is not the URL of a server" in second


def test_a_misspelt_plugin_that_is_disabled_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = HEAD + "profiles: [{plugins: {score: {disabled: [{name: '*'}, {name: NodeAfinity}]}}}]\n"
    path = written(tmp_path, text)
    assert main(["config", "check", path]) == 0
    assert capsys.readouterr().err == (
        f"eventsched config: {path}: warning: profiles[0].plugins.score.disabled[1].name: there is "
        "no plugin 'NodeAfinity' to disable; did you mean 'NodeAffinity' or 'InterPodAffinity'?\n"
    )


@pytest.mark.parametrize("point", ["score", "multiPoint"])
def test_a_weight_of_zero_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], point: str
) -> None:
    """Upstream takes it as 1. A plugin that does not score has no weight."""
    enabled = "[{name: NodeAffinity, weight: 0}, {name: ImageLocality}]"
    if point == "multiPoint":
        enabled = "[{name: NodeName, weight: 0}, {name: NodeAffinity, weight: 0}]"
    text = HEAD + f"profiles: [{{plugins: {{{point}: {{enabled: {enabled}}}}}}}]\n"
    path = written(tmp_path, text)
    place = int(point == "multiPoint")
    assert main(["config", "check", path]) == 0
    assert capsys.readouterr().err == (
        f"eventsched config: {path}: warning: profiles[0].plugins.{point}.enabled[{place}].weight: "
        "0 means the default weight, 1, and NodeAffinity still scores; to leave it out, write "
        "score: {disabled: [{name: NodeAffinity}]}\n"
    )
    assert main(["config", "show", path]) == 0
    [profile] = yaml.safe_load(capsys.readouterr().out)["profiles"]
    assert all(each.get("weight") != 0 for each in profile["plugins"]["score"]["enabled"])


def test_show_fills_in_every_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", written(tmp_path, GOOD)]) == 0
    document = yaml.safe_load(capsys.readouterr().out)
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert (document["parallelism"], document["podMaxBackoffSeconds"]) == (4, 10)
    assert document["leaderElection"]["leaseDuration"] == "15s"
    first, second = document["profiles"]
    assert first["plugins"]["score"]["enabled"][0] == {"name": "NodeAffinity", "weight": 5}
    assert second["plugins"]["multiPoint"] == {"disabled": [{"name": "*"}]}
    args = {each["name"]: each["args"] for each in first["pluginConfig"]}
    assert args["NodeResourcesFit"] == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeResourcesFitArgs",
        "scoringStrategy": {
            "type": "MostAllocated",
            "resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}],
        },
    }
    assert args["InterPodAffinity"]["hardPodAffinityWeight"] == 1


def test_diff_says_in_words_what_differs_in_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = GOOD.replace("weight: 5", "weight: 7").replace("MostA", "LeastA").replace(": 10", ": 0")
    new = new.replace(
        "- schedulerName: b", "- schedulerName: c\nleaderElection: {leaseDuration: 1m}"
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(new.encode())))
    assert main(["config", "diff", written(tmp_path, GOOD), "-"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "leaderElection.leaseDuration: 15s → 1m0s",
        "profiles[a].percentageOfNodesToScore: 10 → 0",
        "profiles[a].plugins.score: NodeAffinity weight 5 → 7",
        "profiles[a].pluginConfig[NodeResourcesFit].args.scoringStrategy.type: "
        "MostAllocated → LeastAllocated",
        "profiles[b]: removed",
        "profiles[c]: added",
    ]


def test_diff_tells_a_share_for_all_profiles_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles = "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 7}]\n"
    old = written(tmp_path, HEAD + "percentageOfNodesToScore: 20\n" + profiles, "old.yaml")
    more = profiles.replace(": 7", ": 9")
    new = written(tmp_path, HEAD + "percentageOfNodesToScore: 30\n" + more)
    assert main(["config", "diff", old, new]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "percentageOfNodesToScore: 20 → 30",
        "profiles[b].percentageOfNodesToScore: 7 → 9",
    ]


def test_diff_tells_plugins_that_come_go_and_move(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of = "profiles: [{plugins: {filter: {disabled: [{name: '*'}], enabled: [%s]}}}]\n"
    old = written(tmp_path, HEAD + of % "{name: NodeName}, {name: NodePorts}", "old.yaml")
    new = "{name: NodePorts}, {name: NodeName}, {name: NodeAffinity}"
    assert main(["config", "diff", old, written(tmp_path, HEAD + of % new, "new.yaml")]) == 1
    place = "profiles[default-scheduler].plugins.filter"
    assert capsys.readouterr().out.splitlines() == [
        f"{place}: NodeAffinity added",
        f"{place}: order NodeName, NodePorts → NodePorts, NodeName",
    ]


def test_what_only_looks_different_is_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = written(tmp_path, HEAD.replace("/v1\n", "/v1beta2\n"), "old.yaml")
    new = written(tmp_path, HEAD + "parallelism: 16\nleaderElection: {leaseDuration: 0.25m}\n")
    assert main(["config", "diff", old, new]) == 0
    assert capsys.readouterr().out == "no difference in effect\n"
    assert main(["config", "diff", old, new, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"changes": []}
    assert main(["config", "diff", old, written(tmp_path, BAD)]) == 2
    assert main(["config", "diff", "-", "-"]) == 2


def test_a_plugin_of_a_file_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = tmp_path / "mine.py"
    plugin.write_text("class Mine:\n    name = 'Mine'\n    def score_node(self, p, n): return 1\n")
    path = written(tmp_path, HEAD + "profiles: [{plugins: {score: {enabled: [{name: Mine}]}}}]\n")
    assert main(["config", "check", path]) == 2
    assert main(["config", "check", path, "--plugin", str(plugin)]) == 0
    assert "Mine=1" in capsys.readouterr().out
