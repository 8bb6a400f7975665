"""``eventsched try`` on manifests: workloads, gangs, evictions, nodes to add, and bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from tests.databases import ROOT

NODES = """
apiVersion: v1
kind: List
items:
- {kind: Node, apiVersion: v1, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}},
   status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
- {kind: Node, apiVersion: v1, metadata: {name: n2, labels: {kubernetes.io/hostname: n2}},
   status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
"""
OLD = """
- {kind: Pod, apiVersion: v1, metadata: {name: old}, spec: {nodeName: n1, priority: 0,
   containers: [{name: c, resources: {requests: {cpu: 3}}}]}}
"""
TEMPLATE = """
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, resources: {requests: {cpu: 1500m}}}]
"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tries(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the command on a cluster: exit code, and what it prints as JSON or as text."""

    def run(pods: str, *options: str, cluster: str = NODES) -> tuple[int, Any]:
        Path("cluster.yaml").write_text(cluster)
        Path("pods.yaml").write_text(pods)
        capsys.readouterr()
        code = main(["try", "-f", "pods.yaml", "--manifests", "cluster.yaml", *options])
        found = capsys.readouterr()
        if code == 2:
            return code, found.err
        return code, json.loads(found.out) if "json" in options else found.out

    return run


def workload(kind: str, version: str, **spec: Any) -> str:
    fields = "".join(f"  {name}: {json.dumps(value)}\n" for name, value in spec.items())
    head = f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n{fields}"
    return f"{head}  template:{TEMPLATE}"


def test_nodes_of_a_shape_are_counted_in_all_zones(tries: Any) -> None:
    """The pods that wait besides are why there are more nodes to add than pods need."""
    nodes = "".join(
        f"- {{kind: Node, apiVersion: v1, metadata: {{name: {name}, labels: {{{_ZONE}: {zone}}}}}, "
        "status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}\n"
        for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b"))
    )
    waiting = "".join(
        f"- {{kind: Pod, apiVersion: v1, metadata: {{name: w{number}}}, spec: {{priority: 100, "
        "containers: [{name: c, resources: {requests: {cpu: 3}}}]}}\n"
        for number in range(5)
    )
    cluster = f"apiVersion: v1\nkind: List\nitems:\n{nodes}{waiting}"
    code, text = tries(POD, cluster=cluster)
    assert code == 1
    assert "the cluster has 3 of that shape, 2 in its zone)" in text
    assert "with these nodes more, all fit:\n  3 like n1 (" in text
    assert "this counts room for 2 of 2 other pods that wait already" in text
    _, told = tries(POD, "-o", "json", cluster=cluster)
    [added] = told["nodes_to_add"]
    assert (added["there_are"], added["in_its_zone"], told["waiting_besides"]) == (3, 2, 2)
    assert (added["number"], told["waiting_placed"]) == (3, 2)
    elsewhere = cluster.replace("priority: 100, ", "nodeSelector: {a: b}, ")
    _, text = tries(POD, "--count", "5", cluster=elsewhere)
    assert "none of them is for 5 other pods that wait already" in text


def test_a_pod_that_had_room_already_is_not_of_those_that_wait(tries: Any) -> None:
    """It goes to the new node, which is emptier, but it did not need it; the other one stays."""
    full = "".join(
        f"- {{kind: Pod, apiVersion: v1, metadata: {{name: old{n}}}, spec: {{nodeName: n{n}, "
        "containers: [{name: c, resources: {requests: {cpu: 3}}}]}}\n"
        for n in (1, 2)
    )
    waiting = """
- {kind: Pod, apiVersion: v1, metadata: {name: small}, spec: {
   containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}
- {kind: Pod, apiVersion: v1, metadata: {name: picky}, spec: {nodeSelector: {a: b},
   containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}
"""
    pods = POD.replace("priority: 10, ", "")
    code, told = tries(pods, "-o", "json", cluster=f"{NODES}{full}{waiting}")
    assert (code, [each["number"] for each in told["nodes_to_add"]]) == (1, [1])
    assert (told["waiting_besides"], told["waiting_placed"]) == (1, 0)


