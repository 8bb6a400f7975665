"""The page of a node."""

from typing import Any

import pytest

from eventsched.pages.rendering import amount
from tests.unit.pages.given_api import MARKUP, GivenApi, client

_NODE = {
    "name": f"n0{MARKUP}", "unschedulable": True, "taints": ["dedicated=db:NoSchedule"],
    "labels": {"zone": "a"}, "allocatable": {"cpu": 4000, "memory": 8 << 30, "gpu": 0},
    "requested": {"cpu": 1500, "memory": 2 << 30, "gpu": 0}, "pods": [], "nominated": ["a/next"],
}  # fmt: skip
_STATE = {
    "stream": "live", "position": 9, "node": _NODE,
    "pods": [{"namespace": "a", "name": "web", "uid": "u", "state": "bound", "priority": 7,
              "requests": {"cpu": 1250, "memory": 3 << 30}, "attempts": 2, "deleting": True,
              "evicted_for": "a/next"}],
}  # fmt: skip
_ATTEMPT = {"position": 5, "at": "2026-11-25T18:00:00+00:00", "namespace": "a", "pod": "web",
            "uid": "u", "attempt": 2}  # fmt: skip
_VERDICTS = {
    "stream": "live", "head": 9, "node": "n0", "attempts": 3, "known": 3, "feasible": 1,
    "chosen": 1, "placed": [_ATTEMPT],
    "refusals": [{"plugin": "NodeResourcesFit", "code": "Unschedulable", "reason": "Too little",
                  "attempts": 2, "newest": _ATTEMPT}],
}  # fmt: skip


def test_what_is_on_a_node_and_what_it_has_free() -> None:
    api = GivenApi(state=_STATE, verdicts=_VERDICTS)
    page = client(api).get("/nodes/n0%20x?stream=live&at=9")
    assert page.status_code == 200
    assert [each[:2] for each in api.asked[:1]] == [("/api/v1/state", "stream=live&at=9&node=n0+x")]
    assert "/api/v1/nodes/n0 x/verdicts" in [path for path, *_ in api.asked]
    text = " ".join(page.text.split())
    assert "<script>alert" not in text
    assert "Cordoned" in text
    assert 'room is kept for <a href="/pods/a/next?stream=live&amp;at=9">a/next</a>' in text
    for words in ("2500m", "6 GiB", "dedicated=db:NoSchedule", "zone=a", "evicted for a/next",
                  "cpu 1250m, memory 3 GiB",
                  "2 refused it, 1 could have placed the pod here, 1 did"):  # fmt: skip
        assert words in text
    assert '<a href="/decisions/5?stream=live&amp;at=9">a/web</a>' in text
    assert "eventsched state --node &#39;n0 x&#39; --at 9 --stream live" in text


def test_the_same_answer_in_sql_is_of_the_present() -> None:
    pages = client(GivenApi(state=_STATE, verdicts=_VERDICTS))
    assert "FROM eventsched.pods_now" in pages.get("/nodes/n0").text
    assert "FROM eventsched.pods_now" not in pages.get("/nodes/n0?at=9").text


def test_a_node_is_shown_without_its_verdicts() -> None:
    problem: dict[str, Any] = {"status": 503, "title": "", "detail": "the server is busy"}
    page = client(GivenApi(state=_STATE, verdicts=problem)).get("/nodes/n0")
    assert (page.status_code, "the server is busy" in page.text) == (200, True)


def test_who_may_not_see_the_node_is_led_to_its_pods() -> None:
    """Names of nodes are on pages of one namespace, too, and lead here."""
    problem: dict[str, Any] = {"status": 403, "title": "Forbidden", "detail": "is about all"}
    page = client(GivenApi(state=problem)).get("/nodes/n0%20x?at=9")
    assert page.status_code == 403
    assert '<a href="/pods?at=9&amp;node=n0+x">list of pods</a>' in page.text


@pytest.mark.parametrize(
    ("number", "resource", "text"),
    [
        (1500, "cpu", "1500m"), (2000, "cpu", "2"), (3 << 29, "memory", "1.5 GiB"),
        (64 << 20, "hugepages-2Mi", "64 MiB"), (4, "nvidia.com/gpu", "4"), (0, "memory", "0 MiB"),
        (1 << 30, "memory", "1 GiB"), (1023 << 20, "memory", "1023 MiB"),
        (-1 << 30, "ephemeral-storage", "-1 GiB"), (-1023 << 20, "memory", "-1023 MiB"),
    ],
)  # fmt: skip
def test_amounts(number: int, resource: str, text: str) -> None:
    assert amount(number, resource) == text
