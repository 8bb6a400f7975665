"""Differences and trials: what the commands print."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.main import main
from eventsched.history.past_state.state_document import state_document
from eventsched.history.why_not.hypothesis import Hypothesis
from eventsched.history.why_not.search import remedies
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.questions.what_ifs import why_not_search
from eventsched.runtime.queries.state_at import FoldedState, state_at
from tests.api.asking import Client
from tests.postgres.histories import ODD, TIGHT

PODS = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: front, namespace: default}}
spec:
  replicas: {replicas}
  template:
    metadata: {{labels: {{app: front}}}}
    spec:
      containers: [{{name: main, resources: {{requests: {{cpu: {cpu}}}}}}}]
"""


def printed(capsys: pytest.CaptureFixture[str], code: int, *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "-o", "json"]) == code, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("stream", "first", "last"), [(TIGHT, "300", "700"), (ODD, "5", "40")])
def test_differences(
    client: Client, logs: str, stream: str, first: str, last: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Page by page, as the command prints them; between a position and itself there is none."""
    path = f"/diff?stream={stream}&from={first}&to={last}&limit=9"
    found = [each for page in client.pages(path, "differences", "offset") for each in page]
    words = ("diff", "--from", first, "--to", last, "--stream", stream, "--database", logs)
    assert found == printed(capsys, 0, *words)["differences"] != []
    page = client.get(path)
    assert (page["from"], page["to"]) == (int(first), int(last))
    same = client.get(f"/diff?stream={stream}&from={last}&to={last}")
    assert same["differences"] == []
    to_the_end = client.get(f"/diff?stream={stream}&from={last}")
    assert to_the_end["to"] == client.get(f"/state?stream={stream}")["position"]


def test_differences_that_cannot_be_asked(client: Client) -> None:
    assert client.problem(f"/diff?stream={TIGHT}&from=700&to=300", 400) == (
        "from; is position 700, after to (300); exchange them"
    )
    assert client.problem(f"/diff?stream={TIGHT}", 400).startswith("from; is missing")


@pytest.mark.parametrize(("cpu", "code"), [("100m", 0), ("900", 1)])
def test_a_trial(
    client: Client, logs: str, cpu: str, code: int, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Also one in which no node is large enough."""
    path = tmp_path / "pods.yaml"
    path.write_text(PODS.format(replicas=3, cpu=cpu))
    found = client.post(f"/try?stream={TIGHT}&at=700", path.read_bytes())
    words = ("try", "-f", str(path), "--at", "700", "--stream", TIGHT, "--database", logs)
    whole = printed(capsys, code, *words)
    assert found.pop("warnings") == []
    assert found == whole
    assert found["placed"] == (0 if code else 3)
    five = client.post(f"/try?stream={TIGHT}&at=700&count=5", path.read_bytes())
    assert len(five["pods"]) == 5


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "body; is empty; check that the file was written completely"),
        ("kind: [", "body"),
        (
            PODS.format(replicas=10_001, cpu=1),
            "body: Deployment default/front; makes it 10001 pods, "
            "and at most 10000 may be there; try fewer",
        ),
        (
            PODS.format(replicas=9_000, cpu=1).replace(
                "front}}", f"front}}, annotations: {{a: {'x' * 5_000}}}}}"
            ),
            "body: Deployment default/front; is too large for 9000 pods of it",
        ),
        ("kind: List\nitems: [&a {kind: Pod}, *a]\n", "body; has the alias *a; write"),
        ("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n", "body; holds no pod"),
    ],
)
def test_pods_that_cannot_be_tried(client: Client, body: str, problem: str) -> None:
    """The file that the server writes is in no message."""
    answered = client.ask(f"{ROOT}/try?stream={TIGHT}&at=700", "POST", body.encode())
    assert answered.status == 400
    found = "; ".join(answered.json.get(name, "") for name in ("where", "detail", "remedy"))
    assert found.startswith(problem)
    assert "/tmp" not in found