_ZONE = "topology.kubernetes.io/zone"
SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.mark.parametrize(
    ("kind", "version", "spec", "names"),
    [
        (
            "Deployment",
            "apps/v1",
            {"replicas": 2, "selector": SELECTOR},
            ["web-try-0", "web-try-1"],
        ),
        ("Deployment", "apps/v1", {"selector": SELECTOR}, ["web-try-0"]),
        ("ReplicaSet", "apps/v1", {"replicas": 2, "selector": SELECTOR}, ["web-0", "web-1"]),
        ("StatefulSet", "apps/v1", {"replicas": 2, "selector": SELECTOR}, ["web-0", "web-1"]),
        ("Job", "batch/v1", {"parallelism": 5, "completions": 2}, ["web-0", "web-1"]),
        ("Job", "batch/v1", {"parallelism": 2}, ["web-0", "web-1"]),
        ("Job", "batch/v1", {}, ["web-0"]),
    ],
)
def test_workloads(tries: Any, kind: str, version: str, spec: Any, names: list[str]) -> None:
    code, told = tries(workload(kind, version, **spec), "-o", "json")
    assert code == 0
    assert [pod["name"] for pod in told["pods"]] == names
    assert all(pod["node"] in ("n1", "n2") for pod in told["pods"])
    assert told["more"] == {
        "fit": 4 - len(names), "at_least": False,
        "message": "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate",
    }  # fmt: skip


def test_replicas_of_a_deployment_are_spread_as_in_a_cluster(tries: Any) -> None:
    """Their ReplicaSet, which a controller makes, is the default selector of spreading."""
    nodes = NODES.replace("hostname: n1}", "hostname: n1, topology.kubernetes.io/zone: a}")
    nodes = nodes.replace("hostname: n2}", "hostname: n2, topology.kubernetes.io/zone: b}")
    _, told = tries(
        workload("Deployment", "apps/v1", replicas=2, selector=SELECTOR), "-o", "json",
        cluster=nodes,
    )  # fmt: skip
    assert {pod["node"] for pod in told["pods"]} == {"n1", "n2"}


def test_a_claim_of_a_stateful_set_is_made(tries: Any) -> None:
    claim = [{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
        "resources": {"requests": {"storage": "1Gi"}}}}]  # fmt: skip
    pods = workload(
        "StatefulSet", "apps/v1", replicas=2, selector=SELECTOR, volumeClaimTemplates=claim
    )
    fast = "\n".join((
        "- {kind: StorageClass, apiVersion: storage.k8s.io/v1, metadata: {name: fast},",
        "   provisioner: example.com/p, volumeBindingMode: WaitForFirstConsumer}",
    ))  # fmt: skip
    code, told = tries(pods, "-o", "json", cluster=NODES + fast)
    assert code == 0
    assert told["placed"] == 2
    assert "more" not in told
    code, told = tries(pods, "-o", "json")
    assert code == 1
    assert told["pods"][0]["message"]
    code, message = tries(pods, "--count", "max", cluster=NODES + fast)
    assert (
        "--count max: pod default/web-0 has volumes with claims of its own; give a num" in message
    )


POD = """
apiVersion: v1
kind: Pod
metadata: {name: big}
spec: {priority: 10, containers: [{name: c, resources: {requests: {cpu: 3}}}]}
"""


def test_what_has_to_give_way(tries: Any) -> None:
    cluster = NODES + OLD
    code, text = tries(POD, "--count", "2", cluster=cluster)
    assert code == 0
    assert text.startswith("2 of 2 pods would be placed; 1 pod would be evicted\n")
    assert "EVICTS" in text
    assert "default/old" in text
    _, told = tries(POD, "--count", "2", "-o", "json", cluster=cluster)
    assert [pod["evicts"] for pod in told["pods"]] == [[], ["default/old"]]
    assert told["pods"][1] | {"node": "n1", "evicts_from": "n1"} == told["pods"][1]


