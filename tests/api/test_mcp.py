"""``eventsched mcp``: the tools by the SDK's client over standard input and output of a process,
compared with the answers of the HTTP API."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from mcp import Client as Assistant
from mcp import StdioServerParameters, stdio_client
from mcp_types import TextContent

from eventsched.api import parameters
from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.assistants.bounded_answers import MOST_CHARACTERS, answer_text
from eventsched.assistants.tools import TOOLS, Tool
from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Owner
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.builders import make_node, make_pod
from tests.databases import ROOT
from tests.postgres.archives import archived
from tests.postgres.histories import ODD, TIGHT, World

POD = """
apiVersion: v1
kind: Pod
metadata: {name: wanted, namespace: apps}
spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 100m}}}]}
"""


def asking(logs: str, errors: Path, ask: Callable[[Assistant], Coroutine[Any, Any, None]]) -> None:
    """Lets an assistant ask a process. Nothing may be written to its standard error."""
    asking_about(("--database", logs), errors, ask)
    assert errors.read_text() == ""


def asking_about(
    place: Sequence[str], errors: Path, ask: Callable[[Assistant], Coroutine[Any, Any, None]]
) -> None:
    """The same about a log that options name."""

    async def connected() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "eventsched", "mcp", *place], cwd=ROOT
        )
        with errors.open("w") as log:
            async with Assistant(stdio_client(server, errlog=log)) as assistant:
                await ask(assistant)

    asyncio.run(asyncio.wait_for(connected(), 120))


async def called(assistant: Assistant, tool: str, *, failed: bool = False, **values: Any) -> str:
    result = await assistant.call_tool(tool, values)
    [content] = result.content
    assert isinstance(content, TextContent)
    assert result.is_error == failed, content.text
    assert len(content.text) <= MOST_CHARACTERS
    return content.text


def test_no_tool_has_parameters_of_answers_in_words() -> None:
    offered = {name for tool in TOOLS for name in tool.schema["properties"]}
    every = [each for each in vars(parameters).values() if isinstance(each, parameters.Parameter)]
    about_words = {each.name for each in every if "answer in words" in each.text}
    assert {"width", "full", "wide", "bars", "colours"} <= about_words
    assert not offered & about_words


def test_each_tool_answers_what_the_api_answers(client: Client, logs: str, tmp_path: Path) -> None:
    """And cites the positions of the records."""
    [failed] = client.get(f"/decisions?stream={ODD}&outcome=unschedulable&limit=1")["decisions"]
    pod = {"namespace": failed["namespace"], "name": failed["pod"]}
    path = f"/pods/{pod['namespace']}/{pod['name']}"
    story = client.get(f"{path}/explain?stream={ODD}&uid={failed['uid']}")
    [placed] = client.get(f"/decisions?stream={TIGHT}&outcome=scheduled&limit=1")["decisions"]
    landed = {"namespace": placed["namespace"], "name": placed["pod"], "node": placed["node"]}
    place = f"/pods/{landed['namespace']}/{landed['name']}/why-not"

    head = client.get(f"/decisions?stream={ODD}")["head"]
    at = placed["position"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("decisions", {"stream": ODD, "limit": 3}),
        ("explain", {"stream": ODD, "uid": failed["uid"], **pod}),
        ("why_not", {"stream": TIGHT, **landed}),
        ("queue", {"stream": TIGHT, "at": at}),
        ("queue", {"stream": TIGHT}),
        ("try", {"stream": TIGHT, "manifests": POD, "at": at}),
    ]
    documents = []

    async def ask(assistant: Assistant) -> None:
        for tool, values in calls:
            documents.append(json.loads(await called(assistant, tool, **values)))

    asking(logs, tmp_path / "errors", ask)
    answers = [document["answer"] for document in documents]
    decisions, explained, remedies, queue, waiting, tried = answers
    now = client.get(f"/now?stream={TIGHT}&nodes=false")
    assert answers[:4] == [
        client.get(f"/decisions?stream={ODD}&limit=3"),
        story,
        client.get(f"{place}?stream={TIGHT}&node={landed['node']}"),
        client.get(f"/queue?stream={TIGHT}&at={at}&limit=20"),
    ]
    assert (waiting["reasons"], waiting["states"]) == (now["reasons"], now["states"])
    assert waiting["counts"] == client.get(f"/queue?stream={TIGHT}")["counts"]
    assert tried == client.post(f"/try?stream={TIGHT}&at={at}", POD.encode())
    assert [(each["stream"], each["before"], each["positions"]) for each in documents] == [
        (ODD, head, [each["position"] for each in decisions["decisions"]]),
        (ODD, head, documents[1]["positions"]),
        (TIGHT, now["position"], [remedies["seq"]]),
        (TIGHT, at, last_attempts(client, queue)),
        (TIGHT, now["position"], last_attempts(client, waiting)),
        (TIGHT, tried["position"], []),
    ]
    assert documents[3]["positions"]
    cited = documents[1]["positions"]
    assert cited == sorted(set(cited))
    assert {each["seq"] for each in (*explained["moves"], *explained["attempts"])} <= set(cited)
    assert failed["position"] in cited
    assert queue["position"] == at
    assert not any("left_out" in document for document in documents)


def last_attempts(client: Client, queue: dict[str, Any]) -> list[int]:
    """The positions of the last attempts of the pods in an answer about the queue."""
    names = [f"{pod['namespace']}/{pod['name']}" for pod in queue["pods"]]
    return last_attempts_of(client, names, queue["position"])


def last_attempts_of(
    client: Client, names: list[str], position: int, stream: str = TIGHT
) -> list[int]:
    """The last attempts before a position of pods of a stream."""
    found = []
    for name in names:
        attempts = client.get(f"/pods/{name}/explain?stream={stream}")["attempts"]
        found += [each["seq"] for each in attempts if each["seq"] < position][-1:]
    return sorted(found)


def test_a_trial_cites_the_last_attempts_of_the_pods_that_it_evicts(
    client: Client, desk: Desk
) -> None:
    """No more than what the answer lists."""
    spec = "{priority: 1000000000, containers: [{name: a, resources: {requests: {cpu: 2}}}]}"
    manifest = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: important}}\nspec: {spec}\n"
    tool = next(tool for tool in TOOLS if tool.name == "try")
    text = answer_text(desk, tool, {"stream": TIGHT, "at": 400, "manifests": manifest, "count": 3})
    found = json.loads(text)
    victims = sorted({name for pod in found["answer"]["pods"] for name in pod["evicts"]})
    assert victims
    assert found["positions"] == last_attempts_of(client, victims, found["before"])
    assert len(found["positions"]) == len(victims)


def test_of_a_workload_the_last_attempts_of_the_pods_that_it_names(database: str) -> None:
    world = World()
    world.see(records.NodeAdded(node=make_node("n1", cpu=1000)), 1)
    for number in range(3):
        pod = make_pod(f"night-{number}", cpu=600, owner=Owner(kind="Job", name="night"))
        world.see(records.PodAdded(pod=pod), 2 + number)
    for uid, node in world.attempt().items():
        world.see(records.BindSucceeded(uid=uid, node=node), 10)
    world.write(database, "shop")
    tool = next(tool for tool in TOOLS if tool.name == "explain")
    values = {"stream": "shop", "kind": "job", "namespace": "default", "name": "night"}
    with closing(DatabaseStreams(database)) as streams:
        desk = Desk(streams, FoldedStates())
        found = json.loads(answer_text(desk, tool, values))
        client = Client(application(desk, OpenGate(local_only=True)))
        [group] = found["answer"]["groups"]
        assert len(group["examples"]) == 2
        attempts = last_attempts_of(client, group["examples"], found["before"], "shop")
    assert found["positions"] == attempts
    assert len(attempts) == 2


@pytest.mark.parametrize("form", ["--file", "--from-archive"])
def test_the_log_of_a_file_or_an_archive(
    form: str, client: Client, logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is loaded, and the answers are those of the database that it is of."""
    place = tmp_path / "log"
    if form == "--file":
        assert main(["log", "export", str(place), "--stream", ODD, "--database", logs]) == 0
    else:
        archived(logs, ODD, place)
    [failed] = client.get(f"/decisions?stream={ODD}&outcome=unschedulable&limit=1")["decisions"]
    pod = {"namespace": failed["namespace"], "name": failed["pod"], "uid": failed["uid"]}
    at, answers = failed["position"], []

    async def ask(assistant: Assistant) -> None:
        calls = (("decisions", {"limit": 3}), ("explain", pod), ("queue", {"at": at}))
        for tool, values in calls:
            answers.append(json.loads(await called(assistant, tool, **values))["answer"])

    asking_about((form, str(place)), tmp_path / "errors", ask)
    path = f"/pods/{pod['namespace']}/{pod['name']}/explain?stream={ODD}&uid={pod['uid']}"
    assert answers == [
        client.get(f"/decisions?stream={ODD}&limit=3"),
        client.get(path),
        client.get(f"/queue?stream={ODD}&at={at}&limit=20"),
    ]
    head = client.get(f"/decisions?stream={ODD}")["head"]
    assert (tmp_path / "errors").read_text().endswith(f"stream {ODD}: {head} records loaded\n")


