"""Verdicts on scenarios: ``eventsched evaluate`` in the format of the conformance oracle.

A scenario is a cluster and some pods. The pods are judged one by one, and none is placed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from eventsched.cluster.files import read_text
from eventsched.cluster.translate import manifest
from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.int64 import Int64s
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Verdict
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from eventsched.scheduling.cycle.cycle_keys import (
    KEY_EXCLUDED,
    KEY_NO_NODE,
    KEY_NOT_EVALUATED,
    KEY_PASSES,
)
from eventsched.scheduling.cycle.judgement import Judgement, fit_error
from eventsched.scheduling.cycle.pod_specific_verdicts import weighted
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError
from eventsched.scheduling.preemption.evaluator import Preemption, is_leaving
from eventsched.scheduling.preemption.postfilter import post_filter


class Scenario(msgspec.Struct):
    """One line of the oracle's input: a configuration as text ("": the default), API objects, and
    the pods to judge."""

    id: str
    objects: list[dict[str, Any]]
    pending: list[dict[str, Any]]
    kind: str = ""
    config: str = ""
    preempt: bool = False


def evaluate(line: bytes, where: str, known: Mapping[str, type[Any]]) -> dict[str, Any]:
    """The answer to one line. Raises InputError for a malformed line or object. A refused
    configuration is not raised: it is the answer's error."""
    try:
        scenario = msgspec.json.decode(line, type=Scenario)
    except msgspec.DecodeError as problem:
        raise InputError(
            where,
            f"is not a scenario: {problem}",
            "write one JSON object a line; or, for a cluster's objects, name the --pod in question",
        ) from None
    try:
        engine = _engine(scenario, where, known)
    except InputError as problem:
        return {"id": scenario.id, "error": f"config: {problem}"}
    for stimulus in _cluster(scenario, where):
        engine.observe(stimulus, 0)
    pending = [
        manifest.pod(obj, f"{where}: pending[{index}]", defaults=False)
        for index, obj in enumerate(scenario.pending)
    ]
    answers = [_answer(engine, pod, preempt=scenario.preempt) for pod in pending]
    return {"id": scenario.id, "pods": answers}


def _engine(scenario: Scenario, where: str, known: Mapping[str, type[Any]]) -> Engine:
    source = f"{where}: config"
    loaded = (
        configuration.load(scenario.config, source) if scenario.config else configuration.default()
    )
    configuration.refuse_extenders(loaded, source)
    return assemble_loaded(loaded, source, known).engine(with_detail=False)


def _cluster(scenario: Scenario, where: str) -> list[records.Stimulus]:
    """The stimuli for the scenario's objects: nodes and pods after everything else."""
    others: list[records.Stimulus] = []
    nodes: list[records.Stimulus] = []
    pods: list[records.Stimulus] = []
    seen: set[tuple[str, str]] = set()
    for index, obj in enumerate(scenario.objects):
        place = f"{where}: objects[{index}]"
        if obj.get("kind") == "Node":
            node = manifest.node(obj, place)
            _once(("node", node.name), seen, place)
            nodes.append(records.NodeAdded(node=node))
        elif obj.get("kind") == "Pod":
            pod = manifest.pod(obj, place, defaults=False)
            _once(("pod", pod.uid), seen, place)
            if pod.node_name or pod.nominated_node:
                pods.append(records.PodAdded(pod=pod))
        elif (cluster_object := manifest.cluster_object(obj, place)) is not None:
            kind, _, name = cluster_object.title.partition(" ")
            _once((kind, name), seen, place)
            others.append(records.ObjectChanged(object=cluster_object))
    return others + nodes + pods


def _once(kind_and_name: tuple[str, str], seen: set[tuple[str, str]], place: str) -> None:
    if kind_and_name in seen:
        kind, name = kind_and_name
        raise InputError(place, f"{kind} {name} is there twice", "name each object once")
    seen.add(kind_and_name)


