"""One frame of ``eventsched top``, and whether it has colours."""

import re
from typing import Any

import msgspec
import pytest

from eventsched.cli.screen.now_frame import frame
from eventsched.output.terminal.bars import bar, curve
from eventsched.output.terminal.colours import painted, plain, uses_colours
from eventsched.questions.answer_shapes import (
    LogFacts,
    NodesFilled,
    Now,
    ResourceTotal,
    StreamLeader,
    WaitingReason,
    WaitingState,
    Waits,
)
from eventsched.questions.overviews.recent_activity import ActivityStep, RecentActivity

NOW = Now(
    stream="scheduler", position=812, now="2026-11-25T13:00:00.5+00:00", pods=12, pending=3,
    states=[
        WaitingState(state="unschedulable", pods=3, oldest_seconds=700.0, oldest_since="…",
                     oldest="team-a/big-0"),
        WaitingState(state="bound", pods=9, oldest_seconds=None, oldest_since=None, oldest=None),
    ],
    reasons=[
        WaitingReason(plugin="NodeResourcesFit", reason="Insufficient cpu", pods=2,
                      oldest_seconds=700.0, example="team-a/big-0"),
        WaitingReason(plugin=None, reason="\x1b[2J\nmine", pods=1, oldest_seconds=None,
                      example="team-b/x"),
    ],
    decisions_per_second=4.25,
    waits=Waits(pods=9, p50_seconds=0.1, p99_seconds=2.5),
    log=LogFacts(head=812, written_at="…", lag_seconds=0.04, idle_seconds=3.0),
    leader=StreamLeader(holder="replica-1", epoch=2, since=None),
    nodes=NodesFilled(
        position=812, names=["n1", "n2"], filled={"cpu": [1.0, 0.5]},
        totals={
            "cpu": ResourceTotal(allocatable=4000, requested=3000),
            "gpu": ResourceTotal(allocatable=0, requested=0),
        },
    ),
)  # fmt: skip
FRAME = """\
scheduler  position 812  2026-11-25T13:00:00
leader replica-1 (epoch 2)  log 0.04s behind, written 3s ago

3 of 12 pods pending  4.2 decisions/s  waited p50 0.1s, p99 2.5s (last 9)

STATE              PODS   OLDEST   WHICH
unschedulable         3   11m40s   team-a/big-0
bound                 9

2 nodes, requested of what they offer
cpu                         ███████████████·····  75%   1 node full

  PODS   OLDEST   PLUGIN                     WHY THEY WAIT
     2   11m40s   NodeResourcesFit           Insufficient cpu
     1            -                          �[2J�mine"""


def test_a_frame() -> None:
    """Text from the cluster cannot control the terminal."""
    assert "\n".join(frame(NOW, 0, 0, plain)) == FRAME


def test_a_frame_fits_the_screen_and_colours_take_no_room() -> None:
    lines = frame(NOW, 30, 7, painted)
    bare = [re.sub(r"\x1b\[\d+m", "", line) for line in lines]
    assert bare == frame(NOW, 30, 7, plain)
    assert bare == [line[:30].rstrip() for line in FRAME.splitlines()[:7]]
    assert lines[6] == "\x1b[31munschedulable         3   11m4\x1b[0m", "waits for 10 minutes"


def test_a_log_without_a_leader_or_records() -> None:
    log = LogFacts(head=0, written_at=None, lag_seconds=None, idle_seconds=None)
    empty = msgspec.structs.replace(
        NOW, pods=0, pending=0, states=[], reasons=[], nodes=None, leader=None, log=log,
        waits=Waits(pods=0, p50_seconds=None, p99_seconds=None), decisions_per_second=0.0,
    )  # fmt: skip
    assert frame(empty, 0, 0, plain)[1:] == [
        "no leader", "", "0 of 0 pods pending  0.0 decisions/s", "",
        "STATE              PODS   OLDEST   WHICH",
    ]  # fmt: skip


def test_bars() -> None:
    assert [bar(part, 20) for part in (-1, 0, 0.5, 0.53, 1, 7)] == [
        "·" * 20, "·" * 20, "█" * 10 + "·" * 10, "█" * 10 + "▋" + "·" * 9, "█" * 20, "█" * 20,
    ]  # fmt: skip


def test_the_pods_that_were_pending_at_the_frames_before_are_a_curve() -> None:
    one, several = (frame(NOW, 0, 0, plain, pending) for pending in ([3], [4, 0, 7, 3]))
    assert one == frame(NOW, 0, 0, plain)
    added = "pending ▅▁█▄ 0 to 7 in the last 4 frames"
    assert several == [*one[:4], added, *one[4:]]
    assert curve([0, 0]) == "▁▁"


def test_the_last_hour_is_two_curves() -> None:
    steps = [
        ActivityStep(until="…", decisions=number, failed=0, per_second=number / 60, placed=1,
                     p50_seconds=0.5, p99_seconds=None if number < 58 else number - 57.0)
        for number in range(60)
    ]  # fmt: skip
    activity = RecentActivity(
        stream="s", position=1, begin="…", end="…", step_seconds=60.0, is_cut=False, steps=steps
    )
    lines = frame(NOW, 0, 0, plain, (), activity)
    assert lines[4:6] == [
        "decided ▁▁▂▂▂▂▂▃▃▃▃▄▄▄▄▅▅▅▅▆▆▆▆▇▇▇▇███ up to 1.0/s, last 1h00m",
        f"waited  {'▁' * 29}█ p99 up to 2.0s",
    ]
    assert [*lines[:4], *lines[6:]] == frame(NOW, 0, 0, plain)
    single = frame(NOW, 0, 0, plain, (), msgspec.structs.replace(activity, steps=steps[-1:]))
    assert any(
        line.startswith("decided ") and f"{steps[-1].per_second:.1f}/s" in line for line in single
    )
    assert frame(NOW, 0, 0, plain, (), msgspec.structs.replace(activity, steps=[])) == (
        frame(NOW, 0, 0, plain)
    )


@pytest.mark.parametrize(
    ("environment", "on_terminal", "elsewhere"),
    [
        ({}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
    ],
)
def test_when_there_are_colours(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, Any], on_terminal: bool, elsewhere: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert uses_colours(is_terminal=True) is on_terminal
    assert uses_colours(is_terminal=False) is elsewhere