def test_what_is_wrong_is_said_in_one_line(logs: str, tmp_path: Path) -> None:
    async def ask(assistant: Assistant) -> None:
        async def refused(tool: str, **values: Any) -> str:
            return await called(assistant, tool, failed=True, **values)

        assert await refused("explain", namespace="apps", name="nobody", stream=ODD) == (
            "POD: there is no pod apps/nobody in stream odd; there are, among others: default/a, "
            "default/b, default/c"
        )
        assert (await refused("decisions")).startswith("stream: the log holds 2 streams; name one")
        assert await refused("decisions", limit=51) == (
            "limit: 51 is out of range; give one from 1 to 50"
        )
        assert await refused("decisions", limit=["a"]) == (
            "limit: is of type list; give a text or a number"
        )
        assert await refused("decisions", nod="n1") == (
            "nod: is no parameter of this path; did you mean node?"
        )
        assert (
            await refused("try", stream=TIGHT)
            == "manifests: is missing; give the pods to try, as YAML"
        )
        assert (await refused("try", stream=TIGHT, manifests="{")).startswith("body: ")
        assert await refused(
            "explain", namespace="a", name="b", kind="job", attempt=1, stream=ODD
        ) == ("attempt: is for a pod, not for a job; leave it out, or take kind pod")
        assert await refused("delete") == (
            "there is no tool 'delete'; there are: queue, decisions, explain, why_not, try"
        )

    asking(logs, tmp_path / "errors", ask)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_the_input_is_open(logs: str, number: int) -> None:
    words = [sys.executable, "-m", "eventsched", "mcp", "--database", logs]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == 1
            process.send_signal(number)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


