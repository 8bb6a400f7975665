"""The bars of a pod's timeline."""

import re
from typing import Any

import pytest

from eventsched.pages.assets import Assets
from tests.unit.pages.given_api import GivenApi, client

_TIMELINE = {
    "stream": "live", "namespace": "prod", "name": "a", "uid": "u", "begin": 0, "end": 10_000_000,
    "newest": None,
    "headline": ["prod/a waits"], "demands": None, "pods": [],
    "story": [{"position": 1, "at": "2026-11-25T18:00:00+00:00", "text": "arrived"}],
}  # fmt: skip


def _bar(begin: int, end: int | None, state: str) -> dict[str, Any]:
    bar = {"label": state, "state": state, "position": begin, "text": state, "cause": None}
    return {**bar, "begin": begin * 1_000_000, "end": None if end is None else end * 1_000_000}


def _places(*lanes: tuple[str, list[dict[str, Any]]]) -> list[tuple[float, float]]:
    """Where the bars begin and end, in percent of the width."""
    timeline = {**_TIMELINE, "lanes": [{"name": name, "bars": bars} for name, bars in lanes]}
    api = GivenApi(timeline=timeline, explain={"older": [], "attempts": []})
    text = client(api).get("/pods/prod/a").text
    found = re.findall(r'<rect class="bar-of \w+" x="([\d.]+)%" width="([\d.]+)%"', text)
    return [(float(begin), float(begin) + float(width)) for begin, width in found]


def test_the_bar_of_a_waiting_pod_ends_with_the_axis() -> None:
    queues = [_bar(0, 4, "active"), _bar(4, None, "unschedulable")]
    assert _places(("queues", queues)) == [(0, 40), (40, 100)]


def test_what_happened_last_is_within_the_axis() -> None:
    """An attempt lasts no time, but its bar has a width."""
    bars = _places(("attempts", [_bar(3, 3, "unschedulable"), _bar(10, 10, "unschedulable")]))
    assert [begin for begin, _ in bars] == [30, 99.85]
    assert [end for _, end in bars] == pytest.approx([30.15, 100])


def test_what_began_last_can_be_seen() -> None:
    [waited, bound] = _places(
        ("queues", [_bar(0, 10, "active")]), ("bind", [_bar(10, None, "bound")])
    )
    assert waited[1] == bound[0] == pytest.approx(100 / 1.05, abs=0.01)
    assert bound[1] == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize(("newest", "links"), [(None, 0), ("v", 1)])
def test_the_newest_of_a_name_is_linked_from_others(newest: str | None, links: int) -> None:
    """However a page was reached, by a uid or not."""
    api = GivenApi(
        timeline={**_TIMELINE, "newest": newest, "lanes": []},
        explain={"older": [], "attempts": []},
    )
    text = client(api).get("/pods/prod/a?uid=u").text
    assert text.count(">the newest of this name</a>") == links


@pytest.mark.parametrize(("lines", "folded"), [(1, 0), (30, 0), (31, 11), (100, 80)])
def test_the_middle_of_a_long_story_is_folded(lines: int, folded: int) -> None:
    """Each line is there, in order."""
    at = "2026-11-25T18:00:00+00:00"
    story = [{"position": n, "at": at, "text": f"line {n}."} for n in range(lines)]
    api = GivenApi(
        timeline={**_TIMELINE, "story": story, "lanes": []}, explain={"older": [], "attempts": []}
    )
    text = client(api).get("/pods/prod/a").text.partition('id="answer"')[0]
    assert re.findall(r"<span>line (\d+)\.</span>", text) == [str(each) for each in range(lines)]
    middle = text.partition('id="story-middle"')[2].partition("</details>")[0]
    assert middle.count("<li ") == folded
    assert (f"<summary>{folded} more lines, <time" in middle) == bool(folded)


def test_states_with_one_colour_are_one_entry_of_the_legend() -> None:
    """Those that one rule of the style sheet colours; all others have an entry of their own."""
    found = Assets().find("pod.css")
    assert found is not None
    style = found.content.decode()
    rules = re.findall(r"^((?:\.bar-of\.\w+(?:, )?)+) \{", style, re.MULTILINE)
    groups = [re.findall(r"\.bar-of\.(\w+)", rule) for rule in rules]
    states = [state for group in groups for state in group]
    assert len(groups) >= 5
    bars = [_bar(place, place + 1, state) for place, state in enumerate([*states, "free"])]
    timeline = {**_TIMELINE, "lanes": [{"name": "queues", "bars": bars}]}
    api = GivenApi(timeline=timeline, explain={"older": [], "attempts": []})
    text = client(api).get("/pods/prod/a").text
    _, _, legend = text.partition('<ul class="row states">')
    entries = re.findall(r"</svg> (.*)</li>", legend.partition("</ul>")[0])
    assert entries == [*(", ".join(group) for group in groups), "free"]
