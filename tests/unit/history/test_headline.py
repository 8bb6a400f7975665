"""What ``explain`` begins with, and how repeated attempts are merged: from records alone."""

import dataclasses
from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import NodeSelectorTerm, Requirement, Taint
from eventsched.domain.records import (
    ExtenderAnswered,
    ExtenderAsked,
    ExtenderInquired,
    Outcome,
    PodDecided,
    PodQueued,
    Queue,
    Record,
)
from eventsched.history.explain.conclusions.headline import (
    headline,
    needs_closed_nodes,
    with_closed_nodes,
)
from eventsched.history.explain.conclusions.remedies import remedy
from eventsched.history.explain.evidence import LoggedPod
from eventsched.history.explain.explanation import ExplainedAttempt, Explanation, NodeRefusals, Step
from eventsched.history.explain.record_text import describe as text_of
from eventsched.history.explain.repeated_attempts import ALIKE, RepeatedAttempts, merge_repeated
from eventsched.output.headline_output import headline_json, headline_text
from eventsched.output.terminal.tables import filled, table
from eventsched.output.time_format import with_distance
from tests.builders import SECOND, make_node, make_pod

BEGIN = 1_800_000_000 * SECOND
CPU = NodeRefusals("NodeResourcesFit", "Unschedulable", ("Insufficient cpu",), 5)
TAINT = NodeRefusals(
    "TaintToleration", "UnschedulableAndUnresolvable", ("untolerated taint(s)",), 4
)
APART = NodeRefusals(
    "InterPodAffinity", "UnschedulableAndUnresolvable", ("no match for the pod's affinity",), 5
)
EXCLUDED = NodeRefusals("", "Excluded", ("PreFilter left the node out",), 9)


def told(*happened: tuple[int, Any], refusals: tuple[NodeRefusals, ...] = ()) -> Explanation:
    """The explanation of pod p1 with these records, at seconds after BEGIN."""
    steps = tuple(
        Step(position, BEGIN + at * SECOND, record, type(record).__name__, None)
        for position, (at, record) in enumerate(happened)
    )
    attempts = tuple(
        ExplainedAttempt(step.position, step.at, step.record, refusals)
        for step in steps
        if isinstance(step.record, PodDecided)
    )
    pod = LoggedPod("p1", "default", "p1", 0)
    return Explanation("main", pod, (), steps, attempts, attempts[-1] if attempts else None)


def first(*happened: tuple[int, Record], now: int = 0, **more: Any) -> list[str]:
    """The first lines, ``now`` seconds after BEGIN."""
    return headline_text(told(*happened, **more), BEGIN + now * SECOND)


def added(**fields: Any) -> records.PodAdded:
    return records.PodAdded(pod=make_pod(**fields))


def moved(queue: Queue, cause: str = "PodAdd", **fields: Any) -> PodQueued:
    return PodQueued(uid="p1", queue=queue, cause=cause, **fields)


def tried(attempt: int, outcome: Outcome = Outcome.UNSCHEDULABLE, **fields: Any) -> PodDecided:
    return PodDecided(uid="p1", attempt=attempt, outcome=outcome, **fields)


REFUSED = (
    (0, added()),
    (0, moved(Queue.ACTIVE)),
    (0, tried(1)),
    (0, moved(Queue.UNSCHEDULABLE, "AttemptFailed")),
)


def test_a_pod_that_waits_for_a_node() -> None:
    """What refuses it, since when, until when at most, and the next step."""
    lines = first(*REFUSED, refusals=(EXCLUDED, CPU, TAINT), now=70)
    assert lines == [
        "default/p1 has been waiting for a node since 2027-01-15 08:00:00 UTC (1m10s ago), 1 "
        "attempt: NodeResourcesFit refuses 5 of 18 nodes: Insufficient cpu; it is tried "
        "again after a change, at the latest 2027-01-15 08:05:00 UTC (in 3m50s)",
        "Next step: add a node with 1 cpu free, delete pods on a node, or lower its requests.",
    ]