def test_no_database(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp"]) == 2
    assert "no database is named" in capsys.readouterr().err


# --- bounded answers --------------------------------------------------------------------------


@pytest.fixture
def desk(logs: str) -> Any:
    streams = DatabaseStreams(logs)
    yield Desk(streams, FoldedStates())
    streams.close()


def tool_with(make: Callable[[Any], Any], *names: str) -> Tool:
    decisions = next(tool for tool in TOOLS if tool.name == "decisions")
    parameters = tuple(each for each in decisions.parameters if each.name in ("stream", *names))
    return decisions._replace(make=make, parameters=parameters, positions=lambda _, __: [])


def test_a_page_that_is_too_long_is_made_shorter(desk: Desk) -> None:
    """So its ``next`` is right."""
    asked = []

    def page(request: Any) -> Any:
        limit = request.values["limit"]
        asked.append(limit)
        return {"pods": ["x" * 4_000] * limit, "next": limit}

    text = answer_text(desk, tool_with(page, "limit"), {"stream": ODD, "limit": 50})
    assert asked == [50, 25, 12, 6]
    assert json.loads(text)["answer"]["next"] == 6


def test_lists_of_a_long_answer_are_shortened(desk: Desk) -> None:
    """The newest records are kept, the first of what is not a record, and a part of each text."""
    records = [{"seq": number, "text": "x" * 40} for number in range(5_000)]
    answer: dict[str, Any] = {
        "events": records,
        "nodes": [f"n{number}" for number in range(2_000)],
        "text": "y" * 2_000,
    }
    document = json.loads(answer_text(desk, tool_with(lambda _: answer), {"stream": ODD}))
    assert document["left_out"] == {"events": 4_900, "nodes": 1_900, "text": 1_000}
    assert document["answer"] == {
        "events": records[-100:], "nodes": answer["nodes"][:100], "text": "y" * 1_000 + "…",
    }  # fmt: skip


def test_an_answer_that_stays_too_long_is_refused(desk: Desk) -> None:
    answer = {f"name{number}": "x" * 100 for number in range(1_000)}
    with pytest.raises(InputError, match="decisions: the answer has more than 40000 characters"):
        answer_text(desk, tool_with(lambda _: answer), {"stream": ODD})
