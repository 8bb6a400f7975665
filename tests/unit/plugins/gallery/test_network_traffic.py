"""NetworkTraffic: the less a node has received, the better; also if that is unknown."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import SamplesTaken
from eventsched.domain.records.verdicts import Normalization, ScoreColumn
from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery.network_traffic import NetworkTraffic, NetworkTrafficArgs
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from eventsched.scheduling.engine import Engine
from eventsched.testing import typed
from tests.builders import (
    SECOND,
    added,
    attempted,
    defined,
    engine_of,
    make_node,
    make_pod,
    observed,
    scheduled,
)

ADDRESS = "http://prometheus:9090"
NODES = [make_node("master"), make_node("node01"), make_node("node02")]


def plugin(**args: Any) -> NetworkTraffic:
    """With a device and an address."""
    given = {"prometheusAddress": ADDRESS, "deviceName": "ens192", **args}
    made: NetworkTraffic = typed(NetworkTraffic, **given)
    return made


def taken(until: int = 0, **values: float) -> SamplesTaken:
    """Samples of the plugin's source."""
    return SamplesTaken(source="NetworkTraffic", values=values, until=until)


def traffic() -> Engine:
    """With nodes and the plugin alone."""
    engine = engine_of(plugin())
    observed(engine, *added(*NODES))
    return engine


def scores(engine: Engine) -> dict[str, int]:
    """What each node scores now."""
    judged = engine.judge(make_pod("any"))
    names = engine.state.nodes.names
    return {names[row]: int(total) for row, total in enumerate(judged.totals) if total >= 0}


def test_the_busiest_node_loses() -> None:
    """The original's numbers: the master is the busiest and scores 0, node01 71; the node that has
    no sample counts as the busiest, too."""
    engine = traffic()
    told = taken(master=43_000_000_000.0, node01=12_541_068_340.0)
    assert observed(engine, told, *added(make_pod())) == [
        told, records.PodAdded(pod=make_pod()), records.PodQueued(
            uid="p1", queue=records.Queue.ACTIVE, cause="PodAdd"
        ),
    ]  # fmt: skip
    column = ScoreColumn(
        plugin="NetworkTraffic", weight=1, normalization=Normalization.REVERSED,
        parameters=(43_000_000_000,),
    )  # fmt: skip
    assert attempted(engine) == [
        defined(column),
        scheduled(
            node="node01", row=1, score=71, feasible=3, evaluated=3, runner_up="master",
            scores=[column],
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"master": 1.0, "node01": 3.0, "node02": 4.0}, (75, 25, 0)),
        ({"master": 0.0, "node01": 0.0, "node02": 0.0}, (100, 100, 100)),
        ({"master": 0.4, "node01": 0.9, "node02": 0.0}, (100, 100, 100)),  # less than a byte
        ({"master": 10.0, "node01": 20.0}, (50, 0, 0)),
        ({"node02": 7.0}, (0, 0, 0)),
        ({"master": -5.0, "node01": 1e300, "node02": 0.0}, (100, 0, 100)),
    ],
)
def test_scores(values: dict[str, Any], expected: tuple[int, int, int]) -> None:
    """100 - bytes * 100 / largest, in whole numbers."""
    engine = traffic()
    observed(engine, taken(**values))
    assert tuple(scores(engine).values()) == expected


def test_without_samples_all_nodes_are_alike() -> None:
    """At the start, with another source's, and with a problem."""
    engine = traffic()
    problem = SamplesTaken(source="NetworkTraffic", problem="Prometheus cannot be reached")
    other = SamplesTaken(source="Other", values={"master": 1.0})
    assert observed(engine, problem, other) == [problem, other]
    assert set(scores(engine).values()) == {100}


def test_samples_follow_each_other() -> None:
    """Newer ones count, a problem changes nothing, and after their time they no longer count."""
    engine = traffic()
    found = []
    for at, told in (
        (0, taken(until=60 * SECOND, master=8.0, node01=4.0, node02=0.0)),
        (30, taken(until=90 * SECOND, master=0.0, node01=4.0, node02=8.0)),
        (60, SamplesTaken(source="NetworkTraffic", problem="away")),
        (89, records.TimePassed()),
        (90, records.TimePassed()),
    ):
        observed(engine, told, at=at * SECOND)
        found.append(tuple(scores(engine).values()))
    assert found == [(0, 50, 100), (100, 50, 0), (100, 50, 0), (100, 50, 0), (100, 100, 100)]


def test_a_node_that_comes_later() -> None:
    """Has no sample yet, and is not to draw all pods; one that goes takes its sample along."""
    engine = traffic()
    observed(engine, taken(master=1.0, node01=2.0, node02=4.0))
    observed(engine, *added(make_node("node03")))
    assert scores(engine) == {"master": 75, "node01": 50, "node02": 0, "node03": 0}
    observed(engine, records.NodeDeleted(name="node02"))
    assert scores(engine) == {"master": 75, "node01": 50, "node03": 0}


