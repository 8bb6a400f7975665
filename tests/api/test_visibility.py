"""What a client sees that may see one namespace only: every operation is asked about a day with
pods of several namespaces, and a simulation in which pods of two namespaces evict each other."""

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request

from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.api.operations import OPERATIONS
from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.domain.objects import Pod
from eventsched.eventlog import database as databases
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.plugins import IN_TREE
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from eventsched.questions.visibility import HIDDEN, Visibility
from eventsched.runtime.assembly import assemble_loaded
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from tests.api.asking import Client, Listener
from tests.builders import SECOND, make_node, make_pod
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, odd

OWN, SHARED = "prod", "shared"
STREAMS = [ODD, SHARED]
_PODS = """
SELECT p.namespace, p.name, CAST(p.uid AS text) AS uid FROM eventsched_log.pod p WHERE p.stream = :s
"""
FILTERS = (
    "", "outcome=scheduled", "outcome=unschedulable", "reason=cpu", "plugin=NodeResourcesFit",
    "node=n1", "node=n0", "profile=default-scheduler", "owner=web", "after=0", "from=0",
    "before=100000", "until=100000",
)  # fmt: skip


def _pod(name: str, namespace: str, priority: int, cpu: int = 1000, node: str = "") -> Pod:
    return make_pod(name, namespace=namespace, cpu=cpu, memory=0, priority=priority, node_name=node)