def test_the_step_names_a_node_that_lacks_the_room_that_the_pod_needs() -> None:
    small = dataclasses.replace(CPU, code="UnschedulableAndUnresolvable", examples=("small",))
    lines = first(*REFUSED, refusals=(small, dataclasses.replace(CPU, examples=("full", "other"))))
    command = "`eventsched explain default/p1 --why-not full`"
    assert lines[1].endswith(f"({command} says what it would take there).")
    lines = first(*REFUSED, refusals=(small, CPU))
    assert "--why-not" not in lines[1]


def test_the_step_asks_for_nodes_that_only_a_taint_closes() -> None:
    """They matter to a pod that lacks room while a taint refuses other nodes."""
    asks = added(spec={"node_selector": {"pool": "gpu"}})
    explained = told((0, asks), *REFUSED[1:], refusals=(EXCLUDED, CPU, TAINT))
    assert needs_closed_nodes(explained)
    assert not needs_closed_nodes(told(*REFUSED, refusals=(EXCLUDED, CPU)))
    assert not needs_closed_nodes(told(*REFUSED[:2], refusals=(TAINT,)))
    assert not needs_closed_nodes(told(*REFUSED, refusals=(APART, TAINT)))  # no node has the place
    assert with_closed_nodes(explained, None) == explained
    nodes = NodeTable()
    assert "toleration" not in headline(with_closed_nodes(explained, nodes)).next_step
    taint = Taint("gpu", "", "NoSchedule")
    nodes.add(make_node("n1", labels={"pool": "gpu"}, taints=(taint,)))
    step = headline(with_closed_nodes(explained, nodes)).next_step
    assert "; or add a toleration for the taint gpu:NoSchedule of 1 node, if" in step


def named(*refusals: NodeRefusals, nodes: NodeTable | None, **fields: Any) -> list[str]:
    """Which plugin is named of how many nodes, and the next step, with these nodes known."""
    explained = told((0, added(**fields)), *REFUSED[1:], refusals=refusals)
    found = headline(with_closed_nodes(explained, nodes))
    return [f"{found.plugin} {found.nodes} of {found.of}: {found.reason}", found.next_step]


AFFINITY = NodeRefusals("NodeAffinity", "UnschedulableAndUnresolvable", ("no match",), 2)


def test_a_selector_that_fits_no_node_is_named_before_taints() -> None:
    """Of three control-plane nodes with a taint and two workers none has the label."""
    nodes, taint = NodeTable(), Taint("control-plane", "", "NoSchedule")
    for name in ("cp1", "cp2", "cp3"):
        nodes.add(make_node(name, taints=(taint,)))
    for name in ("w1", "w2"):
        nodes.add(make_node(name))
    asks = {"spec": {"node_selector": {"disk": "ssd"}}}
    plugin, step = named(TAINT, AFFINITY, nodes=nodes, **asks)
    assert plugin == "NodeAffinity 2 of 6: no match"
    assert step.startswith("label one of 2 open nodes, such as w1, with disk=ssd, or remove that")
    plugin, step = named(TAINT, AFFINITY, nodes=None, **asks)
    assert plugin == "TaintToleration 4 of 6: untolerated taint(s)"
    assert "was not checked" in step


