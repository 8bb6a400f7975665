"""The judge of the cluster soak: a small correct history, and one that breaks each rule."""

import ast
import copy
import json
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.soak import judge as judge_module
from tests.cluster.soak.judge import History, NotAHistoryError, judge, quantity, read

Lines = list[dict[str, Any]]

ROOM = {"cpu": "2", "memory": "1Gi", "pods": "2"}


def correct() -> Lines:
    """Two terms; a bind, a refused one that is repeated, and one whose answer is not known. The
    node is full until the first pod ends."""
    half = {"cpu": "1500m", "memory": "512Mi"}
    return [
        {"kind": "term", "epoch": 1, "first": 0, "committed": 100},
        {"kind": "batch", "first": 0, "count": 2, "epoch": 1, "committed": 110},
        _intended(1, 1, "p1", 110),
        {"kind": "term", "epoch": 2, "first": 2, "committed": 200},
        {"kind": "term", "epoch": 3, "first": 2, "committed": 210},
        {"kind": "batch", "first": 2, "count": 2, "epoch": 3, "committed": 220},
        _intended(2, 3, "p2", 220),
        _intended(3, 3, "p3", 220),
        _bound("p1", 1, 110, 201),
        _bound("p2", 2, 230, 409),
        _bound("p2", 2, 235, 201),
        _bound("p3", None, 240, None),
        {"kind": "node", "revision": 1, "node": "n", "allocatable": ROOM},
        *({"kind": "created", "revision": 1 + i, "pod": f"p{i}"} for i in (1, 2, 3)),
        {"kind": "seen", "revision": 5, "pod": "p1", "node": "n", "requests": half},
        {"kind": "seen", "revision": 6, "pod": "p1", "node": "n", "requests": half},
        {"kind": "ended", "revision": 7, "pod": "p1"},
        {"kind": "seen", "revision": 8, "pod": "p2", "node": "n", "requests": half},
        {"kind": "seen", "revision": 9, "pod": "p3", "node": "n", "requests": {"cpu": "500m"}},
        {"kind": "settled", "revision": 10},
        {"kind": "created", "revision": 11, "pod": "late"},
    ]


def _intended(position: int, epoch: int, pod: str, committed: int) -> dict[str, Any]:
    place = {"pod": pod, "node": "n", "committed": committed}
    return {"kind": "intended", "position": position, "epoch": epoch, **place}


def _bound(pod: str, position: int | None, received: int, code: int | None) -> dict[str, Any]:
    named = {"position": position, "received": received, "code": code}
    return {"kind": "bound", "pod": pod, "node": "n", **named}


def test_a_correct_history() -> None:
    assert judge(History(correct())) == []
    assert judge(History(reversed(correct()))) == [], "the order of lines means nothing"


def test_a_request_that_was_not_logged_completely() -> None:
    """It may have been the one that placed its pod."""
    lines = correct()
    find(lines, "bound", 3)["node"] = None
    assert judge(History(lines)) == []


def find(lines: Lines, kind: str, number: int = 0) -> dict[str, Any]:
    return [line for line in lines if line["kind"] == kind][number]


def bound_twice(lines: Lines) -> None:
    lines.append(_bound("p1", 1, 150, 201))


def moved(lines: Lines) -> None:
    lines.append({"kind": "node", "revision": 2, "node": "m", "allocatable": ROOM})
    find(lines, "seen", 1)["node"] = "m"
    lines.append({**_bound("p1", 5, 230, None), "node": "m"})


def never_bound(lines: Lines) -> None:
    find(lines, "created", -1)["revision"] = 4


def placed_without_a_request(lines: Lines) -> None:
    lines.remove(find(lines, "bound"))


def placed_by_a_refused_request(lines: Lines) -> None:
    find(lines, "bound")["code"] = 409


def bound_and_never_there(lines: Lines) -> None:
    lines.append(_bound("late", 3, 250, 201))


def before_the_commit(lines: Lines) -> None:
    find(lines, "bound")["received"] = 109


def refused_before_the_commit(lines: Lines) -> None:
    find(lines, "bound", 1)["received"] = 219


def before_the_commit_without_a_name(lines: Lines) -> None:
    find(lines, "bound", 3)["received"] = 219


def before_the_commit_to_an_unknown_node(lines: Lines) -> None:
    before_the_commit_without_a_name(lines)
    find(lines, "bound", 3)["node"] = None


def of_no_record(lines: Lines) -> None:
    lines.remove(find(lines, "intended"))


def of_another_pods_record(lines: Lines) -> None:
    find(lines, "bound", 2)["position"] = 3


def of_another_node(lines: Lines) -> None:
    find(lines, "intended")["node"] = "m"


def too_much_cpu(lines: Lines) -> None:
    find(lines, "seen", -1)["requests"] = {"cpu": "501m"}


def too_much_memory(lines: Lines) -> None:
    find(lines, "seen", -1)["requests"] = {"memory": "513Mi"}


def too_many_pods(lines: Lines) -> None:
    find(lines, "node")["allocatable"] = {**ROOM, "pods": "1"}


def too_much_for_a_moment(lines: Lines) -> None:
    find(lines, "ended")["revision"] = 8
    find(lines, "seen", 2)["revision"] = 7