def shared(address: str) -> None:
    """Two nodes full of pods of two namespaces; then each has a pod that evicts some of them, and
    pods that are too large."""
    nodes = [make_node(f"n{number}") for number in range(2)]
    namespaces = ("guests", OWN)
    bound = [
        _pod(f"low-{number}-of-{namespaces[number % 4 // 2]}", namespaces[number % 4 // 2],
             number % 2, node=f"n{number % 2}")
        for number in range(8)
    ]  # fmt: skip
    arrivals = [
        TracePod(_pod(f"{name}-of-{namespace}", namespace, priority, cpu), second * SECOND)
        for second, (name, priority, cpu) in enumerate(
            (("high", 9, 3000), ("large", 0, 90_000), ("second", 8, 3000)), start=5
        )
        for namespace in namespaces
    ]
    assembly = assemble_loaded(configuration.default(), "test.yaml", IN_TREE)
    with closing(PostgresEventLog(address, SHARED, holder="test")) as log:
        Simulation(assembly, InMemoryCluster(nodes, arrivals, bound), log, batch_size=7).run()


def _prepared(address: str) -> None:
    migrate(address)
    odd(address)
    shared(address)


class OneNamespace:
    """A gate whose clients see one namespace."""

    async def visibility(self, request: Request) -> Visibility:
        return Visibility(frozenset({OWN}))


@pytest.fixture(scope="module")
def desk(one_server: Server) -> Iterator[Desk]:
    with (
        one_server.fresh(_prepared) as url,
        databases.reader_address(url, None) as address,
        closing(DatabaseStreams(address)) as streams,
    ):
        yield Desk(streams, FoldedStates())


class World:
    """A stream: what there is in it, and a client that sees one namespace of it."""

    def __init__(self, desk: Desk, stream: str) -> None:
        self.stream, self.app = stream, application(desk, OneNamespace())
        self.client = Client(self.app)
        whole = Client(application(desk, OpenGate(local_only=True)))
        pages = whole.pages(f"/decisions?stream={stream}&limit=500", "decisions")
        decisions = [each for page in pages for each in page]
        self.own = [each for each in decisions if each["namespace"] == OWN]
        self.foreign = [each for each in decisions if each["namespace"] != OWN]
        pods = desk.streams.open(stream).rows.all(_PODS)
        self.own_pods = {each["uid"]: each["name"] for each in pods if each["namespace"] == OWN}
        others = [each for each in pods if each["namespace"] != OWN]
        self.others = {(each["namespace"], each["name"]): each["uid"] for each in others}
        uids = {each["uid"] for each in others} | {each["uid"] for each in self.foreign}
        names = {name for _, name in self.others if len(name) > 3} - {*self.own_pods.values()}
        # A word of messages, and the holder of the stream: only found as parts of full names.
        names, self.namespaces = names - {"there"}, {ns for ns, _ in self.others if ns != "test"}
        self.hidden = uids | names | {f"{namespace}/{name}" for namespace, name in self.others}
        assert all((self.own, self.foreign, self.own_pods, self.others))

    def path(self, path: str) -> str:
        return f"{path}{'&' if '?' in path else '?'}stream={self.stream}"

    def leaks(self, text: str, asked: str = "") -> set[str]:
        """What an answer says about other namespaces, besides what the question said itself."""
        words = set(re.findall(r"[\w./-]+", text))
        parts = words | {part for word in words for part in word.split("/")}
        return {word for word in parts & (self.hidden | self.namespaces) if word not in asked}

    def seen(self, path: str) -> Any:
        """An answer, which has to be without the others."""
        answer = self.client.get(self.path(path))
        assert self.leaks(json.dumps(answer)) == set(), path
        return answer

    def refused(self, path: str, status: int = 403) -> None:
        """The question is refused, in words that say nothing else."""
        problem = self.client.problem(self.path(path), status)
        assert self.leaks(problem, path) == set(), problem


@pytest.fixture(scope="module", params=STREAMS)
def world(request: pytest.FixtureRequest, desk: Desk) -> World:
    return World(desk, request.param)


def _is_own(rows: list[dict[str, Any]]) -> bool:
    return {row["namespace"] for row in rows} <= {OWN}


def ask_streams(world: World) -> None:
    names = [each["name"] for each in world.client.get("/streams")["streams"]]
    assert names == STREAMS


def ask_now(world: World) -> None:
    now = world.seen("/now")
    assert now["nodes"] is None
    assert now["pods"] == len(world.client.get(world.path("/pods"))["pods"])
    assert now["decisions_per_second"] == len(world.own) / 60


def ask_activity(world: World) -> None:
    steps = world.seen("/activity")["steps"]
    assert sum(each["decisions"] for each in steps) == len(world.own)
    placed = [each for each in world.own if each["outcome"] in ("scheduled", "waiting")]
    assert sum(each["placed"] for each in steps) == len(placed)


def ask_decisions(world: World) -> None:
    for words in FILTERS:
        page = world.seen(f"/decisions?{words}")
        assert _is_own(page["decisions"])
        assert words or page["decisions"] == world.own
    for _, name in world.others:
        assert _is_own(world.seen(f"/decisions?pod={quote(name)}")["decisions"])
    for namespace in world.namespaces:
        world.refused(f"/decisions?namespace={namespace}")


def ask_decision(world: World) -> None:
    _ask_positions(world, "")


def ask_verdicts(world: World) -> None:
    _ask_positions(world, "/verdicts")


def ask_columns(world: World) -> None:
    _ask_positions(world, "/columns")


def _ask_positions(world: World, rest: str) -> None:
    answered = 0
    for decision in world.own:
        path = f"/decisions/{decision['position']}{rest}"
        if world.client.ask(ROOT + world.path(path)).status != 400:  # it has verdicts
            world.seen(path)
            answered += 1
    assert answered
    for decision in world.foreign:
        world.refused(f"/decisions/{decision['position']}{rest}")


def ask_changes(world: World) -> None:
    first, last = world.own[-1]["position"], world.own[0]["position"]
    for decision in world.own:
        world.seen(f"/decisions/{decision['position']}/changes/{decision['position']}")
    by_pod = {each["uid"]: each["position"] for each in world.own}
    for decision in world.own:
        path = f"/decisions/{by_pod[decision['uid']]}/changes/{decision['position']}"
        assert all(each["of_pod"] for each in world.seen(path)["between"])
    for decision in world.foreign:
        world.refused(f"/decisions/{decision['position']}/changes/{last}")
        world.refused(f"/decisions/{first}/changes/{decision['position']}")


def ask_pods(world: World) -> None:
    states = ("state=bound", "state=unschedulable", "ever=true", "sort=waiting", "sort=-since")
    for words in ("", "reason=cpu", "plugin=NodeResourcesFit", "node=n1", "owner=web", *states):
        assert _is_own(world.seen(f"/pods?{words}")["pods"])
    for namespace, name in world.others:
        assert _is_own(world.seen(f"/pods?ever=true&name={quote(name)}")["pods"])
        world.refused(f"/pods?namespace={namespace}")


def ask_pod_groups(world: World) -> None:
    own = len(world.seen("/pods")["pods"])
    for by in ("owner", "reason"):
        groups = world.seen(f"/pods/groups?by={by}")["groups"]
        assert {each["namespace"] for each in groups} <= {OWN, None}
        assert sum(each["pods"] for each in groups) == own
        for namespace in world.namespaces:
            world.refused(f"/pods/groups?by={by}&namespace={namespace}")
    for namespace in world.namespaces:
        assert world.seen(f"/pods?group={quote(f'owner:{namespace}//')}")["pods"] == []


def ask_explain(world: World) -> None:
    _ask_pod_paths(world, "explain")


def ask_timeline(world: World) -> None:
    _ask_pod_paths(world, "timeline")


def _ask_pod_paths(world: World, rest: str) -> None:
    for uid, name in world.own_pods.items():
        path = f"/pods/{OWN}/{name}/{rest}"
        world.seen(path)
        assert world.seen(f"{path}?uid={uid}")["uid"] == uid
    for (namespace, name), uid in world.others.items():
        world.refused(f"/pods/{namespace}/{name}/{rest}")
        if name not in world.own_pods.values():
            world.refused(f"/pods/{OWN}/{name}/{rest}", 404)
        world.refused(f"/pods/{OWN}/{next(iter(world.own_pods.values()))}/{rest}?uid={uid}", 400)
    world.refused(f"/pods/{OWN}/nothing-of/{rest}", 404)


def ask_why_not(world: World) -> None:
    for name in world.own_pods.values():
        world.refused(f"/pods/{OWN}/{name}/why-not?node=n1")
    for (namespace, name), uid in world.others.items():  # whether they exist or not
        for asked_name in (name, "nothing-of"):
            world.refused(f"/pods/{namespace}/{asked_name}/why-not?node=n1&uid={uid}")


def ask_workload(world: World) -> None:
    world.refused(f"/workloads/{OWN}/deploy/web/explain", 404)
    world.refused("/workloads/-/deploy/web/explain")
    for namespace in world.namespaces:
        world.refused(f"/workloads/{namespace}/deploy/web/explain")


def ask_state(world: World) -> None:
    for words in ("", "node=n1", "queue=all", "queue=active", "part=nodes", "part=pods", "at=9"):
        world.refused(f"/state?{words}")
    seen = []
    for position in range(1, world.client.get(world.path("/now"))["position"], 9):
        for uid, name in world.own_pods.items():
            for word in (f"{OWN}/{name}", uid):
                path = f"/state?at={position}&pod={quote(word, safe='')}"
                if world.client.ask(ROOT + world.path(path)).status == 200:
                    seen.append(world.seen(path))
                else:
                    world.refused(path, 400)
    assert seen
    for (namespace, name), uid in world.others.items():
        world.refused(f"/state?pod={namespace}/{name}")
        if name not in world.own_pods.values():
            world.refused(f"/state?pod={name}", 400)
        world.refused(f"/state?pod={uid}", 400)


def ask_queue(world: World) -> None:
    found = 0
    for position in range(5, world.client.get(world.path("/now"))["position"], 5):
        answer = world.seen(f"/queue?at={position}")
        assert _is_own(answer["pods"])
        assert sum(answer["counts"].values()) == len(answer["pods"])
        found += len(answer["pods"])
    assert found


def ask_anomalies(world: World) -> None:
    world.seen("/queue/anomalies")  # test_anomalies.py has some


def ask_diff(world: World) -> None:
    world.refused("/diff?from=1&to=9")


def ask_try(world: World) -> None:
    refused = world.client.ask(ROOT + world.path("/try"), "POST", b"{}")
    assert refused.status == 403


def ask_evictions(world: World) -> None:
    for words in ("", f"namespace={OWN}", "node=n0", "before=100000"):
        for preemption in world.seen(f"/evictions?{words}")["preemptions"]:
            pods = [preemption["namespace"], *(e["namespace"] for e in preemption["victims"])]
            assert OWN in pods
            assert set(pods) <= {OWN, None}
    for namespace in world.namespaces:
        world.refused(f"/evictions?namespace={namespace}")


def ask_refusals(world: World) -> None:
    failed = [each for each in world.own if each["outcome"] in ("unschedulable", "error")]
    answer = world.seen("/refusals")
    assert (answer["attempts"], answer["failed"]) == (len(world.own), len(failed))
    for namespace in world.namespaces:
        world.refused(f"/refusals?namespace={namespace}")


def ask_refusing_nodes(world: World) -> None:
    [named, *_] = [each for each in world.seen("/refusals")["plugins"] if each["plugin"]]
    path = f"/refusals/nodes?plugin={named['plugin']}"
    assert world.seen(path)["attempts"] == named["attempts"] > 0
    for namespace in world.namespaces:
        world.refused(f"{path}&namespace={namespace}")


def ask_node_verdicts(world: World) -> None:
    world.refused("/nodes/n0/verdicts")


def ask_flushed(world: World) -> None:
    assert _is_own(world.seen("/queue/flushed")["pods"])


def ask_position(world: World) -> None:
    world.seen("/position")  # numbers and times only


QUESTIONS = {
    "/streams": ask_streams,
    "/position": ask_position,
    "/now": ask_now,
    "/activity": ask_activity,
    "/decisions": ask_decisions,
    "/decisions/{position}": ask_decision,
    "/decisions/{position}/verdicts": ask_verdicts,
    "/decisions/{position}/columns": ask_columns,
    "/decisions/{position}/changes/{other}": ask_changes,
    "/pods": ask_pods,
    "/pods/groups": ask_pod_groups,
    "/pods/{namespace}/{name}/explain": ask_explain,
    "/pods/{namespace}/{name}/timeline": ask_timeline,
    "/pods/{namespace}/{name}/why-not": ask_why_not,
    "/workloads/{namespace}/{kind}/{name}/explain": ask_workload,
    "/state": ask_state,
    "/queue": ask_queue,
    "/queue/anomalies": ask_anomalies,
    "/diff": ask_diff,
    "/try": ask_try,
    "/evictions": ask_evictions,
    "/refusals": ask_refusals,
    "/refusals/nodes": ask_refusing_nodes,
    "/nodes/{node}/verdicts": ask_node_verdicts,
    "/queue/flushed": ask_flushed,
}


def test_every_operation_is_asked() -> None:
    assert [operation.path for operation in OPERATIONS] == list(QUESTIONS)


@pytest.mark.parametrize("path", QUESTIONS)
def test_what_is_seen_of_one_namespace(world: World, path: str) -> None:
    QUESTIONS[path](world)


def test_events_of_one_namespace(world: World) -> None:
    async def heard() -> None:
        path = f"{ROOT}{world.path('/events?after=0')}"
        async with Listener(world.app, path) as listener:
            found = [await listener.decision() for _ in world.own]
            await listener.event("head")
        assert found == world.own[::-1]

    asyncio.run(asyncio.wait_for(heard(), 60))


def test_pods_that_evict_others_and_are_evicted(desk: Desk) -> None:
    """The stories are whole except for the names of the others."""
    world = World(desk, SHARED)
    stories = [json.dumps(world.seen(f"/pods/{OWN}/{n}/explain")) for n in world.own_pods.values()]
    assert any(f"has to leave n0 for {HIDDEN}" in story for story in stories)
    assert any(f'"pod": "{HIDDEN}"' in story for story in stories)