def test_taints_are_named_before_a_selector_that_fits_nodes_with_taints() -> None:
    """Most nodes are not meant for the pod; those that are have a taint or a cordon."""
    many = dataclasses.replace(AFFINITY, nodes=9)
    asks = {"spec": {"node_selector": {"pool": "gpu"}}}
    nodes = NodeTable()
    nodes.add(make_node("w1"))
    gpu = make_node("g1", labels={"pool": "gpu"}, taints=(Taint("gpu", "", "NoSchedule"),))
    nodes.add(gpu)
    plugin, step = named(TAINT, many, nodes=nodes, **asks)
    assert plugin == "TaintToleration 4 of 13: untolerated taint(s)"
    assert step.startswith("add a toleration for the taint gpu:NoSchedule of 1 node, if")
    broken = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
    nodes.update(msgspec.structs.replace(gpu, taints=(broken,)))
    plugin, step = named(TAINT, many, nodes=nodes, **asks)
    assert plugin == "NodeAffinity 9 of 13: no match"
    assert step.startswith("label w1 with pool=gpu, or remove that")
    assert "; or repair node g1 that is not ready" in step
    cordon = NodeRefusals("NodeUnschedulable", "UnschedulableAndUnresolvable", ("cordon",), 1)
    nodes.update(msgspec.structs.replace(gpu, taints=(), unschedulable=True))
    plugin, step = named(TAINT, many, cordon, nodes=nodes, **asks)
    assert plugin == "NodeUnschedulable 1 of 14: cordon"
    assert step.startswith("uncordon 1 node, if meant for such pods")


def test_taints_are_named_after_room_if_only_such_nodes_are_large_enough() -> None:
    """And are for the pod: then opening them is the step. First comes what lists of pods name."""
    small = dataclasses.replace(CPU, code="UnschedulableAndUnresolvable")
    nodes = NodeTable()
    nodes.add(make_node("w1", cpu=500))
    gpu = make_node("g1", labels={"pool": "gpu"}, taints=(Taint("gpu", "", "NoSchedule"),))
    nodes.add(gpu)
    asks = {"spec": {"node_selector": {"pool": "gpu"}}}
    plugin, step = named(small, TAINT, nodes=nodes, **asks)
    assert plugin == "NodeResourcesFit 5 of 9: Insufficient cpu"
    explained = told((0, added(**asks)), *REFUSED[1:], refusals=(small, TAINT))
    known = with_closed_nodes(explained, nodes)
    assert (
        "NodeResourcesFit refuses 5 of 9 nodes: Insufficient cpu (even without other pods); "
        "TaintToleration alone refuses nodes that are large enough; it is tried again"
    ) in headline_text(known, BEGIN)[0]
    assert headline_json(known)["closed_by"] == "TaintToleration"
    assert headline(known).helps == (
        "a toleration for the taints, or nodes without them; TaintToleration alone refuses nodes "
        "that are large enough"
    )
    assert headline_json(explained)["closed_by"] is None
    assert step.startswith("add a toleration for the taint gpu:NoSchedule of 1 node, if")
    assert step.endswith(
        "; or add a larger node labelled pool=gpu, with 1 cpu, or lower its requests"
    )
    plugin, step = named(small, CPU, TAINT, nodes=nodes, **asks)
    assert plugin == "NodeResourcesFit 10 of 14: Insufficient cpu"
    plugin, step = named(small, TAINT, nodes=nodes)
    assert plugin == "NodeResourcesFit 5 of 9: Insufficient cpu"
    assert "toleration" not in step
    cordon = NodeRefusals("NodeUnschedulable", "UnschedulableAndUnresolvable", ("cordon",), 1)
    nodes.update(msgspec.structs.replace(gpu, taints=(), unschedulable=True))
    plugin, step = named(small, TAINT, cordon, nodes=nodes)
    assert plugin == "NodeResourcesFit 5 of 10: Insufficient cpu"
    assert step.startswith("uncordon 1 node, if meant for such pods (large enough when empty; ")


def test_the_plugins_that_left_nodes_out_in_pre_filter_are_named() -> None:
    """Such as for the pod of a DaemonSet whose node is gone."""
    says = "0/9 nodes are available: 9 node(s) didn't satisfy plugin(s) [{}]. not found"
    field = Requirement("metadata.name", "In", ("n9",))
    asks = added(spec={"required_node_terms": (NodeSelectorTerm(fields=(field,)),)})

    def found(plugins: str) -> list[str]:
        attempt = (0, tried(1, message=says.format(plugins)))
        return first((0, asks), REFUSED[1], attempt, REFUSED[3], refusals=(EXCLUDED,))

    lines = found("NodeAffinity")
    refusal = "NodeAffinity refuses 9 of 9 nodes: node(s) didn't satisfy plugin(s) [NodeAffinity];"
    assert refusal in lines[0]
    assert lines[1] == (
        "Next step: add node n9, which its node affinity names, or relax the affinity."
    )
    lines = found("A B")
    assert "A B refuses 9 of 9 nodes: node(s) didn't satisfy plugin(s) [A B];" in lines[0]
    assert "--why-not NODE" in lines[1]