@pytest.mark.parametrize(
    ("args", "query"),
    [
        ({}, "sum by (nodename) (rate("
         'node_network_receive_bytes_total{device="ens192"}[60s])'
         " * on (instance) group_left (nodename) node_uname_info)"),
        ({"query": "document", "timeRange": 5}, "sum by (nodename) (sum_over_time("
         'node_network_receive_bytes_total{device="ens192"}[5s])'
         " * on (instance) group_left (nodename) node_uname_info)"),
        ({"query": 'x{d="$device"}[${range}s] $$1', "deviceName": 'a"b\\'},
         'x{d="a\\"b\\\\"}[60s] $1'),
    ],
)  # fmt: skip
def test_what_is_asked(args: dict[str, Any], query: str) -> None:
    """The query, filled in."""
    sampling = plugin(**args).samples
    assert (sampling.address, sampling.query, sampling.interval) == (ADDRESS, query, 30.0)


def test_the_older_name_of_the_address() -> None:
    """As in the original's first version."""
    args = NetworkTrafficArgs(ip=f"{ADDRESS}/", device_name="eth0")
    assert NetworkTraffic(args).samples.address == ADDRESS


HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
PROFILE = (
    "- schedulerName: {name}\n"
    "  plugins: {{score: {{enabled: [{{name: NetworkTraffic}}]}}}}\n"
    "  pluginConfig: [{{name: NetworkTraffic, args: {args}}}]\n"
)
GIVEN = f"prometheusAddress: '{ADDRESS}', deviceName: eth0"


def configured(*args: str) -> Any:
    """An assembly of profiles with these arguments."""
    profiles = [PROFILE.format(name=f"s{n}", args=each) for n, each in enumerate(args)]
    loaded = configuration.load(HEAD + "".join(profiles), "c.yaml")
    return assemble_loaded(loaded, "c.yaml", IN_TREE)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ("{}", "args.prometheusAddress: is empty; write it with its scheme, such as http://"),
        ("{deviceName: a, prometheusAddress: '10.0.0.4:9090'}", "is not an http or https address"),
        (
            "{deviceName: a, ip: 10.0.0.4}",
            "args.ip: is not an http or https address; write it with",
        ),
        ("{deviceName: a, ip: 'http://[1'}", "args.ip: is not an http or https address"),
        ("{deviceName: a, ip: 'ftp://h'}", "args.ip: is not an http or https address"),
        ("{deviceName: a, ip: 'http://u:secret@h'}", "args.ip: has a user name or a password"),
        ("{deviceName: a, ip: 'http://h/?a=b'}", "args.ip: has a query or a fragment"),
        (f"{{{GIVEN}, ip: 'http://h'}}", "args.ip: is set as well as prometheusAddress"),
        (f"{{prometheusAddress: '{ADDRESS}'}}", "args.deviceName: is empty; name the network"),
        (f"{{{GIVEN}, timeRange: 0}}", "args.timeRange: 0 is out of range; use 1 or more"),
        (f"{{{GIVEN}, timeRange: 60s}}", "args.timeRange: "),
        (f"{{{GIVEN}, query: ' '}}", "args.query: is empty; write rate, document, or PromQL"),
        (f"{{{GIVEN}, query: 'a $ b'}}", "args.query: has a $ without a name"),
        (f"{{{GIVEN}, query: 'x $node'}}", "args.query: $node is not known; use $device"),
        (f"{{{GIVEN}, nodeLabel: a/b}}", "args.nodeLabel: 'a/b' is not a label of a metric"),
        (f"{{{GIVEN}, interval: soon}}", "args.interval: 'soon' is not a duration"),
        (f"{{{GIVEN}, interval: 10ms}}", "args.interval: 10ms is out of range; use 1s or more"),
        (f"{{{GIVEN}, nodeLabel: a-b}}", "args.nodeLabel: 'a-b' is not a label of a metric"),
        (f"{{{GIVEN}, maxAge: 10s}}", "args.maxAge: 10s is out of range; use more than the"),
        (f"{{{GIVEN}, maxAge: 1m, interval: 60s}}", "args.maxAge: 1m is out of range; use more"),
        ("{deviceName: e, prometheusAddress: 'http://a b'}", "is not an http or https address"),
        (f"{{{GIVEN}, source: ''}}", "args.source: is empty"),
        (f"{{{GIVEN}, device: a}}", "args.device: unknown field 'device'"),
    ],
)
def test_arguments_that_do_not_fit(args: str, told: str) -> None:
    """File, field and remedy; never a password."""
    with pytest.raises(InputError) as refused:
        configured(args)
    assert "c.yaml: profiles[0].pluginConfig[0].args." in str(refused.value)
    assert told in str(refused.value)
    assert "secret" not in str(refused.value)


def test_the_arguments_are_needed() -> None:
    """A profile without them is refused as well."""
    text = HEAD + "- plugins: {score: {enabled: [{name: NetworkTraffic}]}}\n"
    with pytest.raises(InputError, match="prometheusAddress"):
        assemble_loaded(configuration.load(text, "c.yaml"), "c.yaml", IN_TREE)


def test_profiles_share_a_source_or_have_one_each() -> None:
    """What is the same is asked once; under one name there is one thing."""
    alike = configured(f"{{{GIVEN}}}", f"{{{GIVEN}}}").samplings
    assert [each.source for each in alike] == ["NetworkTraffic"]
    two = configured(f"{{{GIVEN}}}", f"{{{GIVEN}, timeRange: 5, source: Short}}").samplings
    assert [each.source for each in two] == ["NetworkTraffic", "Short"]
    clashing = configured(f"{{{GIVEN}}}", f"{{{GIVEN}, timeRange: 5}}")
    with pytest.raises(InputError, match="two profiles ask different things under the name"):
        assert clashing.samplings
