"""What would have been, over HTTP: the same as the command's, in a process that ends with its
client."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from starlette.types import Message

from eventsched.api.application import ROOT, Application, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.api.what_if import what_if_runs
from eventsched.api.what_if.what_if_runs import MOST_AT_A_TIME, WhatIfRuns
from eventsched.api.what_if.worker_messages import WhatIfJob
from eventsched.cli.main import main
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.postgres.reader import streams
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.questions.what_ifs.configurations import MOST_BYTES
from eventsched.questions.what_ifs.what_if_answer import WhatIfQuestion
from tests.api.asking import Client, scope_of
from tests.api.test_visibility import OneNamespace
from tests.databases import Server
from tests.postgres.histories import TIGHT, odd_and_tight
from tests.unit.runtime.what_if.histories import MOST_ALLOCATED

PATH = f"/what-if?stream={TIGHT}&until=400"
STUCK = "import time; time.sleep(600)\n"
"""A plugin file with which a process never comes to an answer."""


@pytest.fixture(scope="module")
def log(one_server: Server) -> Iterator[str]:
    """A database that results may be written to."""
    with one_server.fresh(odd_and_tight) as url:
        yield url


def test_the_answer_is_that_of_the_command(
    log: str, client: Client, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    answer = client.post(f"{PATH}&limit=3", MOST_ALLOCATED.encode())
    file = tmp_path / "config.yaml"
    file.write_text(MOST_ALLOCATED)
    words = ["replay", "--what-if", str(file), "--database", log, "--stream", TIGHT]
    assert main([*words, "--until", "400", "-o", "json"]) == 0
    command = json.loads(capsys.readouterr().out)
    assert answer["differing"] == len(command["differences"]) > 3
    assert answer["differences"] == command["differences"][:3]
    same = ("stream", "loop", "first", "end", "moved", "before", "after")
    assert {name: answer[name] for name in same} == {name: command[name] for name in same}
    assert (answer["warnings"], answer["stored"]) == ([], None)
    assert answer["causes"] == command["causes"]
    assert sum(answer["causes"].values()) == answer["differing"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("other", ""),
     ("defualt-scheduler", "; did you mean default-scheduler instead of defualt-scheduler?")],
)  # fmt: skip
def test_a_profile_that_is_missing_is_warned_of(client: Client, typed: str, meant: str) -> None:
    """Its pods are not scheduled, which would look like an improvement."""
    misspelt = MOST_ALLOCATED.replace("- pluginConfig", f"- schedulerName: {typed}\n  pluginConfig")
    answer = client.post(PATH, misspelt.encode())
    pods = answer["before"]["placed"] + answer["before"]["pending"]
    assert answer["warnings"] == [
        f"no profile is named default-scheduler: {pods} pods of the range would not be scheduled"
        f"{meant}"
    ]
    assert answer["after"]["placed"] == 0
    waiting = [sample["waiting"] for sample in answer["after"]["samples"]]
    assert waiting[-1] == answer["after"]["pending"] == pods
    assert max(each["waiting"] for each in answer["before"]["samples"]) < pods
    assert {each["reason"]["text"] for each in answer["differences"]} == {
        "no profile is named default-scheduler"
    }


def test_the_rules_of_the_log_change_nothing(client: Client) -> None:
    answer = client.post(PATH, b"")
    assert (answer["rules"], answer["differing"]) == ("rules of the log", 0)
    assert answer["before"] == answer["after"]
    full = client.get(f"/state?stream={TIGHT}&part=nodes&limit=1")["nodes"][0]["name"]
    less = client.post(f"{PATH}&nodes=-{full}", b"")
    assert full in {each["before"]["node"] for each in less["differences"]}
    assert full not in {each["after"]["node"] for each in less["differences"]}


@pytest.mark.parametrize("sort", ["name", "priority", "waited", "node"])
def test_the_order_comes_before_the_cut(client: Client, sort: str) -> None:
    body = MOST_ALLOCATED.encode()
    everything = client.post(f"{PATH}&limit=1000&sort={sort}", body)["differences"]
    assert client.post(f"{PATH}&limit=2&sort={sort}", body)["differences"] == everything[:2]
    arrived = client.post(f"{PATH}&limit=1000", body)["differences"]
    keys = {
        "name": lambda pod: pod["name"], "priority": lambda pod: -pod["priority"],
        "waited": lambda pod: -abs(pod["after"]["waited"] - pod["before"]["waited"]),
        "node": lambda pod: pod["after"]["node"],
    }  # fmt: skip
    if sort == "waited":
        arrived = [pod for pod in arrived if pod["before"]["node"] and pod["after"]["node"]]
        everything = [pod for pod in everything if pod in arrived]
    assert everything == sorted(arrived, key=keys[sort])


@pytest.mark.parametrize(("query", "body", "problem"), [
    ("nodes=all", b"", "nodes: 'all' does not say which nodes"),
    ("nodes=%2B5001xnode-0", b"", "nodes: adds 5,001 nodes"),
    ("from=70&until=60", b"", "until: is position 60, not after the beginning (70)"),
    ("until=3", b"", "the range: holds no decision from position 0 to 3"),
    ("from=99999999", b"", "from: is position 99999999, not before the end of the log ("),
    ("store=what-if-a", b"", "store: names a stream, and this server stores no results"),
    ("", b"kind: a", "configuration: kind: 'a' is not supported"),
    ("", b"a: &b 1\nc: *b", "configuration: has the alias *b"),
    ("", b"#" * (MOST_BYTES + 1), "configuration: has 65,537 bytes"),
])  # fmt: skip
def test_what_is_wrong_is_named(client: Client, query: str, body: bytes, problem: str) -> None:
    answered = client.ask(f"{ROOT}/what-if?stream={TIGHT}&{query}", "POST", body)
    assert answered.status == 400
    words = f"{answered.json['where']}: {answered.json['detail']}; {answered.json['remedy']}"
    assert words.startswith(problem), words
    assert "--from" not in words


def test_a_configuration_is_checked(client: Client) -> None:
    good = client.post("/configuration/check", MOST_ALLOCATED.encode())
    assert good["problems"] == []
    assert "NodeResourcesFit=1" in good["profiles"]["default-scheduler"]["score"]
    bad = client.post("/configuration/check", b"kind: KubeSchedulerConfiguration\nprofile: 1\n")
    assert bad["problems"][0]["where"].startswith("configuration: ")
    assert bad["profiles"] == {}
    there = client.get(f"/configuration?stream={TIGHT}")
    assert (there["begin"], there["first"], there["configuration"]) == (0, 0, "")
    assert "NodeResourcesFit" in there["plugins"]
    default = there["profiles"]["default-scheduler"]
    assert "NodeAffinity=2" in default["score"]
    assert "NodeUnschedulable" in default["filter"]
    assert {*there["plugins"], "Coscheduling"} <= set(there["known_plugins"])
    assert (there["answers_what_ifs"], there["stores_results"]) == (True, False)


def test_a_result_is_a_stream(log: str) -> None:
    with opened_streams(log, None) as there:
        client = Client(
            application(Desk(there, FoldedStates(), store_in=log), OpenGate(local_only=True))
        )
        before = streams(log)
        assert client.get(f"/configuration?stream={TIGHT}")["stores_results"]
        refused = client.ask(f"{ROOT}{PATH}&store=mine", "POST", b"")
        assert (refused.status, refused.json["remedy"]) == (400, "begin the name with what-if-")
        answer = client.post(f"{PATH}&store=what-if-most", MOST_ALLOCATED.encode())
        assert answer["stored"]["stream"] == "what-if-most"
        assert streams(log) == [*before, "what-if-most"]
        moved = answer["differences"][0]
        pods = client.get(f"/pods?stream=what-if-most&name={moved['name']}&ever=true")["pods"]
        assert [each["node"] for each in pods] == [moved["after"]["node"] or None]
        again = client.ask(f"{ROOT}{PATH}&store=what-if-most", "POST", b"")
        assert again.json["detail"] == "is in the database already"


def test_events_of_a_run(client: Client) -> None:
    answered = client.ask(f"{ROOT}{PATH}", "POST", b"", accept="text/event-stream")
    assert answered.headers["content-type"].startswith("text/event-stream")
    kinds = [block.partition("\n")[0] for block in answered.body.decode().split("\n\n")]
    assert {*kinds} == {"event: progress", "event: result", ""}
    wrong = client.ask(f"{ROOT}{PATH}&from=999", "POST", b"", accept="text/event-stream")
    assert b'event: problem\ndata: {"title":"Bad Request"' in wrong.body


class Visit:
    """A client that asks for what does not come, until it leaves."""

    def __init__(self, app: Application, accept: str) -> None:
        self._app, self._left = app, asyncio.Event()
        headers = {"host": "127.0.0.1", "accept": accept}
        self._scope = scope_of(f"{ROOT}{PATH}", "POST", headers)
        self._has_asked = False
        self.sent: list[Message] = []

    async def run(self) -> None:
        async def send(message: Message) -> None:
            self.sent.append(message)

        await self._app(self._scope, self._receive, send)

    async def _receive(self) -> Message:
        if not self._has_asked:
            self._has_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        self._left.set()


def _workers() -> set[str]:
    """The processes of what-ifs that this one has started."""
    own = "".join(_read(each) for each in Path("/proc/self/task").glob("*/children"))
    return {pid for pid in own.split() if "what_if_worker" in _read(Path(f"/proc/{pid}/cmdline"))}


def _read(path: Path) -> str:
    """A file of a thread or a process, which may have ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