def test_which_nodes_to_add(tries: Any) -> None:
    code, text = tries(POD, "--count", "5")
    assert code == 1
    assert text.startswith("2 of 5 pods would be placed\n")
    assert "nowhere: 0/2 nodes are available: 2 Insufficient cpu." in text
    assert text.endswith(
        "with these nodes more, all fit:\n"
        "  3 like n1 (cpu 4000m, memory 8.0 GiB, pods 110; the cluster has 2 of that shape)\n"
    )
    _, told = tries(POD, "--count", "5", "-o", "json")
    assert [(each["like"], each["number"]) for each in told["nodes_to_add"]] == [("n1", 3)]
    code, text = tries(POD.replace("cpu: 3", "cpu: 30"))
    assert "no further node of any shape helps default/big" in text
    assert "no shape has" not in text
    _, told = tries(POD.replace("cpu: 3", "cpu: 30"), "-o", "json")
    assert told["refusals"] == [
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate"
    ]
    assert told["waiting_besides"] == 0
    ssd = POD.replace("spec: {", "spec: {nodeSelector: {disk: ssd}, ")
    _, told = tries(ssd, "-o", "json")
    assert (told["no_node_helps"], told["missing_labels"]) == (["default/big"], ["disk=ssd"])
    code, text = tries(ssd)
    assert text.endswith(
        "no further node of any shape helps default/big: no shape has the label disk=ssd of its "
        "nodeSelector\n"
    )


LARGE = """
apiVersion: v1
kind: Node
metadata: {name: large, labels: {kubernetes.io/hostname: large}}
status: {allocatable: {cpu: 64, memory: 256Gi, pods: 110}}
"""


def test_nodes_that_the_cluster_does_not_have(tries: Any) -> None:
    """One large node takes three pods, of which a node of the cluster takes one."""
    Path("large.yaml").write_text(LARGE)
    code, text = tries(POD, "--count", "5", "--node-template", "large.yaml")
    assert code == 1
    assert text.endswith(
        "with these nodes more, all fit:\n"
        "  1 like large (cpu 64000m, memory 256.0 GiB, pods 110; "
        "the cluster has none of that shape)\n"
    )
    big = POD.replace("cpu: 3", "cpu: 30")
    _, told = tries(big, "--node-template", "large.yaml", "-o", "json")
    assert [(each["like"], each["there_are"]) for each in told["nodes_to_add"]] == [("large", 0)]
    assert told["no_node_helps"] == []


@pytest.mark.parametrize(
    ("template", "options", "problem"),
    [
        (LARGE, ("--count", "max"), "--node-template: does not go with --count max"),
        (LARGE.replace("large", "n1"), (), "large.yaml: describes the node n1, which is there"),
        (LARGE + "---" + LARGE.replace("large", "b"), (), "large.yaml: is not the manifest of one"),
        (POD, (), "large.yaml: is not the manifest of one node; write one Node into it"),
        ("", (), "large.yaml: is empty; check that the file was written completely"),
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: t}\nspec: {}\n",
            (),
            "large.yaml: status.allocatable: has no cpu and no memory and no pods, so that no pod "
            "would fit on node t; write status: {allocatable: {cpu: 4, memory: 16Gi, pods: 110}}",
        ),
        (LARGE.replace(", pods: 110", ""), (), "large.yaml: status.allocatable: has no pods, so"),
        (
            LARGE + "spec: {taint: [{key: a, effect: NoSchedule}]}\n",
            (),
            "large.yaml: Node large: spec.taint: NodeSpec has no such field; did you mean taints?",
        ),
        (LARGE.replace("name: large", "name: X Y"), (), "metadata.name: 'X Y' cannot name a node"),
    ],
)
def test_bad_node_templates(
    tries: Any, template: str, options: tuple[str, ...], problem: str
) -> None:
    Path("large.yaml").write_text(template)
    code, message = tries(POD, "--node-template", "large.yaml", *options)
    assert code == 2
    assert problem in message


def test_how_many_fit(tries: Any) -> None:
    code, text = tries(POD.replace("cpu: 3", "cpu: 100m"), "--count", "max")
    assert (code, text.split(";")[0]) == (0, "80 fit")
    code, told = tries(POD.replace("cpu: 3", "cpu: 30"), "--count", "max", "-o", "json")
    assert (code, told["fit"]) == (1, 0)
    assert "Insufficient cpu" in told["message"]


def test_a_generated_name_is_made_up(tries: Any) -> None:
    """Jobs are often submitted with metadata.generateName, as by kubectl create."""
    job = workload("Job", "batch/v1", parallelism=2).replace("{name: web}", "{generateName: fit-}")
    code, told = tries(job, "-o", "json")
    assert (code, [pod["name"] for pod in told["pods"]]) == (0, ["fit-try-0", "fit-try-1"])
    pods = POD.replace("{name: big}", "{generateName: big-}")
    code, told = tries(f"{pods}---{pods}", "-o", "json")
    assert [pod["name"] for pod in told["pods"]] == ["big-try", "big-try2"]


