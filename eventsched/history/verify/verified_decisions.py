"""Verifies decisions: what a PodDecided record says about its vectors, nodes and scores."""

from collections.abc import Callable
from typing import Any

import numpy as np

from eventsched.history.verify.verified_log import Packed
from eventsched.history.verify.verified_vectors import (
    EXCLUDED,
    GONE,
    NOT_EVALUATED,
    Expander,
    LostError,
    VectorError,
    Whole,
)

PARAMETERS = {
    "identity": 0,
    "default": 1,
    "reversed": 1,
    "min-max": 2,
    "ratio": 2,
    "spread": 2,
    "own": 0,
}
"""Normalisations, with the number of their parameters."""
_OUTCOMES = ("scheduled", "unschedulable", "waiting", "error")

Record = dict[str, Any]
Report = Callable[[int, str], None]


class Facts:
    """What decisions refer to, from earlier records: node rows and dictionaries."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.live: dict[str, int] = {}
        self.verdicts = {0, EXCLUDED, NOT_EVALUATED, GONE}
        self.scorings: dict[int, list[tuple[int, str]]] = {0: []}
        """Number → (weight, normalization) of each column."""
        self.parameters: dict[int, list[int]] = {0: []}
        """Number → the number of parameters of each column."""

    def take(self, record: Record) -> str:
        """Applies a record. Returns its problem, "" if it has none. Raises KeyError and TypeError
        if it lacks a field."""
        match record["kind"]:
            case "NodeAdded":
                name = record["node"]["name"]
                if name in self.live:
                    return f"node {name!r} is added, but it is there already"
                row = record.get("row", len(self.names))
                if row in self.live.values() or not 0 <= row <= len(self.names):
                    return f"node {name!r} gets row {row!r}, which is not free"
                self.live[name] = row
                self.names[row : row + 1] = [name]
            case "NodeDeleted":
                if self.live.pop(record["name"], None) is None:
                    return f"node {record['name']!r} is deleted, but it is not there"
            case "VerdictDefined":
                number = record["number"]
                if number in self.verdicts or not 0 < number < EXCLUDED:
                    return f"verdict {number!r} cannot be defined (again)"
                self.verdicts.add(number)
            case "ScoringDefined":
                number = record["number"]
                if number in self.scorings or number < 0:
                    return f"scoring {number!r} cannot be defined (again)"
                columns = [(c["weight"], c.get("normalization", "identity"))
                           for c in record["columns"]]  # fmt: skip
                self.scorings[number] = columns
                self.parameters[number] = [PARAMETERS.get(name, -1) for _, name in columns]
                if -1 in self.parameters[number]:
                    return f"scoring {number} has an unknown normalization"
        return ""


class DecisionCheck:
    """Checks decisions in order of position. ``checked`` counts those with vectors, ``partial``
    those among them that have only the vectors of the best nodes, ``thinned`` those without,
    ``vanished`` those among the latter whose vectors were deleted after their page was read."""

    def __init__(
        self,
        facts: Facts,
        find: Callable[[int], Packed | None],
        report: Report,
        lacking: Report,
        *,
        thinned: bool,
    ) -> None:
        """``lacking`` receives reports of missing details, unless ``thinned`` allows them."""
        self._facts, self._report, self._may_lack = facts, report, thinned
        self._find, self._lacking = find, lacking
        self._expander = Expander(find)
        self._broken: set[int] = set()
        self.checked = self.partial = self.thinned = self.vanished = 0

    def check(self, position: int, record: Record, packed: Packed | None) -> None:
        """Checks one decision with its detail. Raises KeyError, TypeError and ValueError for a
        record of a wrong shape."""
        problem = self._record_problem(record)
        if problem:
            self._report(position, problem)
        if not record.get("digest"):
            if packed is not None:
                self._report(position, "a detail row of a decision that has no vectors (no digest)")
            return
        if packed is None:
            self.thinned += 1
            if not self._may_lack:
                self._broken.add(position)
                self._lacking(position, "the decision has a digest, but there is no detail row")
            return
        self._check_vectors(position, record, packed, known_bad=bool(problem))

    def _record_problem(self, record: Record) -> str:
        names, row, node = self._facts.names, record.get("row", -1), record.get("node", "")
        if record["outcome"] not in _OUTCOMES:
            return f"unknown outcome {record['outcome']!r}"
        if row >= len(names) or (names[row] if row >= 0 else "") != node:
            known = f"names {names[row]!r}" if 0 <= row < len(names) else "is not there"
            return f"node {node!r} was chosen, but row {row} {known}"
        if row < 0 and record["outcome"] in ("scheduled", "waiting"):
            return f"outcome {record['outcome']} without a node"
        number, parameters = record.get("scoring", 0), record.get("parameters", [])
        expected = self._facts.parameters.get(number)
        if expected is None:
            return f"scoring {number!r} is not defined"
        if list(map(len, parameters)) != expected:
            return f"parameters {parameters}, expected {expected} numbers for the columns"
        if record.get("digest"):
            judged = sum(n for _, n in record.get("counts", ())) + record.get("feasible", 0)
            if judged != len(self._facts.live):
                return (
                    f"verdicts on {judged} nodes (counts, feasible), expected on all that there "
                    f"were: {len(self._facts.live)}"
                )
        return ""

    def _check_vectors(
        self, position: int, record: Record, packed: Packed, *, known_bad: bool
    ) -> None:
        if packed.base in self._broken:
            self._broken.add(position)  # wrong only because its base is, so it is not reported
            return
        try:
            whole = self._expander.expand(packed, len(self._facts.names))
            self.partial += whole.is_partial
            problem = "" if whole.is_partial else self._vectors_problem(record, whole)
            if not problem and not known_bad:
                claims = self._partial_problem if whole.is_partial else self._claims_problem
                problem = claims(record, whole)
        except LostError as lost:
            if self._may_lack:
                self.thinned += 1
                return
            if self._find(position) is None:  # it was thinned together with its base
                self.vanished += 1
                self.thinned += 1
                return
            problem = f"detail: {lost}"
        except VectorError as wrong:
            problem = f"detail: {wrong}"
        self.checked += 1
        if problem:
            self._broken.add(position)
            self._expander.forget(position)
            self._report(position, problem)

    def _vectors_problem(self, record: Record, whole: Whole) -> str:
        digest = whole.digest()
        if digest != record["digest"]:
            return f"the vectors have digest {digest}, expected {record['digest']} (the decision's)"
        return ""

    def _claims_problem(self, record: Record, whole: Whole) -> str:
        """What the decision says wrongly about its vectors, whose digest is right."""
        census, get, facts = whole.census, record.get, self._facts
        if get("feasible", 0) != census.feasible:
            return f"feasible {get('feasible', 0)}, expected {census.feasible} by the vectors"
        if get("evaluated", 0) != census.evaluated:
            return f"evaluated {get('evaluated', 0)}, expected {census.evaluated} by the vectors"
        if get("counts", []) != census.counts:
            return f"counts {get('counts', [])}, expected {census.counts} by the vectors"
        if len(facts.scorings[get("scoring", 0)]) != whole.scores:
            return f"scoring {get('scoring', 0)}, but there are {whole.scores} score columns"
        if census.gone != len(facts.names) - len(facts.live):
            return (
                f"{census.gone} rows have no node by the vectors, expected "
                f"{len(facts.names) - len(facts.live)}"
            )
        unknown = census.codes - facts.verdicts
        if unknown:
            return f"code {min(unknown)} in the vectors is not defined"
        row = record.get("row", -1)
        if row < 0:
            return ""
        if whole.codes.item(row):
            return f"row {row} was chosen, but its code is {whole.codes[row]}"
        return self._score_problem(record, whole, row)

    def _partial_problem(self, record: Record, whole: Whole) -> str:
        """What contradicts the decision in the vectors of its best nodes. The digest cannot be
        checked: it is that of all nodes."""
        get, facts = record.get, self._facts
        if len(facts.scorings[get("scoring", 0)]) != whole.scores:
            return f"scoring {get('scoring', 0)}, but there are {whole.scores} score columns"
        nodes = dict(get("counts", ()))
        for code, number in whole.census.counts:
            if number > nodes.get(code, 0):
                return (
                    f"{number} rows with code {code}, but the decision counts {nodes.get(code, 0)}"
                )
        live = set(facts.live.values())
        dead = [row for row in np.flatnonzero(whole.codes != GONE).tolist() if row not in live]
        if dead:
            return f"row {dead[0]} has a code, but no node"
        best = np.flatnonzero(whole.codes == 0).tolist()
        row = get("row", -1)
        if len(best) > get("feasible", 0) or (row >= 0 and row not in best):
            return f"the best nodes are in rows {best}, but row {row} was chosen"
        if row < 0:
            return ""
        return self._score_problem(record, whole, row) or self._rank_problem(record, whole, best)

    def _rank_problem(self, record: Record, whole: Whole, best: list[int]) -> str:
        """What contradicts the decision in the order of its best nodes: the runner-up is the best
        of the others. The decision for a nominated node has none."""
        totals = {row: self._total(record, whole, row) for row in best if row != record["row"]}
        if not totals or record.get("nominated"):
            return ""
        runner_up = self._facts.live.get(record.get("runner_up", ""), -1)
        highest = max(total for total in totals.values() if total is not None)
        if totals.get(runner_up) != highest or highest != record.get("runner_up_score", 0):
            return (
                f"the runner-up is {record.get('runner_up', '')!r} with "
                f"{record.get('runner_up_score', 0)}, expected one with {highest} by the vectors"
            )
        return ""

    def _score_problem(self, record: Record, whole: Whole, row: int) -> str:
        total = self._total(record, whole, row)
        if total is None:
            return "a column has no normalised scores"
        if total != record.get("score", 0):
            return f"score {record.get('score', 0)}, expected {total} by the vectors"
        return ""

    def _total(self, record: Record, whole: Whole, row: int) -> int | None:
        """The weighted sum of a row's normalised scores; None if a column of these is missing."""
        columns = self._facts.scorings[record.get("scoring", 0)]
        total = 0
        for place, (weight, name) in enumerate(columns, 1):
            raw = whole.columns[place]
            assert raw is not None
            value = int(raw.item(row))
            if name == "own":
                own = whole.columns[place + whole.scores :][:1]
                if not own or own[0] is None:
                    return None
                value = int(own[0][row])
            else:
                value = normalized(name, value, record["parameters"][place - 1])
            total += weight * value
        return total


def normalized(normalization: str, raw: int, parameters: list[int]) -> int:
    """A raw score, normalised by any rule except ``own``."""
    if normalization == "identity":
        return raw
    if normalization == "min-max":
        low, high = parameters
        return 0 if low == high else (raw - low) * 100 // (high - low)
    if normalization == "ratio":
        low, high = parameters
        return 0 if low == high else int(100.0 * ((raw - low) / (high - low)))
    if normalization == "spread":
        low, high = parameters
        score = (high + low - raw) * 100 // high if high else 100
        return 0 if raw == -1 else score
    (largest,) = parameters
    value = raw * 100 // largest if largest else raw
    return 100 - value if normalization == "reversed" else value
