"""Scenarios beside their golden answers, and the differences between an answer and its golden.

An answer is the output of ``eventsched evaluate`` for a scenario, a golden that of the oracle.
Every field of a pod that one of them has is compared; an empty field equals a missing one.

If a score is out of range, upstream's attempt ends with an error, but we refuse the nodes with such
a score: the golden names them as ``unscored``, and has the scores of the others.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.runtime.assembly import registry
from eventsched.runtime.queries.scenario_evaluation import evaluate

FOLDER = Path(__file__).parent
CAUSES = ("error", "prefilter", "prefilter_nodes", "filter", "fit_error", "nominated", "victims")
SUITES = (
    ("scenarios.jsonl.gz", "golden.jsonl.gz"),
    ("scenarios-more.jsonl.gz", "golden-more.jsonl.gz"),
    ("scenarios-edges.jsonl.gz", "golden-edges.jsonl.gz"),
)

ANY = "*"
"""Fields without an answer of upstream."""


@dataclass(frozen=True)
class Case:
    """One scenario: its line as it is stored, and what the oracle says about its pods."""

    id: str
    kind: str
    line: bytes
    golden: dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """A leaf of a pod's answer that is not the golden's; ``field``, its path: filter.NODE.code."""

    pod: str
    field: str
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"{self.pod} {self.field}: upstream {self.theirs!r}, ours {self.ours!r}"


def lines(path: Path) -> list[bytes]:
    """The lines of a .jsonl or .jsonl.gz file, without the empty ones."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line for line in content.splitlines() if line.strip()]


def cases(scenarios: Path, golden: Path) -> list[Case]:
    """The scenarios of a file with their goldens. Raises KeyError where one has no golden."""
    answers = {answer["id"]: answer for answer in map(json.loads, lines(golden))}
    found = []
    for line in lines(scenarios):
        scenario = json.loads(line)
        id_ = scenario["id"]
        found.append(Case(id_, scenario["kind"], line, answers[id_]))
    return found


@cache
def stored() -> dict[str, Case]:
    """Every case of this folder, by id."""
    pairs = [(FOLDER / scenarios, FOLDER / golden) for scenarios, golden in SUITES]
    return {case.id: case for pair in pairs if pair[0].exists() for case in cases(*pair)}


@cache
def _known() -> dict[str, type[Any]]:
    return registry()


def judged(case: Case) -> dict[str, Any]:
    """Our answer to a case, without the verdicts of nodes that were refused for their score; input
    that is refused as a whole is its error."""
    try:
        answer = evaluate(case.line, case.id, _known())
        for pod in answer["pods"]:
            refused = pod.get("filter", {})
            pod["filter"] = {name: each for name, each in refused.items() if not _is_score(each)}
        return answer
    except InputError as problem:
        return {"id": case.id, "error": str(problem)}


def _is_score(verdict: dict[str, Any]) -> bool:
    return verdict["reasons"] == [f"node(s) got a score out of range from {verdict['plugin']}"]


def differences(case: Case) -> Iterator[tuple[str, list[Difference]]]:
    """Each pod of the golden with what differs in our answer: nothing if they are equal."""
    answer = judged(case)
    ours = {pod["pod"]: pod for pod in answer.get("pods", [])}
    for theirs in case.golden.get("pods", []):
        name = theirs["pod"]
        if "error" in answer:
            yield name, [Difference(name, "error", answer["error"], case.golden.get("error"))]
        else:
            yield name, list(_leaves(name, "", ours.get(name), spared(theirs)))


def spared(golden: dict[str, Any]) -> dict[str, Any]:
    """A golden as it would be if nodes with a score out of range were refused."""
    unscored = golden.get("unscored")
    if not unscored:
        return golden
    left = [name for name in golden["feasible"] if name not in unscored]
    found = {**golden, "error": "", "unscored": None, "feasible": left}
    return found if left else {**found, "fit_error": ANY}


def _leaves(pod: str, field: str, ours: Any, theirs: Any) -> Iterator[Difference]:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted({*ours, *theirs}, key=_causes_first):
            yield from _leaves(
                pod, f"{field}.{key}" if field else key, ours.get(key), theirs.get(key)
            )
    elif theirs is not ANY and ours != theirs and (ours or theirs):
        yield Difference(pod, field, ours, theirs)


def _causes_first(field: str) -> tuple[int, str]:
    return (CAUSES.index(field) if field in CAUSES else len(CAUSES)), field