def _answer(engine: Engine, pod: Pod, *, preempt: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"pod": pod.full_name}
    try:
        return {**answer, **_judged(engine, pod, preempt=preempt)}
    except KeyError:
        return {**answer, "error": f"no profile {pod.scheduler_name}", "feasible": []}
    except PluginError as error:
        return {**answer, "error": str(error), "feasible": []}


def _judged(engine: Engine, pod: Pod, *, preempt: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    judgement = engine.judge(pod)
    names = engine.state.nodes.names
    if judgement.refusal is not None:
        plugin, status = judgement.refusal
        reasons = status.reasons
        if not status.rejected:
            # Upstream wraps errors, but not refusals (RunPreFilterPlugins).
            answer["error"] = f'running PreFilter plugin "{plugin}": {", ".join(reasons)}'
            reasons = (answer["error"],)
        answer["prefilter"] = _verdict(Verdict(plugin=plugin, code=status.code, reasons=reasons))
        if not status.rejected:
            return {**answer, "feasible": []}
    else:
        answer |= _filtered(judgement, names)
    feasible = np.flatnonzero(judgement.keys == KEY_PASSES)
    answer["feasible"] = sorted(names[row] for row in feasible)
    if judgement.problem is not None:
        problem = judgement.problem
        where = f'prescore : running PreScore plugin "{problem.plugin}"'
        answer["error"] = f"{where}: {problem.problem}"
    elif len(feasible):
        answer |= _scored(judgement, names, feasible)
    else:
        answer["fit_error"] = fit_error(judgement, engine.state.nodes.live)
        if preempt and judgement.profile.post_filter:
            answer |= _post_filtered(judgement)
    return answer


def _post_filtered(judgement: Judgement) -> dict[str, Any]:
    """The result of PostFilter. Nothing is evicted. Victims that are being deleted already are left
    out, because they need no eviction."""
    result = post_filter(judgement)
    code, reasons = str(result.status.code), ", ".join(result.status.reasons)
    answer: dict[str, Any] = {"postfilter": f"{code}: {reasons}" if reasons else code}
    if result.nominated:
        answer["nominated"] = result.nominated
    if isinstance(result.preemption, Preemption):
        assert judgement.dry_run is not None
        victims = [
            pod for pod in result.preemption.victims if not is_leaving(pod, judgement.dry_run)
        ]
        answer["victims"] = sorted(pod.full_name for pod in victims)
    return answer


def _filtered(judgement: Judgement, names: list[str]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    if judgement.narrowed_by:
        inside = np.flatnonzero((judgement.keys != KEY_EXCLUDED) & (judgement.keys != KEY_NO_NODE))
        if len(inside):
            answer["prefilter_nodes"] = sorted(names[row] for row in inside)
    refused = {}
    for row, key in enumerate(judgement.keys.tolist()):
        if key not in (KEY_PASSES, KEY_NO_NODE, KEY_EXCLUDED, KEY_NOT_EVALUATED):
            refused[names[row]] = _verdict(judgement.verdict(key))
    if refused:
        answer["filter"] = dict(sorted(refused.items()))
    return answer


def _scored(judgement: Judgement, names: list[str], rows: Int64s) -> dict[str, Any]:
    scores = {}
    for score in judgement.scores:
        values = weighted(score, rows)
        if values.any():  # a column of zeros means the same as a skipped plugin
            scores[score.column.plugin] = _by_name(names, rows, values)
    return {
        "scores": dict(sorted(scores.items())),
        "total": _by_name(names, rows, judgement.totals[rows]),
    }


def _by_name(names: list[str], rows: Int64s, values: Int64s) -> dict[str, int]:
    by_name = {names[row]: value for row, value in zip(rows, values.tolist(), strict=True)}
    return dict(sorted(by_name.items()))


def _verdict(verdict: Verdict) -> dict[str, Any]:
    fields = {"plugin": verdict.plugin, "code": str(verdict.code), "reasons": list(verdict.reasons)}
    return {field: value for field, value in fields.items() if value}


def lines(path: Path) -> list[bytes]:
    """The lines of a .jsonl or .jsonl.gz file without empty ones. Raises InputError."""
    return [line.encode() for line in read_text(path).split("\n") if line.strip()]