def of_resources(nodes: int, *lacking: str, code: str = "Unschedulable") -> NodeRefusals:
    return NodeRefusals(
        "NodeResourcesFit", code, tuple(f"Insufficient {x}" for x in lacking), nodes
    )


@pytest.mark.parametrize(
    ("refusals", "text", "step"),
    [
        ([of_resources(1, "cpu", "gpu"), of_resources(1, "gpu"), EXCLUDED],
         "NodeResourcesFit refuses 2 of 11 nodes: Insufficient gpu",
         "add a node with gpu and 1 cpu free"),
        ([of_resources(3, "cpu", "memory")],
         "NodeResourcesFit refuses 3 of 3 nodes: Insufficient cpu; Insufficient memory",
         "add a node with 1 cpu and 2048Mi memory free"),
        ([of_resources(3, "cpu"), of_resources(2, "memory")],
         "NodeResourcesFit refuses 5 of 5 nodes, 3 of them for: Insufficient cpu",
         "add a node with 1 cpu and 2048Mi memory free"),
        ([of_resources(9, "cpu", code="UnschedulableAndUnresolvable"), of_resources(2, "cpu")],
         "NodeResourcesFit refuses 11 of 11 nodes, 2 of them for: Insufficient cpu",
         "add a node with 1 cpu free, delete pods on a node"),
    ],
)  # fmt: skip
def test_a_plugin_is_named_with_all_nodes_that_it_refuses(
    refusals: list[NodeRefusals], text: str, step: str
) -> None:
    lines = first((0, added(cpu=1000)), *REFUSED[1:], refusals=tuple(refusals))
    assert f"1 attempt: {text}; it is tried" in lines[0]
    assert lines[1].startswith(f"Next step: {step}")


def test_the_dominant_reason_is_data() -> None:
    found = headline_json(told(*REFUSED, refusals=(EXCLUDED, TAINT, CPU)))
    wanted = {
        "state": "unschedulable", "plugin": "NodeResourcesFit", "reason": "Insufficient cpu",
        "nodes": 5, "of": 18, "attempts": 1, "since": "2027-01-15T08:00:00+00:00",
        "until": "2027-01-15T08:05:00+00:00", "node": None,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("happened", "line"),
    [
        ([(0, added())],
         "has belonged to another scheduler (default-scheduler) since 2027-01-15 08:00:00"),
        ([(0, added()), (1, moved(Queue.ACTIVE))],
         "has been waiting for a node since 2027-01-15 08:00:01 UTC (59s ago); it has not been "
         "tried yet"),
        ([(0, added(node_name="n3"))], "has been on n3 since 2027-01-15 08:00:00 UTC"),
        ([(0, added()), (2, moved(Queue.GATED, plugin="SchedulingGates", message="gate a"))],
         "has been gated since 2027-01-15 08:00:02 UTC (58s ago): gate a (SchedulingGates)"),
        ([*REFUSED[:2], (1, tried(1, Outcome.SCHEDULED, node="n1", row=0))],
         "has been binding to n1 since 2027-01-15 08:00:01 UTC"),
        ([*REFUSED[:2],
          (1, tried(1, Outcome.WAITING, node="n1", row=0,
                    deadlines={"Coscheduling": BEGIN + 90 * SECOND}))],
         "has reserved n1 and has been waiting for Coscheduling at Permit since 2027-01-15 "
         "08:00:01 UTC (59s ago), at most until 2027-01-15 08:01:30 UTC (in 30s)"),
        ([*REFUSED[:2], (1, tried(1, Outcome.SCHEDULED, node="n1", row=0)),
          (2, records.PodBound(uid="p1", node="n1", attempt=1))],
         "has been on n1 since 2027-01-15 08:00:02"),
        ([*REFUSED[:2], (1, tried(1, Outcome.WAITING, node="n1", row=0)),
          (9, records.PodUnreserved(uid="p1", node="n1", plugin="VolumeBinding", message="late")),
          (9, moved(Queue.BACKOFF, "BindingFailed", until=BEGIN + 65 * SECOND))],
         "has been waiting for a node since 2027-01-15 08:00:00 UTC (1m00s ago), 1 attempt: "
         "VolumeBinding refused it: late; it is tried again when its backoff ends, "
         "2027-01-15 08:01:05 UTC (in 5s)"),
        ([(0, added(node_name="n3")), (5, records.PodDeleted(uid="p1"))],
         "has been gone since 2027-01-15 08:00:05 UTC (55s ago); it was on n3"),
        ([*REFUSED[:2], (3, records.PodUpdated(pod=make_pod(deleting=True))),
          (3, records.PodSkipped(uid="p1", message="skip"))],
         "it is being deleted"),
    ],
)  # fmt: skip
def test_where_a_pod_stands(happened: list[tuple[int, Record]], line: str) -> None:
    assert line in first(*happened, now=60)[0]


