"""Attempts side by side and over time: columns of verdicts, differences, timelines. Compared with
the answers about single decisions and pods."""

from datetime import datetime
from typing import Any

import numpy as np
import pytest

from eventsched.domain.objects.placement_terms import Toleration
from eventsched.domain.objects.pod import Owner
from eventsched.domain.records import PodAdded, PodDeleted
from eventsched.history.explain.explanation import Step
from eventsched.questions.attempts import attempt_differences
from eventsched.questions.attempts.attempt_answers import PodDemands
from eventsched.questions.attempts.pod_demands import demands_of
from eventsched.questions.attempts.verdict_columns import score_values
from eventsched.questions.verdict_pages import PluginValues
from eventsched.scheduling.framework.pod_groups import NAMES as GROUP_LABELS
from tests.api.asking import Client
from tests.builders import make_pod
from tests.postgres.histories import ODD, TIGHT

STREAMS = [ODD, TIGHT]


def decisions(client: Client, stream: str) -> list[dict[str, Any]]:
    """All decisions, the oldest first."""
    pages = client.pages(f"/decisions?stream={stream}&limit=200", "decisions")
    return sorted((each for page in pages for each in page), key=lambda each: each["position"])


def has_verdicts(client: Client, stream: str, position: int) -> bool:
    detail = client.get(f"/decisions/{position}?stream={stream}")
    return detail["vectors"] in ("all", "best")


@pytest.mark.parametrize("stream", STREAMS)
def test_columns_say_what_verdicts_say(client: Client, stream: str) -> None:
    compared = 0
    for decision in decisions(client, stream):
        position = decision["position"]
        if not has_verdicts(client, stream, position):
            client.problem(f"/decisions/{position}/columns?stream={stream}", 400)
            continue
        columns = client.get(f"/decisions/{position}/columns?stream={stream}")
        path = f"/decisions/{position}/verdicts?stream={stream}&limit=1000"
        assert list(_rows(columns)) == client.get(path)["verdicts"]
        assert len(columns["refusals"]) == len({str(each) for each in columns["refusals"]})
        compared += 1
    assert compared > 5


def _rows(columns: dict[str, Any]) -> Any:
    """The columns as rows of /verdicts."""
    for number, node in enumerate(columns["names"]):
        if number >= columns["feasible"]:
            refusal = columns["refusals"][columns["verdicts"][number - columns["feasible"]]]
            yield {
                "node": node, "status": refusal["code"], "plugin": refusal["plugin"],
                "reason": refusal["reason"] or None, "total": None, "rank": None, "scores": [],
            }  # fmt: skip
            continue
        yield {
            "node": node, "status": "Success", "plugin": None, "reason": None,
            "total": columns["totals"][number], "rank": columns["ranks"][number],
            "scores": [
                {
                    "plugin": each["plugin"], "raw": int(each["raw"][number]),
                    "normalized": each["normalized"][number],
                    "weighted": each["normalized"][number] * each["weight"],
                }
                for each in columns["scores"]
            ],
        }  # fmt: skip


def test_scores_that_javascript_cannot_hold_are_texts() -> None:
    raw = np.array([2**53 - 1, 2**53, -(2**53), 5, 2**60])
    values = PluginValues("Wide", 2, raw, np.array([100, 0, 1, 2, 3]))
    found = score_values(values, 4)
    assert found.raw == [2**53 - 1, str(2**53), str(-(2**53)), 5]
    assert found.normalized == [100, 0, 1, 2]


def test_filters_are_those_of_the_profile_in_order(client: Client) -> None:
    """The simulation runs the default configuration. The other stream's plugins are a test's."""
    simulated, made_up = decisions(client, TIGHT)[0], decisions(client, ODD)[0]
    path = f"/decisions/{simulated['position']}/columns?stream={TIGHT}"
    filters = client.get(path)["filters"]
    first = [name for name in filters if name in ("NodeUnschedulable", "NodeResourcesFit")]
    assert first == ["NodeUnschedulable", "NodeResourcesFit"]
    assert "InterPodAffinity" in filters
    path = f"/decisions/{made_up['position']}/columns?stream={ODD}"
    assert client.get(path)["filters"] is None


# --- differences ------------------------------------------------------------------------------


def retried(client: Client, stream: str) -> list[dict[str, Any]]:
    """The decisions of the pod with the most attempts."""
    by_pod: dict[str, list[dict[str, Any]]] = {}
    for decision in decisions(client, stream):
        by_pod.setdefault(decision["uid"], []).append(decision)
    return max(by_pod.values(), key=len)


