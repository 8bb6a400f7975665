"""Verdicts on snapshots: ``eventsched evaluate``, in the format of the conformance oracle.

Each scenario is a cluster and some pods; the pods are judged one by one, and none is placed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from eventsched.cluster import translate
from eventsched.cluster.files import read_text
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.verdicts import Verdict
from eventsched.runtime.assembly import assembled
from eventsched.scheduling import configuration
from eventsched.scheduling.classes import NO_NODE, PASSES
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError
from eventsched.scheduling.judgement import Judgement, fit_error
from eventsched.scheduling.supplement import EXCLUDED, weighted


class Scenario(msgspec.Struct):
    """A line of the oracle's input: a configuration as text (empty: the default), API objects, and
    the pods to judge."""

    id: str
    objects: list[dict[str, Any]]
    pending: list[dict[str, Any]]
    kind: str = ""
    config: str = ""
    preempt: bool = False


def evaluate(line: bytes, where: str, known: Mapping[str, type[Any]]) -> dict[str, Any]:
    """The answer to one line. Raises InputError for a line or an object that is malformed; a
    configuration that is refused is the scenario's error."""
    try:
        scenario = msgspec.json.decode(line, type=Scenario)
    except msgspec.DecodeError as problem:
        raise InputError(
            where, f"is no scenario: {problem}", "write one JSON object a line"
        ) from None
    try:
        engine = _engine(scenario, where, known)
    except InputError as problem:
        return {"id": scenario.id, "error": f"config: {problem}"}
    for stimulus in _cluster(scenario, where):
        engine.observe(stimulus, 0)
    pending = [
        translate.pod(obj, f"{where}: pending[{index}]", defaults=False)
        for index, obj in enumerate(scenario.pending)
    ]
    return {"id": scenario.id, "pods": [_answer(engine, pod) for pod in pending]}


def _engine(scenario: Scenario, where: str, known: Mapping[str, type[Any]]) -> Engine:
    source = f"{where}: config"
    loaded = (
        configuration.load(scenario.config, source) if scenario.config else configuration.default()
    )
    return assembled(loaded, source, known).engine(with_detail=False)


def _cluster(scenario: Scenario, where: str) -> list[records.Stimulus]:
    """What brings the scenario's objects in: nodes and pods after everything else."""
    others: list[records.Stimulus] = []
    nodes: list[records.Stimulus] = []
    pods: list[records.Stimulus] = []
    seen: set[tuple[str, str]] = set()
    for index, obj in enumerate(scenario.objects):
        place = f"{where}: objects[{index}]"
        if obj.get("kind") == "Node":
            node = translate.node(obj, place)
            _once(("node", node.name), seen, place)
            nodes.append(records.NodeAdded(node=node))
        elif obj.get("kind") == "Pod":
            pod = translate.pod(obj, place, defaults=False)
            _once(("pod", pod.uid), seen, place)
            if pod.node_name:
                pods.append(records.PodAdded(pod=pod))
        elif (found := translate.cluster_object(obj, place)) is not None:
            name = "/".join(filter(None, (found.namespace, found.name)))
            _once((type(found).__name__, name), seen, place)
            others.append(records.ObjectChanged(object=found))
    return others + nodes + pods


def _once(named: tuple[str, str], seen: set[tuple[str, str]], place: str) -> None:
    if named in seen:
        raise InputError(place, f"{named[0]} {named[1]} is there twice", "name each object once")
    seen.add(named)


def _answer(engine: Engine, pod: Pod) -> dict[str, Any]:
    answer: dict[str, Any] = {"pod": pod.full_name}
    try:
        return {**answer, **_judged(engine, pod)}
    except KeyError:
        return {**answer, "error": f"no profile {pod.scheduler_name}", "feasible": []}
    except PluginError as broken:
        return {**answer, "error": str(broken), "feasible": []}


def _judged(engine: Engine, pod: Pod) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    judged = engine.judge(pod)
    names = engine.state.nodes.names
    if judged.refusal is not None:
        plugin, status = judged.refusal
        answer["prefilter"] = _verdict(
            Verdict(plugin=plugin, code=status.code, reasons=status.reasons)
        )
    else:
        answer |= _filtered(judged, names)
    feasible = np.flatnonzero(judged.keys == PASSES)
    answer["feasible"] = sorted(names[row] for row in feasible)
    if len(feasible):
        answer |= _scored(judged, names, feasible)
    else:
        answer["fit_error"] = fit_error(judged, engine.state.nodes.live)
    return answer


def _filtered(judged: Judgement, names: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if judged.narrowed_by:
        inside = np.flatnonzero((judged.keys != EXCLUDED) & (judged.keys != NO_NODE))
        if len(inside):
            found["prefilter_nodes"] = sorted(names[row] for row in inside)
    refused = {}
    for row, key in enumerate(judged.keys.tolist()):
        if key not in (PASSES, NO_NODE, EXCLUDED):
            refused[names[row]] = _verdict(judged.verdict(key))
    if refused:
        found["filter"] = dict(sorted(refused.items()))
    return found


def _scored(judged: Judgement, names: list[str], rows: Any) -> dict[str, Any]:
    scores = {}
    for each in judged.scores:
        values = weighted(each, rows)
        if values.any():  # a column of zeros says no more than a skipped plugin
            scores[each.column.plugin] = _by_name(names, rows, values)
    return {
        "scores": dict(sorted(scores.items())),
        "total": _by_name(names, rows, judged.totals[rows]),
    }


def _by_name(names: list[str], rows: Any, values: Any) -> dict[str, int]:
    found = {names[row]: value for row, value in zip(rows, values.tolist(), strict=True)}
    return dict(sorted(found.items()))


def _verdict(verdict: Verdict) -> dict[str, Any]:
    found = {"plugin": verdict.plugin, "code": str(verdict.code), "reasons": list(verdict.reasons)}
    return {key: value for key, value in found.items() if value}


def lines(path: Path) -> list[bytes]:
    """The lines of a .jsonl or .jsonl.gz file, empty ones left out. Raises InputError."""
    return [line.encode() for line in read_text(path).split("\n") if line.strip()]
