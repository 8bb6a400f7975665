"""Calls one plugin for some nodes, or schedules one pod with it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import PodDecided
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES, CycleKey
from eventsched.scheduling.cycle.judgement import Judgement, fit_error
from eventsched.scheduling.cycle.pod_specific_verdicts import weighted
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError
from eventsched.testing.engines import attempted, engine_of, engine_with, observed
from eventsched.testing.objects import added


class Answered(NamedTuple):
    """The pod's node, or "" with kube-scheduler's ``message`` that says why."""

    node: str
    message: str = ""


def verdicts(
    plugin: Any, pod: Pod, nodes: Sequence[Node], present: Sequence[Pod] = ()
) -> dict[str, str]:
    """Node → why the plugin refuses the pod there (its reasons, joined), or "" if the node passes.
    ``present`` are pods that already have a node. A refusal by PreFilter counts for every node.
    Raises PluginError if the plugin raises, or returns a value that its extension point does not
    allow."""
    engine = engine_of(plugin)
    judgement = _judged(engine, pod, nodes, present)
    rows = engine.state.nodes.rows
    if judgement.refusal is not None:
        return {node.name: ", ".join(judgement.refusal[1].reasons) for node in nodes}
    keys = {node.name: CycleKey(int(judgement.keys[rows[node.name]])) for node in nodes}
    return {
        name: "" if key == KEY_PASSES else ", ".join(judgement.verdict(key).reasons)
        for name, key in keys.items()
    }


def scores(
    plugin: Any, pod: Pod, nodes: Sequence[Node], present: Sequence[Pod] = ()
) -> dict[str, int]:
    """Node → the plugin's normalised score, 0 to 100, for the nodes that pass its own filter.
    Raises PluginError like ``verdicts``."""
    engine = engine_of(plugin)
    judgement = _judged(engine, pod, nodes, present)
    if judgement.problem is not None:
        raise judgement.problem
    rows = np.flatnonzero(judgement.keys == KEY_PASSES)
    totals = np.zeros(len(rows), dtype=np.int64)
    for score in judgement.scores:
        totals += weighted(score, rows)
    names = engine.state.nodes.names
    return {names[row]: int(score) for row, score in zip(rows, totals, strict=True)}


def scheduled_to(
    pod: Pod, nodes: Sequence[Node], *plugins: Any, present: Sequence[Pod] = (),
    weights: Mapping[str, int] | None = None,
) -> Answered:  # fmt: skip
    """Schedules the pod with these plugins and kube-scheduler's defaults. ``weights`` are those of
    the plugins' scores (default: 1). Raises PluginError if a plugin fails in the attempt."""
    engine = engine_with(*plugins, weights=weights)
    _fill(engine, nodes, present)
    observed(engine, *added(pod))
    if engine.idle:
        gate = engine.gate(pod)
        return Answered("", ", ".join(gate.reasons) if gate else "")
    for record in attempted(engine):
        if isinstance(record, PodDecided):
            if record.outcome is records.Outcome.ERROR:
                failure = record.message.removeprefix(f"plugin {record.plugin} failed in ")
                point, _, problem = failure.partition(": ")
                raise PluginError(record.plugin, point, problem)
            return Answered(record.node, record.message)
    raise AssertionError("an attempt without a decision")


def _judged(engine: Engine, pod: Pod, nodes: Sequence[Node], present: Sequence[Pod]) -> Judgement:
    _fill(engine, nodes, present)
    judgement = engine.judge(pod)
    if judgement.refusal is not None and not judgement.refusal[1].rejected:
        name, status = judgement.refusal
        raise PluginError(name, "pre_filter", fit_error(judgement, len(nodes)) or str(status))
    return judgement


def _fill(engine: Engine, nodes: Sequence[Node], present: Sequence[Pod]) -> None:
    observed(engine, *added(*nodes, *present))