def more_than_before(lines: Lines) -> None:
    find(lines, "seen", 1)["requests"] = {"cpu": "2001m"}


def to_a_node_that_is_gone(lines: Lines) -> None:
    lines.append({"kind": "removed", "revision": 8, "node": "n"})


def on_a_node_after_its_end(lines: Lines) -> None:
    find(lines, "ended")["revision"] = 5
    find(lines, "seen")["revision"] = 4


def an_epoch_twice(lines: Lines) -> None:
    find(lines, "term", 1)["epoch"] = 1


def an_epoch_is_missing(lines: Lines) -> None:
    lines.remove(find(lines, "term", 1))


def an_older_epoch_writes(lines: Lines) -> None:
    find(lines, "batch", 1)["epoch"] = 1
    for number in (1, 2):
        find(lines, "intended", number)["epoch"] = 1


def an_older_epoch_commits_later(lines: Lines) -> None:
    find(lines, "batch")["committed"] = find(lines, "intended")["committed"] = 205
    find(lines, "bound")["received"] = 206


def commits_go_back(lines: Lines) -> None:
    find(lines, "term", 2)["committed"] = 199


def records_are_missing(lines: Lines) -> None:
    find(lines, "batch", 1)["first"] = 3
    lines.remove(find(lines, "intended", 1))
    find(lines, "bound", 1)["position"] = find(lines, "bound", 2)["position"] = None
    lines.append(_intended(4, 3, "p2", 220))


def of_no_batch(lines: Lines) -> None:
    lines.append(_intended(4, 3, "p2", 220))


def of_another_epoch_than_its_batch(lines: Lines) -> None:
    find(lines, "intended")["epoch"] = 2


def without_settled(lines: Lines) -> None:
    lines.remove(find(lines, "settled"))


def of_an_unknown_pod(lines: Lines) -> None:
    lines.append({"kind": "ended", "revision": 12, "pod": "p4"})


WRONG: list[tuple[Callable[[Lines], None], set[str]]] = [
    (bound_twice, {"once"}),
    (moved, {"once", "commit"}),
    (never_bound, {"once"}),
    (placed_without_a_request, {"once"}),
    (placed_by_a_refused_request, {"once"}),
    (bound_and_never_there, {"once", "commit"}),
    (before_the_commit, {"commit"}),
    (refused_before_the_commit, {"commit"}),
    (before_the_commit_without_a_name, {"commit"}),
    (before_the_commit_to_an_unknown_node, {"commit"}),
    (of_no_record, {"commit"}),
    (of_another_pods_record, {"commit"}),
    (of_another_node, {"commit"}),
    (too_much_cpu, {"room"}),
    (too_much_memory, {"room"}),
    (too_many_pods, {"room"}),
    (too_much_for_a_moment, {"room"}),
    (more_than_before, {"room"}),
    (to_a_node_that_is_gone, {"room"}),
    (on_a_node_after_its_end, {"room"}),
    (an_epoch_twice, {"epoch"}),
    (an_epoch_is_missing, {"epoch"}),
    (an_older_epoch_writes, {"epoch"}),
    (an_older_epoch_commits_later, {"epoch"}),
    (commits_go_back, {"epoch"}),
    (records_are_missing, {"epoch"}),
    (of_no_batch, {"epoch"}),
    (of_another_epoch_than_its_batch, {"epoch"}),
    (without_settled, {"form"}),
    (of_an_unknown_pod, {"form"}),
]


@pytest.mark.parametrize(("change", "rules"), WRONG, ids=[each.__name__ for each, _ in WRONG])
def test_each_violation_is_found(change: Callable[[Lines], None], rules: set[str]) -> None:
    """By the rule that it breaks, and by no other."""
    lines = copy.deepcopy(correct())
    change(lines)
    assert {violation.rule for violation in judge(History(lines))} == rules


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2", Fraction(2)),
        ("250m", Fraction(1, 4)),
        ("1.5", Fraction(3, 2)),
        ("1Ki", Fraction(1024)),
        ("3M", Fraction(3_000_000)),
        ("1e3", Fraction(1000)),
        ("2E", Fraction(2 * 10**18)),
    ],
)
def test_quantities(text: str, amount: Fraction) -> None:
    assert quantity(text) == amount


@pytest.mark.parametrize("text", ["", "m", "one", "1Xi"])
def test_what_is_not_a_quantity(text: str) -> None:
    with pytest.raises(NotAHistoryError):
        quantity(text)


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "other"}', '{"kind": "settled"}'])
def test_what_is_not_a_history(text: str) -> None:
    with pytest.raises(NotAHistoryError, match="line 1: "):
        read([text])


def test_the_exit_code_and_the_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in correct()))
    assert judge_module.main([str(file)]) == 0
    assert "2 batch" in capsys.readouterr().out
    file.write_text("".join(json.dumps(line) + "\n" for line in correct()[:-6]))
    assert judge_module.main([str(file)]) == 1
    assert "VIOLATION once: " in capsys.readouterr().out
    assert judge_module.main([str(tmp_path / "missing")]) == 2


def test_the_judge_shares_no_code() -> None:
    """It imports the standard library alone, and runs in a Python without site packages."""
    path = Path(str(judge_module.__file__))
    imported = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported <= sys.stdlib_module_names
    assert not imported & {"importlib", "runpy", "subprocess"}
