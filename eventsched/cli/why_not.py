"""``explain --why-not NODE``: decides about an attempt again, and looks for the smallest change."""

import gc
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count, takewhile
from pathlib import Path

from eventsched.cli.archive_options import StreamLog
from eventsched.cli.replay import assembled
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.records import PodDecided, PodUnreserved
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.explain.explanation import ExplainedAttempt, Explanation
from eventsched.history.undecided_pods import undecided_error
from eventsched.history.why_not.hypothesis import Hypothesis, reweighted
from eventsched.history.why_not.search import Remedy, remedies
from eventsched.history.why_not.shortfall import Shortfall, shortfall
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.logbook import OWN
from eventsched.runtime.queries.state_at import FoldedState
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework.pod_groups import membership

COLLECT_EVERY = 16
"""Engines that are made between two collections: the state of one that is dropped refers to itself,
and each is as large as the cluster."""


@dataclass(frozen=True)
class WhyNot:
    """The remedies for one attempt and one node. ``decisions`` is how often the pod was decided
    again, which took ``seconds``. ``unasked`` says that there are extenders, which were not asked.
    ``given_up`` is how a plugin ended the reservation of the node, if the attempt had chosen it;
    ``group`` names the pod's group, "" for none. ``shortfall`` is of a feasible node that another
    one was chosen before."""

    pod: str
    attempt: int
    position: int
    node: str
    remedies: tuple[Remedy, ...]
    decisions: int
    seconds: float
    unasked: bool
    given_up: PodUnreserved | None = None
    group: str = ""
    shortfall: Shortfall | None = None


def why_not(
    explained: Explanation,
    node: str,
    log: StreamLog,
    state_before: Callable[[int], AbstractContextManager[FoldedState]],
    plugins: list[Path],
) -> WhyNot:
    """Looks for the changes with which the explained attempt would have chosen the node.
    ``state_before`` gives the state before a position. Raises InputError if there was no attempt,
    for an unknown node, and if the log cannot give the state before the attempt."""
    attempt, full_name = explained.explained, explained.pod.full_name
    if attempt is None:
        recorded = (step.record for step in explained.steps)
        raise undecided_error("--why-not", full_name, recorded)
    began = time.perf_counter()
    decided = next(log.read(attempt.position))
    # Automatic collections would look at the objects of each engine again and again.
    with gc_tuning.paused(), state_before(decided.cause) as folded:
        pod = folded.state.pods[attempt.decided.uid].pod
        assembly = _assembly(folded, log.stream, plugins)
        decided_node = attempt.decided.node
        found, short, decisions = _search(folded.state, assembly, pod, node, decided_node)
    return WhyNot(
        full_name, attempt.decided.attempt, attempt.position, node, found, decisions,
        time.perf_counter() - began, bool(assembly.configuration.extenders),
        _given_up(explained, attempt, node),
        "" if (own := membership(pod)) is None else own.group.replace("/", "/group/"),
        short,
    )  # fmt: skip


def _assembly(folded: FoldedState, stream: str, plugins: list[Path]) -> Assembly:
    """The profiles in force in a state. Raises InputError."""
    if folded.opening is None:
        problem = f"the configuration at position {folded.position} is not known"
        raise InputError("--why-not", problem, "add --from-archive FOLDER")
    if folded.opening.inputs.get(OWN) or not folded.opening.plugins:
        problem = f"stream {stream} has no configuration to decide with again"
        raise InputError("--why-not", problem, "leave it out")
    return assembled(folded.opening, stream, plugins)


def _search(
    state: SchedulerState, assembly: Assembly, pod: Pod, node: str, chosen: str
) -> tuple[tuple[Remedy, ...], Shortfall | None, int]:
    """The remedies, how far the node is from the one that was ``chosen``, and how often the pod was
    decided again. The state stays as it is; engines with changes have copies of it. Raises
    InputError for an unknown node."""
    copy = cache(partial(snapshot.copied, state))
    numbers = count(1)

    def make_engine(weights: Mapping[str, int]) -> Engine:
        if next(numbers) % COLLECT_EVERY == 0:
            gc.collect()
        profiles = dict(assembly.profiles)
        if weights:
            profiles[pod.scheduler_name] = reweighted(profiles[pod.scheduler_name], weights)
        engine = replace(assembly, profiles=profiles).engine(with_detail=False)
        engine.restore(copy(), state.position)
        return engine

    unchanged = assembly.engine(with_detail=False, state=state)
    hypothesis = Hypothesis(make_engine, pod, node, unchanged)
    short = shortfall(hypothesis, chosen)
    return tuple(remedies(hypothesis)), short, hypothesis.decisions


def _given_up(explained: Explanation, attempt: ExplainedAttempt, node: str) -> PodUnreserved | None:
    """The end of the reservation that the attempt made on the node, if it was given up."""
    if attempt.decided.node != node:
        return None
    later = (step.record for step in explained.steps if step.position > attempt.position)
    own = takewhile(lambda record: not isinstance(record, PodDecided), later)
    return next((record for record in own if isinstance(record, PodUnreserved)), None)
