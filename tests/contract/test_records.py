"""The bytes of records: what is written once can be read for ever.

records-golden.jsonl holds the canonical bytes of one example of each kind. They change only with
the kind's version (and then the old line stays readable through an upcaster): a test that fails
here says that stored logs would no longer be what they were.
"""

import typing
from pathlib import Path

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.objects import (
    Container,
    HostPort,
    Image,
    Node,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodSpec,
    PreferredTerm,
    Requirement,
    Taint,
    Toleration,
)
from eventsched.domain.records import AnyRecord, Outcome, Queue
from eventsched.domain.verdicts import Code, Normalization, ScoreColumn, Verdict

NODE = Node(
    name="n1",
    uid="u1",
    labels={"b": "2", "a": "1"},
    annotations={"note": "grün"},
    taints=(Taint(key="k", value="v", effect="NoSchedule"),),
    unschedulable=True,
    allocatable={"pods": 110, "cpu": 4000},
    images=(Image(names=("a:1", "a@sha256:0"), size=5),),
)
TERM = NodeSelectorTerm(
    expressions=(Requirement(key="zone", operator="In", values=("a", "b")),),
    fields=(Requirement(key="metadata.name", operator="In", values=("n1",)),),
)
POD = Pod(
    uid="p1",
    name="web-0",
    namespace="shop",
    labels={"app": "web"},
    annotations={"note": "x"},
    owner=Owner(kind="ReplicaSet", name="web", uid="rs1"),
    priority=-5,
    scheduler_name="mine",
    node_name="n1",
    gates=("wait",),
    deleting=True,
    created_at=1_700_000_000_000_000,
    spec=PodSpec(
        containers=(
            Container(
                image="a:1",
                requests={"memory": 2**40, "cpu": 100},
                ports=(HostPort(port=80, protocol="UDP", ip="10.0.0.1"),),
            ),
        ),
        init_containers=(Container(image="i", restarts=True),),
        overhead={"cpu": 5},
        requests={},
        node_selector={"disk": "ssd"},
        required_node_terms=(TERM,),
        preferred_node_terms=(PreferredTerm(weight=7, term=TERM),),
        tolerations=(Toleration(key="k", operator="Exists", value="", effect="NoExecute"),),
        image_volumes=("vol:1",),
    ),
)
EXAMPLES: list[AnyRecord] = [
    records.StreamStarted(
        format=1,
        engine="0.1.0",
        seed="s",
        inputs={"nodes": "d1"},
        configuration="kind: KubeSchedulerConfiguration",
        flags=(1, 2),
        plugins={"A": "d"},
        timeline="7301/1",
    ),
    records.TermBegan(epoch=7, token="0badcafe"),
    records.HistoryLost(timeline="7301/2"),
    records.NodeAdded(node=NODE),
    records.NodeUpdated(node=Node(name="n1")),
    records.NodeDeleted(name="n1"),
    records.PodAdded(pod=POD),
    records.PodUpdated(pod=Pod(uid="p1", name="web-0")),
    records.PodDeleted(uid="p1"),
    records.BindSucceeded(uid="p1", node="n1"),
    records.BindFailed(uid="p1", node="n1", message='409 "conflict"'),
    records.BindRetried(uid="p1", node="n1", attempt=3, resource_version=4711),
    records.BindVoided(
        uid="p1", node="n1", attempt=3, reason="the node is gone", resource_version=4712
    ),
    records.TimePassed(),
    records.VerdictDefined(
        number=1,
        verdict=Verdict(
            plugin="Fit", code=Code.UNRESOLVABLE, reasons=("Insufficient cpu", "Too many pods")
        ),
    ),
    records.ScoringDefined(
        number=1,
        columns=(
            ScoreColumn(plugin="Fit", weight=1),
            ScoreColumn(plugin="Taints", weight=3, normalization=Normalization.REVERSED),
        ),
    ),
    records.PodQueued(
        uid="p1",
        queue=Queue.BACKOFF,
        cause="AttemptFailed",
        plugin="Fit",
        rejectors=("Fit", "Other"),
        pending=("Other",),
        until=5_000_000,
        failures=2,
        errors=1,
        message="why",
    ),
    records.PodDecided(
        uid="p1",
        attempt=3,
        outcome=Outcome.WAITING,
        profile="mine",
        node="n1",
        row=4,
        score=250,
        runner_up="n2",
        runner_up_score=249,
        feasible=2,
        evaluated=5,
        ties=2,
        draw=2**64 - 1,
        counts=((1, 3), (65_533, 1)),
        scoring=1,
        parameters=((), (2,)),
        digest="00ff",
        plugin="P",
        message="m",
        carry={"volume": {"parts": [1, 2.5, None, True]}},
        deadlines={"Gang": 10_000_000},
    ),
    records.PermitGranted(uid="p1", plugin="Gang", by="p2"),
    records.BindIntended(uid="p1", node="n1", attempt=3),
    records.PodUnreserved(uid="p1", node="n1", plugin="Gang", message="timeout"),
    records.PodBound(uid="p1", node="n1", attempt=3, message="m"),
    records.MemoryChanged(plugin="First", key="shop/web-0", value="n1"),
]
GOLDEN = Path(__file__).with_name("records-golden.jsonl").read_bytes().splitlines()