def test_a_count_of_pods(client: Client) -> None:
    """Messages name the parameter, not the command's option."""
    two = PODS.format(replicas=1, cpu=1) + "---" + PODS.format(replicas=1, cpu=1)
    answered = client.ask(f"{ROOT}/try?stream={TIGHT}&at=700&count=2", "POST", two.encode())
    assert (answered.status, answered.json["where"]) == (400, "count")
    assert "--" not in answered.json["remedy"]


def test_a_trial_that_takes_too_long(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventsched.questions.trials.MOST_SECONDS", -1)
    body = PODS.format(replicas=1, cpu=1).encode()
    answered = client.ask(f"{ROOT}/try?stream={TIGHT}&at=700", "POST", body)
    assert (answered.status, answered.json["where"]) == (400, "body")
    assert answered.json["detail"] == "takes more than -1 seconds to try"


@pytest.mark.parametrize(("site", "status"), [
    ("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)
])  # fmt: skip
def test_pods_from_a_page_of_another_site(client: Client, site: str, status: int) -> None:
    body = PODS.format(replicas=1, cpu="100m").encode()
    path = f"{ROOT}/try?stream={TIGHT}&at=700"
    assert client.ask(path, "POST", body, sec_fetch_site=site).status == status


@pytest.mark.parametrize(
    "path",
    ["/state", "/queue?at=700", "/diff?from=1&to=2", "/pods/a/b/why-not?node=n",
     "/workloads/a/group/b/explain", "/events"],
)  # fmt: skip
def test_slow_answers_for_a_page_of_another_site(client: Client, path: str) -> None:
    """They are refused before any work; quick answers are made, and the page cannot read them."""
    place = f"{ROOT}{path}{'&' if '?' in path else '?'}stream={TIGHT}"
    refused = client.ask(place, sec_fetch_site="cross-site")
    assert (refused.status, refused.json["detail"]) == (
        403, "the request comes from a page of another site"
    )  # fmt: skip
    assert client.ask(f"{ROOT}/streams", sec_fetch_site="cross-site").status == 200


def test_an_answer_to_a_body_is_not_kept(client: Client) -> None:
    """Neither an ETag nor 304: the answer is about the body."""
    body = PODS.format(replicas=1, cpu="100m").encode()
    answered = client.ask(f"{ROOT}/try?stream={TIGHT}&at=700", "POST", body, if_none_match="*")
    assert (answered.status, answered.headers["cache-control"]) == (200, "no-store")
    assert "etag" not in answered.headers


@pytest.mark.parametrize("headers", [{}, {"content_length": str((1 << 20) + 1)}])
def test_a_body_that_is_too_large(client: Client, headers: dict[str, str]) -> None:
    """With the length that clients say before, and without."""
    body = b"#" * (1 << 20) + b"a"
    answered = client.ask(f"{ROOT}/try?stream={TIGHT}", "POST", body, **headers)
    assert answered.status == 413
    assert answered.headers["content-type"] == "application/problem+json"
    assert answered.json["detail"] == "the body has more than 1048576 bytes"


@pytest.mark.parametrize("stream", [TIGHT, ODD])
def test_a_state_made_from_a_copy_of_an_earlier_one(logs: str, stream: str) -> None:
    """It is the one that is folded from the log, and the earlier one stays as it was."""
    with opened_streams(logs, None) as streams:
        opened = streams.open(stream)
        log, head = opened.log, opened.log.head.next
        states = FoldedStates()
        for early, late in ((head // 4, head // 2), (head // 2, head // 2 + 1), (1, head)):
            expected = [state_at(log, log, place, head) for place in (early, late)]
            with states.at(opened, str(early)) as before, states.at(opened, str(late)) as after:
                found = [before, after]
                assert [each.position for each in found] == [early, late]
                assert [each.opening for each in found] == [each.opening for each in expected]
                assert [_all_of(each) for each in found] == [_all_of(each) for each in expected]


def _all_of(folded: FoldedState) -> tuple[Any, ...]:
    """Everything of a state, in its order."""
    state = folded.state
    objects = [each.title for each in state.registry.everything()]
    residents = [list(each) for each in state.nodes.residents]
    return state.digest(), state_document(state, whole=True), objects, residents


def test_why_not_asks_for_one_state_before_an_attempt(
    logs: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the nodes is asked about on it."""
    own = f"stream={TIGHT}"
    [failed] = client.get(f"/decisions?{own}&outcome=unschedulable&limit=1")["decisions"]
    path = f"/pods/{failed['namespace']}/{failed['pod']}/why-not?{own}&attempt={failed['attempt']}"
    paths = [f"{path}&node={node}" for node in ("node-00003", "node-00001", "node-00003")]
    expected = [client.get(each) | {"seconds": 0} for each in paths]
    folded: list[int] = []

    def counted(*given: Any) -> Any:
        folded.append(given[2])
        return state_at(*given)

    monkeypatch.setattr("eventsched.questions.states.state_at", counted)
    with opened_streams(logs, None) as streams:
        asking = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        assert [asking.get(each) | {"seconds": 0} for each in paths] == expected
    assert len(folded) == 1


def test_why_not_lets_others_read_the_state_that_it_searches(
    logs: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second reader is answered while the search waits for that answer, from a state that is not
    folded again; the state that was searched is kept for the next question."""
    own = f"stream={TIGHT}"
    [failed] = client.get(f"/decisions?{own}&outcome=unschedulable&limit=1")["decisions"]
    name = f"{failed['namespace']}/{failed['pod']}"
    path = f"/pods/{name}/why-not?{own}&attempt={failed['attempt']}&node=node-00003"
    expected = client.get(path) | {"seconds": 0}
    folded: list[int] = []
    seen: list[dict[str, Any]] = []

    def counted(*given: Any) -> Any:
        folded.append(given[2])
        return state_at(*given)

    monkeypatch.setattr("eventsched.questions.states.state_at", counted)
    with opened_streams(logs, None) as streams, ThreadPoolExecutor(1) as other:
        states = FoldedStates()
        stream = streams.open(TIGHT)

        def read() -> str:
            with states.at(stream, str(folded[0])) as found:
                return found.state.digest()

        def searched(hypothesis: Hypothesis) -> Any:
            before = hypothesis.engine.state.digest()
            seen.append({"before": before, "other": other.submit(read).result(timeout=60)})
            return remedies(hypothesis)

        monkeypatch.setattr(why_not_search, "remedies", searched)
        asking = Client(application(Desk(streams, states), OpenGate(local_only=True)))
        for _ in range(2):
            assert asking.get(path) | {"seconds": 0} == expected
        monkeypatch.setattr(why_not_search, "remedies", remedies)
        assert asking.get(path) | {"seconds": 0} == expected
        assert read() == seen[0]["before"]
    assert [each["other"] for each in seen] == [each["before"] for each in seen]
    assert len(folded) == 1


def test_a_kept_state_is_not_used_up(
    logs: str, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state of the past is folded once, and one near to it from a copy; a trial is made on a
    state that is kept."""
    folded: list[int] = []

    def counted(*given: Any) -> Any:
        folded.append(given[2])
        return state_at(*given)

    monkeypatch.setattr("eventsched.questions.states.state_at", counted)
    with opened_streams(logs, None) as streams:
        asking = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        own = f"stream={TIGHT}"
        for path in (
            f"/state?{own}&at=300",
            f"/diff?{own}&from=300&to=700",
            f"/state?{own}&at=700",
        ):
            assert asking.get(path) == client.get(path)
        assert folded[0] == 300
        assert 700 not in folded
        body = PODS.format(replicas=2, cpu="100m").encode()
        folded.clear()
        first = asking.post(f"/try?{own}&at=700", body)
        assert (
            asking.post(f"/try?{own}&at=700", body)
            == first
            == client.post(f"/try?{own}&at=700", body)
        )
    assert len(folded) <= 1
