"""Decisions and waiting times over the last hour: counted from the views."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from eventsched.questions.overviews import recent_activity
from tests.api.asking import Client
from tests.api.test_pods import rows_of
from tests.postgres.histories import ODD, TIGHT


def _decisions(logs: str, stream: str, before: int) -> list[dict[str, Any]]:
    """Decisions before a position, the oldest first, with how long the placed ones had waited."""
    return rows_of(
        logs, "SELECT d.seq, d.at, d.outcome, CASE WHEN d.outcome IN ('scheduled', 'waiting') THEN "
        "d.at - (SELECT min(m.at) FROM eventsched.queue_moves m "
        "WHERE m.stream = d.stream AND m.pod_uid = d.pod_uid) END AS waited "
        "FROM eventsched.decisions d WHERE d.stream = %s AND d.seq < %s ORDER BY d.seq",
        stream, before,
    )  # fmt: skip


def _times(answer: dict[str, Any]) -> tuple[datetime, datetime, timedelta]:
    begin, end = (datetime.fromisoformat(answer[name]) for name in ("begin", "end"))
    return begin, end, timedelta(seconds=answer["step_seconds"])


@pytest.mark.parametrize(("stream", "at"), [(TIGHT, None), (TIGHT, 700), (ODD, 60)])
def test_every_decision_is_in_its_step(
    client: Client, logs: str, stream: str, at: int | None
) -> None:
    answer = client.get(f"/activity?stream={stream}" + (f"&at={at}" if at else ""))
    begin, end, length = _times(answer)
    assert begin >= datetime.fromtimestamp(0, UTC)  # a simulation begins there
    assert len(answer["steps"]) == max(1, min(60, math.ceil((end - begin) / timedelta(seconds=1))))
    assert timedelta() <= begin + len(answer["steps"]) * length - end < timedelta(seconds=1)
    found = _decisions(logs, stream, at or 2**40)
    assert not answer["is_cut"]
    assert sum(each["decisions"] for each in answer["steps"]) == len(found) > 0
    for step in answer["steps"]:
        until = datetime.fromisoformat(step["until"])
        within = [each for each in found if until - length < each["at"] <= until]
        failed = [each for each in within if each["outcome"] in ("unschedulable", "error")]
        waited = sorted(each["waited"] for each in within if each["waited"] is not None)
        assert (step["decisions"], step["failed"]) == (len(within), len(failed))
        assert step["per_second"] == pytest.approx(len(within) / length.total_seconds())
        assert step["placed"] == len(waited)
        if waited:  # the first value that is not less than the part
            middle = waited[(len(waited) + 1) // 2 - 1].total_seconds()
            assert step["p50_seconds"] == pytest.approx(middle)
            assert waited[0].total_seconds() <= step["p99_seconds"]
            assert step["p99_seconds"] <= waited[-1].total_seconds()
        else:
            assert (step["p50_seconds"], step["p99_seconds"]) == (None, None)


@pytest.mark.parametrize("after", [0, 100])
def test_at_the_begin_a_step_is_a_second(client: Client, logs: str, after: int) -> None:
    """No step ends before the simulation begins, and few decisions are not a high rate."""
    first = _decisions(logs, TIGHT, 2**40)[0]["seq"]
    answer = client.get(f"/activity?stream={TIGHT}&at={first + 1 + after}")
    assert answer["step_seconds"] >= 1
    times = [datetime.fromisoformat(each["until"]).timestamp() for each in answer["steps"]]
    assert times == sorted(set(times))
    assert times[0] >= 0
    decided = sum(each["decisions"] for each in answer["steps"])
    assert decided == len(_decisions(logs, TIGHT, first + 1 + after)) > 0
    assert max(each["per_second"] for each in answer["steps"]) <= decided


def test_of_too_many_the_newest(client: Client, logs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time shown is what they took."""
    monkeypatch.setattr(recent_activity, "LOOKED_AT", 20)
    answer = client.get(f"/activity?stream={TIGHT}&at=700")
    newest = _decisions(logs, TIGHT, 700)[-20:]
    begin, _, length = _times(answer)
    assert answer["is_cut"]
    assert newest[0]["at"] - length <= begin < newest[0]["at"]
    assert sum(each["decisions"] for each in answer["steps"]) == 20


@pytest.mark.parametrize("near", [0, 1, 30, 150, 10_000])
def test_pods_that_arrived_before_are_looked_up(
    client: Client, monkeypatch: pytest.MonkeyPatch, near: int
) -> None:
    """A pod that arrived before and was queued again since has waited from its arrival on."""
    path = f"/activity?stream={TIGHT}&at=900"
    monkeypatch.setattr(recent_activity, "NEAR", 10_000)
    whole = client.get(path)
    assert sum(step["placed"] for step in whole["steps"]) > 0
    monkeypatch.setattr(recent_activity, "NEAR", near)
    assert client.get(path) == whole


def test_a_stream_without_decisions(client: Client) -> None:
    steps = client.get(f"/activity?stream={ODD}&at=1")["steps"]
    assert {each["decisions"] for each in steps} == {0}
    assert "position" in client.problem(f"/activity?stream={ODD}&at=99999", 400)