async def _until(number: int) -> None:
    """Waits for a number of processes."""
    async with asyncio.timeout(60):
        while len(_workers()) != number:
            await asyncio.sleep(0.2)


@pytest.fixture
def stuck(log: str, tmp_path: Path) -> Iterator[Application]:
    """An API whose what-ifs take forever."""
    plugin = tmp_path / "stuck.py"
    plugin.write_text(STUCK)
    with opened_streams(log, None) as there:
        yield application(Desk(there, FoldedStates(), (plugin,)), OpenGate(local_only=True))


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_a_process_ends_with_its_client(stuck: Application, accept: str) -> None:
    async def visits() -> None:
        some = [Visit(stuck, accept) for _ in range(MOST_AT_A_TIME)]
        tasks = [asyncio.ensure_future(each.run()) for each in some]
        await _until(MOST_AT_A_TIME)
        client = Client(stuck)
        busy = await client.ask_async(f"{ROOT}{PATH}", "POST")
        assert (busy.status, busy.headers["retry-after"]) == (503, "2")
        assert (await client.ask_async(f"{ROOT}/now?stream={TIGHT}")).status == 200
        for each in some:
            each.leave()
        await asyncio.gather(*tasks)
        await _until(0)
        async with asyncio.timeout(60):  # the places are free again
            while (await client.ask_async(f"{ROOT}{PATH}&store=a", "POST")).status == 503:
                await asyncio.sleep(0.05)
        # The event loop must not end before it has seen the end of both processes.
        if ending := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(ending, timeout=60)

    asyncio.run(visits())


