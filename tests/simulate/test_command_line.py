"""The commands as their users run them: output, exit codes, and one line for what is wrong."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.domain.errors import InUseError

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,4000,8192,0,\nn2,4000,8192,2,T4\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "p1,1000,1024,0,0,,LS,Running,0,100,0\n"
    "p2,2000,1024,1,500,T4,BE,Running,10,40,20\n"
    "p3,9000,1024,0,0,,BE,Pending,20,40,\n"
)
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
GENERATED = ("simulate", "--generate", "nodes=5,pods=8,shape=plain,seed=1")
MANIFESTS = """
apiVersion: v1
kind: List
items:
- kind: Node
  metadata: {name: n1, labels: {disk: ssd}}
  status: {allocatable: {cpu: "2", memory: 4Gi, pods: "10"}}
- kind: Pod
  metadata: {name: running, uid: 7b0f6c1e-3f62-4a8e-9b57-0d6f3f0a8c11}
  spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
  status: {phase: Running}
- kind: Pod
  metadata: {name: fits}
  spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
- kind: Pod
  metadata: {name: waits}
  spec: {containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
"""


@pytest.fixture
def trace(tmp_path: Path) -> tuple[str, ...]:
    """A small openb trace; arguments for simulate."""
    with gzip.open(tmp_path / "nodes.csv.gz", "wt") as file:
        file.write(NODES)
    (tmp_path / "pods.csv").write_text(PODS)
    return (
        "simulate",
        "--nodes",
        str(tmp_path / "nodes.csv.gz"),
        "--pods",
        str(tmp_path / "pods.csv"),
    )


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """The JSON object that a run prints."""
    assert main([*arguments, "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a run with bad input prints; nothing else comes out."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    return printed.err


def test_a_trace_runs_to_its_end(
    capsys: pytest.CaptureFixture[str], trace: tuple[str, ...]
) -> None:
    found: Any = answer(capsys, *trace)
    assert (found["placed"], found["pending"], found["attempts"]) == (2, 1, 3)
    # The pod that ran for 100 s from its bind at 0.001 s is the last to end.
    assert found["virtual_seconds"] == 100.001
    [reason] = found["pending_reasons"]
    assert reason == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )


def test_together_pods_arrive_at_once_and_stay(
    capsys: pytest.CaptureFixture[str], trace: tuple[str, ...]
) -> None:
    found = answer(capsys, *trace, "--arrivals", "together")
    assert found["virtual_seconds"] == 0.001
    assert found["placed"] == 2


def test_limit_and_until(capsys: pytest.CaptureFixture[str], trace: tuple[str, ...]) -> None:
    assert answer(capsys, *trace, "--limit", "1")["pods"] == 1
    assert answer(capsys, *trace, "--until", "5s")["pods"] == 1
    assert answer(capsys, *trace, "--until", "0")["placed"] == 0


def test_manifests_run_and_bound_pods_are_there_from_the_start(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(MANIFESTS)
    found = answer(capsys, "simulate", "--manifests", str(path))
    assert (found["placed"], found["pending"], found["pods"]) == (1, 1, 2)
    said = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert found["pending_reasons"] == {said: 1}
    found = answer(capsys, "simulate", "--nodes", str(path), "--pods", str(path))
    assert found["placed"] == 1


def test_equal_runs_have_equal_digests_and_the_seed_matters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    digests = [answer(capsys, *GENERATED)["state_digest"] for _ in range(2)]
    assert digests[0] == digests[1]
    assert answer(capsys, *GENERATED, "--seed", "another")["state_digest"] != digests[0]


def test_the_summary_says_what_was_decided_and_why_tells_of_one_pod(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*GENERATED, "--why", "default/pod-000003"]) == 0
    printed = capsys.readouterr().out
    assert "8 of 8 pods placed on 5 nodes, 0 pending, 8 attempts" in printed
    assert "state digest" in printed
    assert "default/pod-000003 has been on node-" in printed
    assert "queue active: PodAdd" in printed
    assert "Why node-" in printed


def test_a_plugin_that_fails_fails_its_attempts_and_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plugin = tmp_path / "sharp.py"
    plugin.write_text(
        "class Sharp:\n"
        "    name = 'Sharp'\n"
        "    def filter(self, cycle, pod, nodes):\n"
        "        return [0]\n"
    )
    config = tmp_path / "config.yaml"
    config.write_text(
        f"{HEAD}profiles: [{{plugins: {{filter: {{enabled: [{{name: Sharp}}]}}}}}}]\n"
    )
    options = ("--plugin", str(plugin), "--config", str(config), "-o", "json")
    assert main([*GENERATED, *options]) == 2
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert (found["placed"], found["pending"], found["errors"]) == (0, 8, found["attempts"])
    [reason] = found["pending_reasons"]
    assert reason.startswith("plugin Sharp failed in filter: returned shape (1,)")
    assert (found["parked"], found["attempts"]) == (8, 8 * 5)
    [said] = printed.err.splitlines()
    assert all(word in said for word in ("sharp.py", "Sharp", "fix the plugin")), said


def test_warnings_about_methods_that_are_nearly_right_and_plugins_nobody_uses(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plugin = tmp_path / "blunt.py"
    plugin.write_text(
        "class Blunt:\n"
        "    name = 'Blunt'\n"
        "    def post_bind(self, cycle, pod, node): ...\n"
        "    def filter_nodes(self, pod, node): ...\n"
    )
    assert main([*GENERATED, "--plugin", str(plugin)]) == 0
    said = capsys.readouterr().err
    assert "method filter_nodes: did you mean filter_node?" in said
    assert "plugin Blunt is enabled in no profile" in said


def test_bound_pods_on_nodes_that_are_not_there_are_warned_about(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(MANIFESTS.replace("nodeName: n1", "nodeName: n9"))
    assert main(["simulate", "--manifests", str(path)]) == 0
    assert "1 bound pods are on nodes that are not there" in capsys.readouterr().err


def test_nodes_that_plugins_name_and_that_are_not_there_are_warned_about(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        f"{HEAD}profiles: [{{plugins: {{score: {{enabled: [{{name: FixedNode}}]}}}}, "
        "pluginConfig: [{name: FixedNode, args: {nodeName: n1}}]}]\n"
    )
    said = "warning: FixedNode names the node n1, which does not exist\n"
    assert main([*GENERATED, "--config", str(config)]) == 0
    assert said in capsys.readouterr().err
    (tmp_path / "cluster.yaml").write_text(MANIFESTS)
    there = ("simulate", "--manifests", str(tmp_path / "cluster.yaml"), "--config", str(config))
    assert main(there) == 0
    assert said not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("profilez: []\n", ("profilez", "config.yaml")),
        ("parallelism: four\n", ("parallelism", "config.yaml")),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: NoSuch}]}}}]\n",
            ("profiles[0].plugins.filter.enabled[0]", "NoSuch", "--plugin"),
        ),
        (
            "profiles: [{plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}}]\n",
            ("profiles[0].plugins.score.enabled[0].weight", "-1"),
        ),
        (
            "profiles: [{plugins: {permit: {enabled: [{name: GangScheduling}]}}}]\n",
            ("GangScheduling", "not available"),
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResource: []}}]}]\n",
            ("args.ignoredResource", "did you mean 'ignoredResources'?"),
        ),
        (
            "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {strategy: 1}}]}]\n",
            ("profiles[0].pluginConfig[0].args", "strategy"),
        ),
        ("percentageOfNodesToScore: 101\n", ("percentageOfNodesToScore", "use 0 to 100")),
        ("extenders: [{urlPrefix: 'http://127.0.0.1:1'}]\n", ("extenders", "would have to be")),
        ("profiles: [\n", ("config.yaml", "line")),
    ],
)
def test_a_wrong_configuration_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, words: tuple[str, ...]
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEAD + text)
    said = refusal(capsys, *GENERATED, "--config", str(config))
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("nodes", "pods", "words"),
    [
        (None, PODS, ("nodes.csv", "cannot be read")),
        (NODES, None, ("pods.csv", "cannot be read")),
        (NODES[:-8], PODS, ("nodes.csv", "line 3")),
        (NODES.replace("n2", "n1"), PODS, ("nodes.csv", "n1")),
        (NODES.replace("cpu_milli", "cpu"), PODS, ("nodes.csv", "cpu_milli")),
        (NODES, PODS.replace("9000", "many"), ("pods.csv", "line 4", "cpu_milli")),
        (NODES, PODS.replace("p2", "p1"), ("pods.csv", "p1")),
    ],
)
def test_a_wrong_trace_is_refused(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    nodes: str | None,
    pods: str | None,
    words: tuple[str, ...],
) -> None:
    for name, text in (("nodes.csv", nodes), ("pods.csv", pods)):
        if text is not None:
            (tmp_path / name).write_text(text)
    files = ("--nodes", str(tmp_path / "nodes.csv"), "--pods", str(tmp_path / "pods.csv"))
    said = refusal(capsys, "simulate", *files)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('cpu: "2"', "cpu: 12Q", ("Node n1", "status.allocatable.cpu", "12Q")),
        ("name: waits", "name: fits", ("default/fits",)),
        (
            "  spec: {containers",
            "  spec: {schedulerName: mine, containers",
            ("default/fits", "spec.schedulerName", "mine", "--config"),
        ),
        ("items:", "items: [", ("cluster.yaml", "line")),
        ("kind: Node", "kind: Nod", ("cluster.yaml", "no Node is there")),
    ],
)
def test_wrong_manifests_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, old: str, new: str, words: tuple[str, ...]
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(MANIFESTS.replace(old, new))
    said = refusal(capsys, "simulate", "--manifests", str(path))
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate",), ("no cluster is named", "--generate")),
        ((*GENERATED, "--manifests", "x.yaml"), ("more than one cluster",)),
        (("simulate", "--nodes", "n.csv"), ("--nodes and --pods go together",)),
        (("simulate", "--nodes", "n.csv", "--pods", "p.yaml"), ("two of a kind",)),
        (("simulate", "--generate", "nodes=5,pods=x"), ("--generate", "pods")),
        ((*GENERATED, "--config", "no-such.yaml"), ("no-such.yaml", "cannot be read")),
        ((*GENERATED, "--plugin", "no-such.py"), ("no-such.py",)),
        ((*GENERATED, "--why", "default/nobody"), ("default/nobody", "default/pod-000000")),
        (("evaluate", "no-such.jsonl"), ("no-such.jsonl", "cannot be read")),
    ],
)
def test_wrong_options_are_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    said = refusal(capsys, *arguments)
    assert all(word in said for word in words), said


@pytest.mark.parametrize("option", [("--limit", "-1"), ("--until", "soon"), ("-o", "xml")])
def test_malformed_options_end_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], option: tuple[str, str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([*GENERATED, *option])
    assert stopped.value.code == 2
    assert option[0] in capsys.readouterr().err


def test_without_a_command_the_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    printed = capsys.readouterr().err
    assert "usage: eventsched" in printed
    assert "simulate" in printed


@pytest.mark.parametrize(
    ("word", "meant"), [("explian", "did you mean explain?"), ("xyz", "there are run, extender")]
)
def test_a_command_that_is_nearly_right(
    capsys: pytest.CaptureFixture[str], word: str, meant: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([word, "default/p"])
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert f"there is no command '{word}': {meant}" in printed
    assert printed.count("\n") == 1


def test_a_log_in_memory_whatever_the_environment_names(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A live scheduler's folder is left alone; nothing is made there."""
    folder = tmp_path / "live"
    monkeypatch.setenv("EVENTSCHED_DATA_DIR", str(folder))
    assert main([*GENERATED, "--in-memory"]) == 0
    assert "placed on" in capsys.readouterr().out
    assert not folder.exists()
    said = refusal(capsys, *GENERATED, "--in-memory", "--data-dir", str(folder))
    assert "--in-memory: is given together with" in said


def test_a_live_schedulers_folder_is_not_to_be_ended_for_a_simulation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def in_use(*_: object) -> None:
        raise InUseError(str(tmp_path), "another process writes here: run (pid 7)", "wait")

    monkeypatch.setattr("eventsched.eventlog.database.writer_address", in_use)
    monkeypatch.setenv("EVENTSCHED_DATA_DIR", str(tmp_path))
    assert main(GENERATED) == 3
    said = capsys.readouterr().err
    assert "leave that process alone: give --in-memory, or --data-dir with another" in said
    assert "$EVENTSCHED_DATA_DIR" in said


def test_evaluate_writes_all_answers_or_none(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "5"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    good = json.dumps({"id": "a", "objects": [node], "pending": [pod]})
    scenarios, out = tmp_path / "s.jsonl", tmp_path / "out.jsonl"
    scenarios.write_text(f"{good}\n\n{good}\n")
    assert main(["evaluate", str(scenarios), "-o", str(out)]) == 0
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert [each["pods"][0]["feasible"] for each in answers] == [["n1"], ["n1"]]
    before = out.read_text()
    scenarios.write_text(f"{good}\nnonsense\n")
    said = refusal(capsys, "evaluate", str(scenarios), "-o", str(out))
    assert "s.jsonl: line 2" in said
    assert out.read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "s.jsonl"]


def test_words_that_are_no_text_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The system passes bytes; these cannot be printed or stored."""
    with pytest.raises(SystemExit) as ended:
        main(["sticky", "forget", "\udcff"])
    assert ended.value.code == 2
    assert (
        capsys.readouterr().err
        == r"eventsched: b'\xff' is not UTF-8; see `eventsched --help`" + "\n"
    )


def test_the_summary_says_how_nodes_changed(capsys: pytest.CaptureFixture[str]) -> None:
    load = "nodes=5,pods=20,shape=plain,seed=1,rate=1,runtime=60,node-life=20s,churn=10s"
    found = answer(capsys, "simulate", "--generate", load)
    removed, changed = found["nodes_removed"], found["nodes_changed"]
    assert removed
    assert changed
    assert main(["simulate", "--generate", load]) == 0
    shown = capsys.readouterr()
    assert f"\n{removed} nodes removed, {changed} changes of nodes\n" in shown.out
    assert "warning" not in shown.err


def test_a_load_that_ends_before_a_node_changes_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*GENERATED[:2], f"{GENERATED[2]},node-life=1h,flaps=1h"]) == 0
    assert (
        "warning: --generate: node-life and flaps changed no node, because the run ended at "
    ) in capsys.readouterr().err