def test_further_pods_that_were_not_counted_to_the_end_are_at_least_so_many(tries: Any) -> None:
    small = POD.replace("cpu: 3", "cpu: 10m")
    assert tries(small)[1].endswith("\n\nat least 100 more of them fit without evictions\n")


def test_a_gang_goes_together_or_nowhere(tries: Any) -> None:
    config = str(ROOT / "examples/Coscheduling/config.yaml")
    gang = POD.replace("name: big}", "name: big, labels: {scheduling.x-k8s.io/pod-group: g, "
                       "pod-group.scheduling.sigs.k8s.io/min-available: '3'}}")  # fmt: skip
    code, told = tries(gang, "--count", "3", "--config", config, "-o", "json")
    assert (code, told["placed"]) == (1, 0)
    assert [(each["like"], each["number"]) for each in told["nodes_to_add"]] == [("n1", 1)]
    code, told = tries(
        gang.replace("cpu: 3", "cpu: 2"), "--count", "3", "--config", config, "-o", "json"
    )
    assert (code, told["placed"]) == (0, 3)


@pytest.mark.parametrize(
    ("pods", "options", "message"),
    [
        ("{}", (), "pods.yaml: document 1: kind: is missing"),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", (),
            "pods.yaml: holds no pod, but ConfigMap; write a Pod, Deployment",
        ),
        (
            workload("Deployment", "apps/v1", replicas=0), (),
            "pods.yaml: Deployment web: makes no pod; give it replicas",
        ),
        (POD.replace("name: big", "name: Big_1"), (), "metadata.name: is 'Big_1', which no object"),
        (
            POD.replace("name: big", "generateName: Big_"), (),
            "metadata.generateName: is 'Big_', with which no name can begin",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n", (),
            "pods.yaml: Pod default/a: spec.containers: is empty; write a container",
        ),
        (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {}}}\n",
            (), "pods.yaml: Job a: spec.template.spec.containers: is empty; write a container",
        ),
        (workload("Deployment", "apps/v1", replicas="x"), (), "Deployment web: spec.replicas"),
        (workload("Deployment", "apps/v1", replicas=-1), (), "Deployment web: spec.replicas"),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {}\n", (),
            "Deployment web: spec.template: is missing; write the pods' template there",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: []}\n",
            (), "Deployment web: spec.template: is not a mapping",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
            "spec: {template: {metadata: {labels: [a]}, spec: {containers: []}}}\n",
            (), "Deployment web: spec.template.metadata.labels: is not a mapping",
        ),
        (POD + "---" + POD.replace("big", "b2"), ("--count", "2"), "--count: pods.yaml: Pod "),
        (POD.replace("spec: {", "spec: {nodeName: n1, "), (), "spec.nodeName: is n1; remove it"),
        (
            POD.replace("spec: {", "spec: {schedulerName: other, "), (),
            "spec.schedulerName: no profile is named 'other'; there are: default-scheduler",
        ),
        (
            POD.replace("spec: {", "spec: {schedulerName: defualt-scheduler, "), (),
            "no profile is named 'defualt-scheduler'; did you mean default-scheduler?",
        ),
        (POD.replace("big", "old"), (), "Pod default/old: is in the cluster already"),
        (POD, ("--at", "5"), "--at: is about a log; remove it, or remove --manifests"),
        (NODES + "---" + POD, (), "pods.yaml: holds the node n1"),
        (
            POD.replace("requests", "reqests"), (),
            "Pod default/big: spec.containers[0].resources.reqests: ResourceRequirements has no "
            "such field; did you mean requests?",
        ),
        (
            workload("Job", "batch/v1", paralelism=2), (),
            "Job web: spec.paralelism: JobSpec has no such field; did you mean parallelism?",
        ),
    ],
)  # fmt: skip
def test_bad_input(tries: Any, pods: str, options: tuple[str, ...], message: str) -> None:
    code, told = tries(pods, *options, cluster=NODES + OLD)
    assert code == 2
    assert message in told


@pytest.mark.parametrize("count", ["0", "-1", "many", "1000001", "²"])
def test_a_count_is_a_number(count: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["try", "-f", "pods.yaml", "--count", count])
    assert ended.value.code == 2
    assert "is not a number from 1 to 1000000, or max" in capsys.readouterr().err