def test_there_is_an_example_of_every_kind() -> None:
    """And a line for each of them, in the catalogue's order."""
    assert [type(each) for each in EXAMPLES] == list(typing.get_args(AnyRecord))
    assert len(GOLDEN) == len(EXAMPLES)


def test_the_examples_leave_out_no_field() -> None:
    """A field at its default would not show in the bytes. (Two objects stand in full once.)"""
    bare = (records.NodeUpdated, records.PodUpdated)
    for each in EXAMPLES:
        if not isinstance(each, bare):
            fields = {field.encode_name for field in msgspec.structs.fields(each)}
            assert set(msgspec.json.decode(records.encode(each))) == fields | {"kind"}
    assert set(msgspec.to_builtins(NODE)) == set(Node.__struct_fields__)
    assert set(msgspec.to_builtins(POD)) == set(Pod.__struct_fields__)
    assert set(msgspec.to_builtins(POD.spec)) == set(PodSpec.__struct_fields__)


@pytest.mark.parametrize("record", EXAMPLES, ids=lambda record: type(record).__name__)
def test_bytes_round_trip(record: AnyRecord) -> None:
    """decode(encode(x)) == x, of the same kind."""
    found = records.decode(records.encode(record))
    assert (type(found), found) == (type(record), record)


@pytest.mark.parametrize(
    ("record", "line"),
    list(zip(EXAMPLES, GOLDEN, strict=True)),
    ids=[type(each).__name__ for each in EXAMPLES],
)
def test_the_bytes_are_what_they_always_were(record: AnyRecord, line: bytes) -> None:
    """Canonical: declared order, sorted keys, no defaults, no white space."""
    assert records.encode(record) == line
    assert records.decode(line) == record


def test_equal_records_have_equal_bytes_whatever_the_order_of_their_maps() -> None:
    """Labels come in any order."""
    one = records.NodeAdded(node=Node(name="n", labels={"a": "1", "b": "2"}))
    other = records.NodeAdded(node=Node(name="n", labels={"b": "2", "a": "1"}))
    assert records.encode(one) == records.encode(other)


@pytest.mark.parametrize(
    "body", [b'{"kind":"Nonsense"}', b'{"kind":"PodDeleted"}', b'{"kind":"PodDeleted","uid":5}']
)
def test_unknown_kinds_and_shapes_are_refused(body: bytes) -> None:
    """Not guessed at."""
    with pytest.raises(msgspec.ValidationError):
        records.decode(body)