def placed_there(outcome: str, **fields: Any) -> records.PlacementCompared:
    return records.PlacementCompared(
        uid="p1", node="n2", outcome=records.PlacementMatch(outcome), **fields
    )


DECIDED = [
    (0, added(scheduler_name="default-scheduler")),
    (0, moved(Queue.ACTIVE)),
    (1, tried(1, outcome=Outcome.SCHEDULED, node="n1")),
]
SHOWN = (2, records.PodUpdated(pod=make_pod(scheduler_name="default-scheduler", node_name="n2")))
GONE = (3, records.PodDeleted(uid="p1"))


@pytest.mark.parametrize(
    ("happened", "line"),
    [
        (DECIDED, "would be on n1 since {1} if this shadow bound it; default-scheduler has not "
         "placed it yet"),
        ([*DECIDED, GONE], "has been gone since {3}; default-scheduler had not placed it; this "
         "shadow had chosen n1"),
        ([*DECIDED, SHOWN, (2, placed_there("different", chosen="n1", attempt=1))],
         "has been on n2 since {2}; this shadow had chosen n1"),
        ([*DECIDED, SHOWN, (2, placed_there("same", chosen="n2", attempt=1))],
         "has been on n2 since {2}, as this shadow chose"),
        ([*DECIDED[:2], SHOWN, (2, placed_there("only_there", attempt=1)), GONE],
         "has been gone since {3}; it was on n2; this shadow had found no node"),
        ([*DECIDED[:2], SHOWN, (2, placed_there("undecided"))],
         "has been on n2 since {2}; this shadow had not decided yet"),
        (DECIDED[:2], "has been waiting for a node since {0}; it has not been tried yet"),
    ],
)  # fmt: skip
def test_a_shadow_binds_nothing(happened: list[tuple[int, Record]], line: str) -> None:
    """The first line says what the other scheduler did, and what the shadow chose."""
    explained = dataclasses.replace(told(*happened), is_shadow=True)
    now = BEGIN + 60 * SECOND
    times = [with_distance(BEGIN + at * SECOND, now) for at in range(4)]
    assert headline_text(explained, now)[0] == f"default/p1 {line.format(*times)}"


def test_a_simulation_has_no_present() -> None:
    explained = told(*REFUSED)
    steps = tuple(
        Step(step.position, step.at - BEGIN, step.record, "", None) for step in explained.steps
    )
    before = Explanation("s", explained.pod, (), steps, (), None)
    assert "ago" not in headline_text(before, BEGIN)[0]