@pytest.mark.parametrize("stream", STREAMS)
def test_differences_are_those_of_the_two_answers(client: Client, stream: str) -> None:
    """Every node whose verdict or total differs is there, and no other; in either order."""
    attempts = retried(client, stream)
    assert len(attempts) > 1
    before, after = attempts[0]["position"], attempts[-1]["position"]
    sides = [
        {each["node"]: each for each in client.get(
            f"/decisions/{position}/verdicts?stream={stream}&limit=1000"
        )["verdicts"]}
        for position in (before, after)
    ]  # fmt: skip
    differing = {
        node
        for node in sides[0] | sides[1]
        if _without_rank(sides[0].get(node)) != _without_rank(sides[1].get(node))
    }
    path = f"/decisions/{before}/changes/{after}?stream={stream}&limit=3"
    pages = list(client.pages(path, "nodes", "offset"))
    nodes = [each for page in pages for each in page]
    assert len(nodes) == len(differing)
    assert {each["node"] for each in nodes} == differing
    turned = [each["before"] != each["after"] for each in nodes]
    assert turned == sorted(turned, reverse=True)
    found = client.get(f"/decisions/{after}/changes/{before}?stream={stream}&limit=3")
    assert found["nodes"] == pages[0]
    assert (found["turned"], found["differing"]) == (sum(turned), len(differing))
    assert [found["before"], found["after"]] == [attempts[0], attempts[-1]]


def _without_rank(verdict: dict[str, Any] | None) -> Any:
    """What a difference is about: also raw scores may differ without the weighted ones."""
    if verdict is None or verdict["status"] != "Success":
        return verdict
    return {each["plugin"]: each["weighted"] for each in verdict["scores"]}


def test_what_happened_in_between_is_of_the_pod_or_on_nodes_that_differ(client: Client) -> None:
    """Pod huge: n6 joined, which has room for it."""
    attempts = [each for each in decisions(client, ODD) if each["pod"] == "huge"]
    before, after = attempts[-2]["position"], attempts[-1]["position"]
    found = client.get(f"/decisions/{before}/changes/{after}?stream={ODD}")
    assert found["records"] == found["read"] == after - before - 1
    assert {"n6 joined"} <= {each["text"] for each in found["between"]}
    assert all(before < each["position"] < after for each in found["between"])
    joined = next(each for each in found["nodes"] if each["node"] == "n6")
    assert (joined["before"], joined["after"]) == (None, "feasible")
    own = [each["kind"] for each in found["between"] if each["of_pod"]]
    assert "PodQueued" in own


@pytest.mark.parametrize("stream", STREAMS)
def test_what_happened_to_the_pod_in_between_is_a_part_of_its_story(
    client: Client, stream: str
) -> None:
    attempts = retried(client, stream)
    before, after = attempts[0]["position"], attempts[-1]["position"]
    path = f"/pods/{attempts[0]['namespace']}/{attempts[0]['pod']}/timeline?stream={stream}"
    story = client.get(f"{path}&uid={attempts[0]['uid']}")["story"]
    assert own_lines(client, stream, before, after) == [
        (each["position"], each["text"]) for each in story if before < each["position"] < after
    ]


def own_lines(client: Client, stream: str, before: int, after: int) -> list[tuple[int, str]]:
    found = client.get(f"/decisions/{before}/changes/{after}?stream={stream}")
    return [(each["position"], each["text"]) for each in found["between"] if each["of_pod"]]


def test_attempts_that_ended_alike_are_one_line_up_to_the_second_attempt(client: Client) -> None:
    attempts = retried(client, TIGHT)
    before, last, after = (attempts[number]["position"] for number in (0, 4, 5))
    merged = [line for line in own_lines(client, TIGHT, before, after) if "the same" in line[1]]
    [(position, text)] = merged
    assert position == last
    assert text.startswith("attempts 2 to 5: the same, since ")


