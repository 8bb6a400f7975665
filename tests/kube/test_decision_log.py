"""``kubectl eventsched log``: what it asks, what it prints, and how it follows."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from eventsched.cluster.kube.http.api import HttpAnswer
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.kubectl_plugin.decision_log import print_log
from eventsched.kubectl_plugin.plugin_commands import parser
from eventsched.kubectl_plugin.scheduler_access import SchedulerAccess
from eventsched.kubectl_plugin.service_proxy import ApiService

DOWN = UnavailableError("Service a/b", "does not answer", "try again")
ALL = dict.fromkeys(("node", "owner", "reason", "plugin", "outcome"))
SHOP = {"namespace": "shop", "pod": None, **ALL}


def decision(position: int, **fields: Any) -> dict[str, Any]:
    made = {
        "position": position, "at": "2026-11-21T15:17:19.240922+00:00", "attempt": 2, "uid": "u",
        "outcome": "scheduled", "namespace": "shop", "pod": "web", "profile": "default-scheduler",
        "node": "node-1", "score": 87, "runner_up": "node-2", "feasible": 3, "evaluated": 5,
        "of_a_later_version": True,
    }  # fmt: skip
    return made | fields


REFUSED = {"outcome": "unschedulable", "node": None, "score": None, "runner_up": None,
           "plugin": "NodePorts", "reason": "no \x1b[2Jfree\nports"}  # fmt: skip


class ScriptedDecisions:
    """Answers in order: pages of decisions, or errors."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[dict[str, str | None]] = []

    async def ask(self, question: str, params: Mapping[str, str | None], accept: str) -> bytes:
        assert (question, accept) == ("/decisions", "application/json")
        self.asked.append(dict(params))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer).encode()


def page(head: int, *decisions: dict[str, Any], following: int | None = None) -> dict[str, Any]:
    return {"stream": "s", "head": head, "decisions": list(decisions), "next": following}


def printed(api: ScriptedDecisions, *words: str) -> tuple[int, list[float]]:
    """The exit code, and how long it waited each time."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    options = parser().parse_args(["log", *words])
    return asyncio.run(print_log(api, options, "shop", sleep)), waited


def test_the_newest_come_last(capsys: pytest.CaptureFixture[str]) -> None:
    api = ScriptedDecisions(page(30, decision(20), decision(9, **REFUSED)))
    assert printed(api) == (0, [])
    assert api.asked == [{**SHOP, "from": None, "limit": "20"}]
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["POSITION", "TIME", "OUTCOME", "ATTEMPT", "POD", "WHAT"],
        ["9", "2026-11-21", "15:17:19.240", "unschedulable", "2", "shop/web",
         "NodePorts:", "no", "�[2Jfree", "ports"],
        ["20", "2026-11-21", "15:17:19.240", "scheduled", "2", "shop/web",
         "node-1", "(score", "87)"],
    ]  # fmt: skip


def test_more_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(ScriptedDecisions(page(30, decision(20))), "-o", "wide")[0] == 0
    header, row = map(str.split, capsys.readouterr().out.splitlines())
    assert header[5:] == ["PROFILE", "FEASIBLE", "RUNNER-UP", "WHAT"]
    assert row[6:] == ["default-scheduler", "3/5", "node-2", "node-1", "(score", "87)"]


def test_filters_and_short_pages(capsys: pytest.CaptureFixture[str]) -> None:
    """A page that looked at as much as it may is followed by another one."""
    api = ScriptedDecisions(page(99, decision(90), following=80), page(99, decision(70)))
    words = ("other/db", "--limit", "3", "--since", "10m", "--plugin", "NodePorts", "-o", "json")
    assert printed(api, *words)[0] == 0
    wanted = {**SHOP, "namespace": "other", "pod": "db", "plugin": "NodePorts", "from": "10m"}
    assert api.asked == [
        {**wanted, "limit": "3"}, {**wanted, "limit": "2", "before": "80"}
    ]  # fmt: skip
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [decision(70), decision(90)]


def test_it_follows_through_an_outage(capsys: pytest.CaptureFixture[str]) -> None:
    end = InputError("Service a/b", "may not list pods", "ask for the right")
    api = ScriptedDecisions(
        page(30), page(41, decision(40), following=41), DOWN, DOWN, page(50), page(51), end
    )
    options = ("-A", "-f", "--limit", "0", "-o", "json")
    with pytest.raises(InputError, match="may not list pods"):
        printed(api, *options)
    assert [each.get("after") for each in api.asked] == [None, "30", "41", "41", "41", "50", "51"]
    assert api.asked[0] == {**ALL, "from": None, "limit": "1"}
    assert api.asked[1] == {**ALL, "after": "30", "wait": "20s"}
    captured = capsys.readouterr()
    assert [json.loads(line)["position"] for line in captured.out.splitlines()] == [40]
    message = "Service a/b: does not answer; try again; asked again every 2 s\n"
    assert captured.err == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-A", "-n", "shop"), "-A: excludes -n; leave one of them out"),
        (("-A", "web"), "-A: excludes POD"),
        (("deploy/web",), "POD: deploy/web is a workload; name a pod, or use --owner NAME"),
        (("--limit", "1001"), "--limit: '1001' is out of range; write 0 to 1000"),
        (("--limit", "-1"), "--limit: '-1' is out of range"),
    ],
)
def test_bad_input_asks_nothing(words: tuple[str, ...], message: str) -> None:
    api = ScriptedDecisions()
    with pytest.raises(InputError, match=message):
        printed(api, *words)
    assert api.asked == []


def test_the_first_answer_has_to_come() -> None:
    with pytest.raises(UnavailableError):
        printed(ScriptedDecisions(DOWN), "-f")


class TokenServer:
    """An API server that makes tokens; ``sent`` are those that came with questions."""

    def __init__(self) -> None:
        self.made, self.sent = 0, list[str]()

    async def call(self, method: str, path: str, **options: Any) -> HttpAnswer:
        if method == "POST":
            self.made += 1
            return HttpAnswer(201, json.dumps({"status": {"token": f"t{self.made}"}}).encode())
        assert options["params"] == {"stream": "s", "a": "1"}
        self.sent.append(options["headers"]["X-Eventsched-Authorization"])
        return HttpAnswer(200, b"{}")


def test_a_token_of_an_account_is_made_again_before_it_ends() -> None:
    server, times = TokenServer(), iter((0.0, 400.0, 500.0, 900.0))
    options = parser().parse_args(["log", "--service-account", "reader", "--stream", "s"])
    service = ApiService("kube-system", "eventsched")
    access = SchedulerAccess(server, service, "shop", options, times.__next__)  # type: ignore[arg-type]
    for _ in range(4):
        assert asyncio.run(access.ask("/queue", {"a": "1", "b": None}, "text/plain")) == b"{}"
    assert server.sent == ["Bearer t1", "Bearer t1", "Bearer t2", "Bearer t2"]