def rounds(*messages: str) -> list[Step]:
    """An attempt for each message, each brought back by the end of a node's pod."""
    happened: list[tuple[int, Record]] = [(0, added()), (0, moved(Queue.ACTIVE))]
    for number, message in enumerate(messages, 1):
        happened += [
            (number, tried(number, message=message)),
            (number, moved(Queue.UNSCHEDULABLE, "AttemptFailed")),
            (number, moved(Queue.BACKOFF, "AssignedPodDelete", plugin="NodeResourcesFit")),
            (number, moved(Queue.ACTIVE, "BackoffComplete")),
        ]
    return list(told(*happened).steps)


def test_attempts_that_ended_alike_are_one_line() -> None:
    """The first is shown in full, and what led to the attempt that ended otherwise."""
    steps = rounds("full", "full", "full", "full", "other")
    found = merge_repeated(steps)
    [line] = [each for each in found if isinstance(each, RepeatedAttempts)]
    assert (line.first, line.last, line.count) == (2, 4, 3)
    assert (line.begin, line.end) == (BEGIN + 2 * SECOND, BEGIN + 4 * SECOND)
    assert line.woken == (("AssignedPodDelete", 3),)
    kept = [each.record for each in found if isinstance(each, Step)]
    decided = [each.attempt for each in kept if isinstance(each, PodDecided)]
    assert decided == [1, 5]
    assert len(found) == len(steps) - 9 + 1


@pytest.mark.parametrize("messages", [("a", "b", "a", "b"), ("a",) * (ALIKE - 1), ()])
def test_what_differs_stands_in_full(messages: tuple[str, ...]) -> None:
    steps = rounds(*messages)
    assert merge_repeated(steps) == steps


def test_an_update_between_two_attempts_is_not_merged() -> None:
    happened: list[tuple[int, Record]] = [(0, added())]
    for number in range(1, 5):
        happened += [(number, tried(number)), (number, records.PodUpdated(pod=make_pod()))]
    steps = list(told(*happened).steps)
    assert merge_repeated(steps) == steps


def test_tables_keep_to_the_width() -> None:
    """The widest columns are wrapped; a word that is longer than its share stays whole."""
    rows = [("12:00", 7, "word " * 40, "name-1, name-2, name-3, name-4, name-5")]
    lines = table(("time", "position", "what", "such as"), rows, width=60).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.count("word") for line in lines) == 40
    assert len(table(("a", "b"), [("x" * 50, "y" * 50)], width=60).splitlines()) == 2
    assert table(("a",), [("word " * 40,)]).count("\n") == 1
    assert filled("a b", 0) == "a b"


def test_a_remedy_names_what_is_short() -> None:
    assert remedy("NodeResourcesFit", ["Insufficient cpu", "Insufficient memory"]).startswith(
        "cpu and memory that pods"
    )
    assert remedy("Unknown", ["no"]) == ""


def test_a_claim_that_is_missing_is_the_remedy_whichever_plugin_looks_first() -> None:
    said = '0/6 nodes are available: persistentvolumeclaim "data" not found. not found'
    for plugin in ("VolumeRestrictions", "VolumeBinding", "NodeVolumeLimits"):
        assert remedy(plugin, [said]) == "the PersistentVolumeClaim data in the pod's namespace"


def test_questions_to_extenders_and_their_answers_are_counted_in_words() -> None:
    asked = ExtenderAsked(uid="p1", attempt=1, extender=0, name="http://x", verb="filter", number=1)
    assert text_of(asked) == "attempt 1: extender http://x is asked to filter 1 node"
    inquired = ExtenderInquired(number=1, uid="p1", verb="preempt", nodes="0,2")
    assert text_of(inquired) == "another scheduler asks to preempt 2 candidates"
    answered = ExtenderAnswered(
        uid="p1", attempt=1, extender=0, name="http://x", verb="filter",
        failed={"busy": "0"}, unresolvable={"busy": "1-2"},
    )  # fmt: skip
    assert text_of(answered) == "extender http://x refused 3 nodes: 3 busy"