def test_events_of_a_run_end_with_the_server(stuck: Application) -> None:
    async def stopped() -> None:
        client = Client(stuck)
        path, accept = f"{ROOT}{PATH}", "text/event-stream"
        run = asyncio.ensure_future(client.ask_async(path, "POST", accept=accept))
        await _until(1)
        stuck.end()
        answer = await run
        assert (answer.status, b"event: result" in answer.body) == (200, False)
        await _until(0)

    asyncio.run(asyncio.wait_for(stopped(), 60))


def test_what_takes_too_long_is_given_up(log: str, tmp_path: Path) -> None:
    plugin = tmp_path / "stuck.py"
    plugin.write_text(STUCK)
    question = WhatIfQuestion(stream=TIGHT)
    job = WhatIfJob(question=question, address=log, plugins=[str(plugin)], store_in="", seconds=0)
    with pytest.raises(InputError, match="the range: takes more than 1 seconds to decide again"):
        asyncio.run(WhatIfRuns(seconds=1).run(job, lambda done, total: None))
    assert _workers() == set()
    lost = msgspec.structs.replace(job, address="postgresql://a@127.0.0.1:1/b")
    with pytest.raises(UnavailableError):
        asyncio.run(WhatIfRuns().run(lost, lambda done, total: None))


def test_a_process_that_is_not_ended_ends_itself(
    log: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A little after the server should have ended it; here 59 seconds before."""
    monkeypatch.setattr(what_if_runs, "_GRACE", -59)
    plugin = tmp_path / "stuck.py"
    plugin.write_text(STUCK)
    question = WhatIfQuestion(stream=TIGHT)
    job = WhatIfJob(question=question, address=log, plugins=[str(plugin)], store_in="", seconds=0)
    with pytest.raises(RuntimeError, match=f"without an answer .-{signal.SIGALRM.value}"):
        asyncio.run(WhatIfRuns(seconds=60).run(job, lambda done, total: None))


def test_who_does_not_see_all_pods_learns_nothing(log: str) -> None:
    with opened_streams(log, None) as there:
        client = Client(application(Desk(there, FoldedStates()), OneNamespace()))
        answered = client.ask(f"{ROOT}{PATH}", "POST", b"")
        assert (answered.status, answered.json["where"]) == (403, "what-if")
        assert client.problem(f"/configuration?stream={TIGHT}", 403).startswith("configuration; ")
        assert client.post("/configuration/check", MOST_ALLOCATED.encode())["problems"] == []


def test_beside_a_scheduler_there_are_none(log: str) -> None:
    with opened_streams(log, None) as there:
        desk = Desk(there, FoldedStates(), what_ifs=False)
        client = Client(application(desk, OpenGate(local_only=True)))
        answered = client.ask(f"{ROOT}{PATH}", "POST", b"")
        assert not client.get(f"/configuration?stream={TIGHT}")["answers_what_ifs"]
    assert (answered.status, answered.json["where"]) == (400, "what-if")


def test_a_page_of_another_site_starts_none(client: Client) -> None:
    answered = client.ask(f"{ROOT}{PATH}", "POST", b"", sec_fetch_site="cross-site")
    assert answered.status == 403
    assert _workers() == set()