def test_of_many_records_in_between_the_last_are_shown(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = retried(client, TIGHT)
    before, after = attempts[0]["position"], attempts[-1]["position"]
    path = f"/decisions/{before}/changes/{after}?stream={TIGHT}"
    every = client.get(path)["between"]
    monkeypatch.setattr(attempt_differences, "MOST_READ", 100)
    found = client.get(path)
    assert (found["records"], found["read"]) == (after - before - 1, 100)
    assert found["between"] == [
        each for each in every if each["of_pod"] or each["position"] >= after - 100
    ]
    monkeypatch.setattr(attempt_differences, "MOST_LINES", 2)
    assert client.get(path)["between"] == every[-2:]


def test_attempts_of_two_pods_are_not_compared(client: Client) -> None:
    one, other = [each["position"] for each in decisions(client, ODD) if each["pod"] in "ab"][:2]
    path = f"/decisions/{one}/changes/{other}?stream={ODD}"
    assert "are attempts of two pods" in client.problem(path, 400)


# --- timelines --------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", STREAMS)
def test_bars_follow_the_story(client: Client, stream: str) -> None:
    """Every attempt is a moment, every stay in a queue a bar up to what ended it."""
    pods = {(each["namespace"], each["pod"], each["uid"]) for each in decisions(client, stream)}
    for namespace, name, uid in sorted(pods):
        path = f"/pods/{namespace}/{name}/{{}}?stream={stream}&uid={uid}"
        line = client.get(path.format("timeline"))
        story = client.get(path.format("explain"))
        lanes = {each["name"]: each["bars"] for each in line["lanes"]}
        assert [bar["position"] for bar in lanes["attempts"]] == [
            each["seq"] for each in story["attempts"]
        ]
        assert [bar["position"] for bar in lanes["queues"]] == [
            each["seq"] for each in story["moves"]
        ]
        for bars in lanes.values():
            for bar in bars:
                assert line["begin"] <= bar["begin"] <= (bar["end"] or line["end"]) <= line["end"]
        for bar, following in zip(lanes["queues"], lanes["queues"][1:], strict=False):
            assert bar["end"] <= following["begin"]
        is_waiting = story["summary"]["state"] in ("active", "backoff", "unschedulable", "gated")
        assert (lanes["queues"][-1]["end"] is None) == is_waiting
        if is_waiting:
            listed = client.get(f"/pods?stream={stream}&namespace={namespace}&name={name}")["pods"]
            [row] = [each for each in listed if each["uid"] == uid]
            since = datetime.fromisoformat(row["waiting_since"]).timestamp()
            assert line["end"] / 1e6 == pytest.approx(since + row["wait_seconds"])
        assert [each["position"] for each in line["story"]] == sorted(
            each["position"] for each in line["story"]
        )
        assert line["headline"][0].startswith(f"{namespace}/{name} ")
        newest = client.get(f"/pods/{namespace}/{name}/timeline?stream={stream}")
        assert (newest["newest"], line["newest"]) == (
            None, newest["uid"] if newest["uid"] != uid else None
        )  # fmt: skip


def test_of_very_many_records_the_newest_are_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the first two, and those around an attempt that is asked for."""
    pods = client.get(f"/pods?stream={TIGHT}&ever=true&limit=100")["pods"]
    pod = max(pods, key=lambda each: int(each["attempts"]))
    path = f"/pods/{pod['namespace']}/{pod['name']}"
    whole = client.get(f"{path}/explain?stream={TIGHT}")
    assert "left_out" not in whole
    kinds = ("moves", "attempts", "events")
    places = sorted(each["seq"] for kind in kinds for each in whole[kind])
    monkeypatch.setattr("eventsched.history.evidence_until.MOST_RECORDS", 6)
    monkeypatch.setattr("eventsched.history.evidence_until._AROUND", 1)

    def told(found: dict[str, Any]) -> list[int]:
        return sorted(each["seq"] for kind in kinds for each in found[kind])

    newest = client.get(f"{path}/explain?stream={TIGHT}")
    assert told(newest) == [*places[:2], *places[-6:]]
    assert newest["left_out"] == len(places) - 8
    assert newest["summary"] == whole["summary"]
    asked = whole["attempts"][1]
    assert asked["seq"] in places[3:-7]
    found = client.get(f"{path}/explain?stream={TIGHT}&attempt={asked['attempt']}")
    index = places.index(asked["seq"])
    assert told(found) == [*places[:2], *places[index - 1 : index + 2], *places[-6:]]
    assert found["explained"] == asked["attempt"]
    timeline = client.get(f"{path}/timeline?stream={TIGHT}")
    texts = [line["text"] for line in timeline["story"] if line["position"] == places[-6]]
    assert texts[0].startswith(f"left out before this: {len(places) - 8} records; ")
    queues = next(lane["bars"] for lane in timeline["lanes"] if lane["name"] == "queues")
    assert queues[0]["begin"] == queues[0]["end"]  # it is not known how long it was there


def test_attempts_are_compared_with_their_neighbours_only(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After records that are left out it is not known what changed."""
    pods = client.get(f"/pods?stream={TIGHT}&ever=true&limit=100")["pods"]
    tried = sorted(pods, key=lambda each: -int(each["attempts"]))[:8]
    paths = [f"/pods/{pod['namespace']}/{pod['name']}/explain?stream={TIGHT}" for pod in tried]
    stories = [(path, client.get(path)["attempts"]) for path in paths]
    monkeypatch.setattr("eventsched.history.evidence_until.MOST_RECORDS", 4)
    monkeypatch.setattr("eventsched.history.evidence_until._AROUND", 0)
    apart = 0
    for path, whole in stories:
        numbers = {each["seq"]: number for number, each in enumerate(whole)}
        for asked in whole[1:-2]:
            found = client.get(f"{path}&attempt={asked['attempt']}")["attempts"]
            places = [numbers[each["seq"]] for each in found]
            for before, after, place in zip([None, *found], found, places, strict=False):
                follows = before is not None and numbers[before["seq"]] == place - 1
                assert after["changed"] == (whole[place]["changed"] if follows else [])
                apart += before is not None and not follows and _counts(before) != _counts(after)
    assert apart > 0


def _counts(attempt: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(e["plugin"], "".join(e["reasons"]), e["nodes"]) for e in attempt["refusals"]]


def test_the_lanes_of_a_gang(client: Client) -> None:
    """gang-1 reserves a node, waits at Permit until gang-2 comes, and then binds."""
    line = client.get(f"/pods/default/gang-1/timeline?stream={ODD}")
    second = 1_000_000
    shown = {
        lane["name"]: [
            (
                bar["label"],
                bar["state"],
                bar["begin"] // second,
                bar["end"] and bar["end"] // second,
            )
            for bar in lane["bars"]
        ]
        for lane in line["lanes"]
    }
    node = shown["reservation"][0][0]
    assert shown == {
        "queues": [("active", "active", 11, 11)],
        "attempts": [("attempt 1", "waiting", 11, 11)],
        "reservation": [(node, "reserved", 11, None)],
        "waits": [("Gang", "Permit", 11, 18)],
        "bind": [(node, "binding", 18, None)],
    }


def test_what_a_pod_asks_for(client: Client) -> None:
    """As its newest record says: in both streams of pods that differ in what they ask for."""
    asked = []
    for namespace, name in sorted({(e["namespace"], e["pod"]) for e in decisions(client, TIGHT)}):
        demands = client.get(f"/pods/{namespace}/{name}/timeline?stream={TIGHT}")["demands"]
        assert demands["requests"]["cpu"]
        assert demands["position"] >= 0
        asked.append(demands)
    assert any(each["node_selector"] for each in asked)
    assert len({each["requests"]["cpu"] for each in asked}) > 1


def test_demands_in_words() -> None:
    tolerations = (
        Toleration(operator="Exists"),
        Toleration(key="gpu", operator="Exists", effect="NoSchedule"),
        Toleration(key="team", value="a"),
    )  # fmt: skip
    spec = {"node_selector": {"disk": "ssd"}, "tolerations": tolerations}
    pod = make_pod(cpu=1500, memory=512 * 2**20, priority=7, spec=spec)
    step = Step(3, 0, PodAdded(pod=pod), "", None)
    assert demands_of((step, Step(4, 0, PodDeleted(uid="p1"), "", None))) == PodDemands(
        position=3, priority=7, requests={"cpu": "1500m", "memory": "512Mi"},
        node_selector={"disk": "ssd"},
        tolerations=["every taint", "gpu:NoSchedule", "team=a"], others=[], belongs_to=[],
    )  # fmt: skip
    assert demands_of(()) is None


@pytest.mark.parametrize(
    ("owner", "labels", "wanted"),
    [
        (Owner(kind="Job", name="report"), {}, ["job/report"]),
        (Owner(kind="ReplicaSet", name="web-5d9f7c"), {}, ["deploy/web", "rs/web-5d9f7c"]),
        (Owner(kind="ReplicaSet", name="web-blue"), {}, ["rs/web-blue"]),
        (
            Owner(kind="ReplicaSet", name="web-blue"),
            {"pod-template-hash": "blue"},
            ["deploy/web", "rs/web-blue"],
        ),
        (Owner(kind="StatefulSet", name="db", foreign=True), {}, []),
        (Owner(kind="PyTorchJob", name="train"), {}, []),
        (None, {GROUP_LABELS[0]: "gang"}, ["group/gang"]),
        (Owner(kind="Job", name="train"), {GROUP_LABELS[1]: "a/b"}, ["job/train"]),
    ],
)
def test_what_a_pod_belongs_to(
    owner: Owner | None, labels: dict[str, str], wanted: list[str]
) -> None:
    """As /workloads names it: what that does not know is left out."""
    step = Step(3, 0, PodAdded(pod=make_pod(owner=owner, labels=labels)), "", None)
    demands = demands_of((step,))
    assert demands is not None
    assert demands.belongs_to == wanted
