"""Plugins whose answers are given, and an engine with one pod for them."""

from typing import Any

import numpy as np

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import Normalization
from eventsched.scheduling.engine import Engine
from tests.builders import (
    added,
    attempted,
    engine_of,
    make_node,
    make_pod,
    observed,
)

NODES = [make_node("a"), make_node("b"), make_node("c")]


class Scripted:
    """A plugin that serves the points it has answers for, and notes its calls in ``trace``."""

    normalization: Normalization
    sign: Any

    def __init__(self, name: str, trace: list[str] | None = None, **answers: Any) -> None:
        self.name = name
        for point, answer in answers.items():
            setattr(self, point, self._say(point, answer, [] if trace is None else trace))

    def _say(self, point: str, answer: Any, trace: list[str]) -> Any:
        def call(*arguments: Any) -> Any:
            trace.append(f"{self.name}.{point}")
            return answer(*arguments) if callable(answer) else answer

        return call


def answering(name: str, point: str, answer: Any) -> Scripted:
    """A plugin that serves one point."""
    answers = {point: answer}
    return Scripted(name, None, **answers)


def none(*arguments: Any) -> None:
    """What a plugin says that has nothing against it."""


def everywhere(value: Any) -> Any:
    """The same value for each node."""
    return lambda cycle, pod, nodes: np.full(len(nodes), value)


def on(**values: int) -> Any:
    """A value for each node by name."""
    return lambda cycle, pod, nodes: np.array([values[name] for name in nodes.names])


def waiting(*plugins: Any, nodes: list[Any] = NODES, **options: Any) -> Engine:
    """An engine with p1 in its active queue."""
    engine = engine_of(*plugins, **options)
    observed(engine, *added(*nodes, make_pod()))
    return engine


def decision(engine: Engine) -> PodDecided:
    """The decision among the records of the next attempt."""
    (found,) = [each for each in attempted(engine) if isinstance(each, PodDecided)]
    return found
