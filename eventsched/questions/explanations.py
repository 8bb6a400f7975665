"""Why a pod is where it is, or nowhere; and what would have to change for another node."""

import time
from pathlib import Path
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.domain.workload_kinds import POD_GROUP
from eventsched.history.asked_attempt import asked_attempt
from eventsched.history.evidence_until import explain_newest
from eventsched.history.explain.conclusions.headline import needs_closed_nodes, with_closed_nodes
from eventsched.history.explain.evidence import Evidence
from eventsched.history.explain.explanation import Explanation, NoPodError
from eventsched.history.explain.workloads.pod_group import (
    GROUPS_PLUGIN,
    GroupMembers,
    group_members,
)
from eventsched.history.explain.workloads.stored_workload import stored_workload
from eventsched.history.explain.workloads.workload import Workload, parse_target, with_step
from eventsched.history.why_not.why_not_answer import WhyNot
from eventsched.output.explain_output import story_json, story_text
from eventsched.output.terminal.display import Display
from eventsched.output.why_not_output import why_not_json, why_not_text
from eventsched.output.workload_output import workload_json, workload_text
from eventsched.questions.past.positions import record_time
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility, evidence_before
from eventsched.questions.what_ifs.why_not_search import why_not
from eventsched.runtime.assembly import registry
from eventsched.runtime.queries.profiles_in_force import profiles_with

ANY_NAMESPACE = "-"
"""In the place of a namespace: the workload's name alone says which it is."""


def pod_explanation(
    stream: LoggedStream,
    sees: Visibility,
    pod: str,
    attempt: int | None,
    node: str | None,
    end: int | None = None,
) -> dict[str, Any]:
    """The story of a pod (``namespace/name``, a uid), as ``eventsched explain -o json`` prints it;
    with ``end`` up to that position. Of a pod with very many records it has the newest, and
    ``left_out`` says how many it has not. Raises InputError, also NoPodError and
    NotVisibleError."""
    explained = _explained(evidence_before(stream, sees, end), pod, attempt, node)
    return story_json(with_nodes_to_open(explained, stream, end))


def pod_story(
    stream: LoggedStream,
    sees: Visibility,
    pod: str,
    attempt: int | None,
    node: str | None,
    display: Display,
    end: int | None = None,
    *,
    full: bool,
) -> str:
    """The same in words, as ``eventsched explain`` prints it on a display."""
    explained = _explained(evidence_before(stream, sees, end), pod, attempt, node)
    explained = with_nodes_to_open(explained, stream, end)
    now = time.time_ns() // 1_000 if end is None else record_time(stream, end - 1)
    return story_text(explained, now or 0, display, full=full)


def with_nodes_to_open(
    explained: Explanation, stream: LoggedStream, end: int | None
) -> Explanation:
    """The explanation with the nodes that only taints or a cordon close to the pod, before position
    ``end`` or now, if the next step depends on them."""
    if not needs_closed_nodes(explained):
        return explained
    position = stream.log.head.next if end is None else end
    with stream.nodes.at(stream.log, position) as nodes:
        return with_closed_nodes(explained, nodes)


def pod_remedies(
    stream: LoggedStream,
    sees: Visibility,
    states: FoldedStates,
    pod: str,
    attempt: int | None,
    node: str,
    plugins: list[Path],
) -> dict[str, Any]:
    """Changes with which a pod lands on a node, as ``eventsched explain --why-not -o json`` prints
    them. ``plugins`` are files with plugins that the stream was written with. Raises
    InputError, also NoPodError and NotVisibleError."""
    return why_not_json(_remedies(stream, sees, states, pod, attempt, node, plugins), stream.name)


def pod_remedies_text(
    stream: LoggedStream,
    sees: Visibility,
    states: FoldedStates,
    pod: str,
    attempt: int | None,
    node: str,
    plugins: list[Path],
    display: Display,
) -> str:
    """The same in words, as ``eventsched explain --why-not`` prints them on a display."""
    return why_not_text(_remedies(stream, sees, states, pod, attempt, node, plugins), display)


def workload_explanation(
    stream: LoggedStream, sees: Visibility, states: FoldedStates, namespace: str, word: str,
    plugins: list[Path],
) -> dict[str, Any]:  # fmt: skip
    """The pods of a workload (``deploy/NAME``) or pod group (``group/NAME``) by the reason why they
    wait, as ``eventsched explain -o json`` prints them. The namespace is ``-`` for any.
    ``plugins`` are files with plugins that the stream was written with. Raises InputError."""
    workload, members = _workload(stream, sees, states, namespace, word, plugins)
    return workload_json(workload, stream.name, members)


def workload_story(
    stream: LoggedStream, sees: Visibility, states: FoldedStates, namespace: str, word: str,
    plugins: list[Path], display: Display, *, full: bool,
) -> str:  # fmt: skip
    """The same in words, as ``eventsched explain`` prints them on a display."""
    workload, members = _workload(stream, sees, states, namespace, word, plugins)
    now = time.time_ns() // 1_000
    return workload_text(workload, stream.name, now, display, members, full=full)


def _workload(
    stream: LoggedStream, sees: Visibility, states: FoldedStates, namespace: str, word: str,
    plugins: list[Path],
) -> tuple[Workload, GroupMembers | None]:  # fmt: skip
    if namespace == ANY_NAMESPACE:
        sees.require_whole("a workload without its namespace")
    else:
        sees.require(namespace, "namespace")
    target = parse_target(word, None if namespace == ANY_NAMESPACE else namespace)
    members = None
    try:
        if target.kind == POD_GROUP:
            with states.at(stream, None) as folded:
                profiles: dict[str, bool] = {}
                if folded.opening is not None:
                    known = registry(plugins)
                    profiles = profiles_with(GROUPS_PLUGIN, "permit", folded.opening, known)
                members = group_members(folded.state, target, stream.name, profiles)
        workload = stored_workload(stream.log, target, members)
    except NoPodError as problem:
        if sees.is_whole:
            raise
        # The remedy names workloads of all namespaces.
        raise NoPodError(problem.where, problem.problem, "check the name") from None
    return _with_step(workload, stream, sees), members


def _with_step(workload: Workload, stream: LoggedStream, sees: Visibility) -> Workload:
    if not (example := workload.needs_step):
        return workload
    try:
        explained = explain_newest(evidence_before(stream, sees, None), example)
    except NoPodError:  # it was deleted just now, and the log dropped it
        return workload
    return with_step(workload, with_nodes_to_open(explained, stream, None))


def _remedies(
    stream: LoggedStream,
    sees: Visibility,
    states: FoldedStates,
    pod: str,
    attempt: int | None,
    node: str,
    plugins: list[Path],
) -> WhyNot:
    sees.require_whole("why-not")
    try:
        with stream.log.one_connection():
            asked = asked_attempt(stream.evidence(), pod, attempt, node)
        return why_not(
            asked, node, stream.log, lambda position: states.own(stream, str(position)), plugins
        )
    except NoPodError:
        raise
    except InputError as problem:
        where = problem.where.replace("--why-not", "node").removeprefix("--")
        raise InputError(where, problem.problem, problem.remedy) from None


def _explained(evidence: Evidence, pod: str, attempt: int | None, node: str | None) -> Explanation:
    try:
        return explain_newest(evidence, pod, attempt, node)
    except InputError as problem:
        if not problem.where.startswith("--"):
            raise
        remedy = problem.remedy.replace("--recompute", "`eventsched explain --recompute`")
        raise InputError(problem.where.removeprefix("--"), problem.problem, remedy) from None
