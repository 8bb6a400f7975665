"""Answers in words: what the commands print that read the database."""

import json

import pytest

from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import FORWARDED
from eventsched.api.gates.static_tokens import StaticTokens
from eventsched.cli.main import main
from eventsched.questions import waiting
from eventsched.questions.states import FoldedStates
from tests.api.asking import Client
from tests.api.test_gates import TOKEN, NoStreams, written
from tests.postgres.histories import TIGHT

NARROW = ("--stream", TIGHT)
PODS = """
apiVersion: v1
kind: Pod
metadata: {name: wanted}
spec: {containers: [{name: a, image: b, resources: {requests: {cpu: 999}}}]}
"""


def words_of(client: Client, path: str) -> str:
    answered = client.ask(ROOT + path, accept="text/plain, application/json;q=0.5")
    assert answered.status == 200, answered.body
    assert answered.headers["content-type"] == "text/plain; charset=utf-8"
    return answered.body.decode()


def printed(capsys: pytest.CaptureFixture[str], logs: str, *words: str) -> str:
    capsys.readouterr()
    main([*words, "--database", logs])
    return capsys.readouterr().out


def test_words_are_what_the_commands_print(
    client: Client, logs: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a width, and with everything."""
    [failed] = client.get(f"/decisions?stream={TIGHT}&outcome=unschedulable&limit=1")["decisions"]
    name, attempt = f"{failed['namespace']}/{failed['pod']}", str(failed["attempt"])
    at = f"stream={TIGHT}&attempt={attempt}"
    monkeypatch.setenv("COLUMNS", "70")
    story = words_of(client, f"/pods/{name}/explain?{at}&width=70")
    of_one = ("explain", name, *NARROW, "--attempt", attempt)
    assert story == printed(capsys, logs, *of_one)
    full = words_of(client, f"/pods/{name}/explain?{at}&width=70&full=true&node=node-00003")
    assert full == printed(capsys, logs, *of_one, "--full", "--node", "node-00003") != story
    place = failed["position"]
    queue = words_of(client, f"/queue?stream={TIGHT}&at={place}&full=true&width=70")
    assert queue == printed(capsys, logs, "queue", *NARROW, "--at", str(place), "--full")
    assert "#" in queue
    wide = words_of(client, f"/queue?stream={TIGHT}&at={place}&full=true&wide=true&width=70")
    wider = ("queue", *NARROW, "--at", str(place), "--full", "-o", "wide")
    assert wide == printed(capsys, logs, *wider)
    assert "ATTEMPTS" in wide
    assert "ATTEMPTS" not in queue


def test_a_trial_in_words(
    client: Client,
    logs: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    file = tmp_path_factory.mktemp("try") / "pod.yaml"
    file.write_text(PODS)
    found = client.post(f"/try?stream={TIGHT}&text=true", PODS.encode())
    assert found["text"] + "\n" == printed(capsys, logs, "try", "-f", str(file), *NARROW)
    assert "text" not in client.post(f"/try?stream={TIGHT}", PODS.encode())


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json, text/plain, */*", "application/json"),
        ("text/html, */*;q=0.1", "application/json"),
        ("text/plain;q=0", "application/json"),
        ("text/html, Text/Plain;q=0.8", "text/plain; charset=utf-8"),
    ],
)
def test_words_come_if_they_are_asked_for_first(client: Client, accept: str, kind: str) -> None:
    answered = client.ask(f"{ROOT}/queue?stream={TIGHT}", accept=accept)
    assert answered.headers["content-type"] == kind
    assert "Accept" in answered.headers["vary"]


def test_a_long_queue_is_not_shown_in_full(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    [failed] = client.get(f"/decisions?stream={TIGHT}&outcome=unschedulable&limit=1")["decisions"]
    path = f"{ROOT}/queue?stream={TIGHT}&at={failed['position']}"
    monkeypatch.setattr(waiting, "MOST_IN_WORDS", 0)
    refused = client.ask(f"{path}&full=true", accept="text/plain")
    assert (refused.status, json.loads(refused.body)["where"]) == (400, "full")
    assert client.ask(path, accept="text/plain").status == 200


def test_a_token_past_the_proxy(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The API server's proxy removes Authorization; if that is there, it counts alone."""
    path = written(tmp_path_factory.mktemp("gate") / "tokens", f"- {{name: a, token: {TOKEN}}}")
    client = Client(application(Desk(NoStreams(), FoldedStates()), StaticTokens(path)))

    def status(forwarded: str, **others: str) -> int:
        headers = {FORWARDED.replace("-", "_"): f"Bearer {forwarded}", **others}
        return client.ask(f"{ROOT}/streams", "GET", b"", **headers).status

    assert status(TOKEN) == 200
    assert status("another") == 401
    assert status(TOKEN, authorization="Bearer another") == 401
