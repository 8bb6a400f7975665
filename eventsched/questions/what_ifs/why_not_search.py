"""``why-not``: decides about an attempt again, and looks for changes with which the pod lands."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.records.stimuli import OWN
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.asked_attempt import AskedAttempt
from eventsched.history.why_not.hypothesis import Hypothesis, reweighted
from eventsched.history.why_not.search import Remedy, remedies
from eventsched.history.why_not.shortfall import Shortfall, shortfall
from eventsched.history.why_not.trial_copy import trial_copy
from eventsched.history.why_not.why_not_answer import WhyNot
from eventsched.questions.past.open_log import StreamLog
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.queries.logged_assembly import assembled
from eventsched.runtime.queries.state_at import FoldedState
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework.pod_groups import membership


def why_not(
    asked: AskedAttempt,
    node: str,
    log: StreamLog,
    state_before: Callable[[int], FoldedState],
    plugins: list[Path],
) -> WhyNot:
    """Looks for the changes with which an attempt would have chosen the node. ``state_before``
    gives the state before a position. Raises InputError for an unknown node, and if the log cannot
    give that state."""
    decided = asked.decided
    began = time.perf_counter()
    # Automatic collections would look at the objects of each engine again and again.
    with gc_tuning.paused():
        folded = state_before(asked.cause)
        pod = folded.state.pods[decided.uid].pod
        assembly = _assembly(folded, log.stream, plugins)
        found, short, decisions = _search(folded.state, assembly, pod, node, decided.node)
    return WhyNot(
        asked.pod.full_name, decided.attempt, asked.position, node, found, decisions,
        time.perf_counter() - began, bool(assembly.configuration.extenders),
        asked.unreserved,
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
    decided again. Engines with changes have copies of the state. Raises InputError for an unknown
    node."""

    def make_engine(weights: Mapping[str, int]) -> Engine:
        profiles = dict(assembly.profiles)
        if weights:
            profiles[pod.scheduler_name] = reweighted(profiles[pod.scheduler_name], weights)
        own = trial_copy(state, pod.uid)
        return replace(assembly, profiles=profiles).engine(with_detail=False, state=own)

    unchanged = assembly.engine(with_detail=False, state=state)
    hypothesis = Hypothesis(make_engine, pod, node, unchanged)
    short = shortfall(hypothesis, chosen)
    return tuple(remedies(hypothesis)), short, hypothesis.decisions
