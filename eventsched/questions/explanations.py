"""Why a pod is where it is, or nowhere; and what would have to change for another node."""

from pathlib import Path
from typing import Any

from eventsched.cli.output.explain_output import story_json
from eventsched.cli.output.why_not_output import why_not_json
from eventsched.cli.output.workload_output import workload_json
from eventsched.cli.why_not import why_not
from eventsched.domain.errors import InputError
from eventsched.history.explain.explanation import Explanation, NoPodError, explain
from eventsched.history.explain.workloads.stored_workload import stored_workload
from eventsched.history.explain.workloads.workload import parse_target
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility, visible_evidence


def pod_explanation(
    stream: LoggedStream, sees: Visibility, pod: str, attempt: int | None, node: str | None
) -> dict[str, Any]:
    """The story of a pod (``namespace/name``, a uid), as ``eventsched explain -o json`` prints it.
    Raises InputError, also NoPodError and NotVisibleError."""
    return story_json(_explained(stream, sees, pod, attempt, node))


def pod_remedies(
    stream: LoggedStream,
    sees: Visibility,
    pod: str,
    attempt: int | None,
    node: str,
    plugins: list[Path],
) -> dict[str, Any]:
    """The smallest changes with which a pod lands on a node, as ``eventsched explain --why-not -o
    json`` prints them. ``plugins`` are files with plugins that the stream was written with. Raises
    InputError, also NoPodError and NotVisibleError."""
    sees.require_whole("why-not")
    explained = _explained(stream, sees, pod, attempt, None)
    try:
        found = why_not(explained, node, stream.log, stream.log, plugins)
    except InputError as problem:
        raise InputError(
            problem.where.replace("--why-not", "node"), problem.problem, problem.remedy
        ) from None
    return why_not_json(found, stream.name)


def workload_explanation(
    stream: LoggedStream, sees: Visibility, namespace: str, word: str
) -> dict[str, Any]:
    """The pods of a workload (``deploy/NAME``) by the reason why they wait, as ``eventsched explain
    -o json`` prints them. Raises InputError."""
    sees.require(namespace, "namespace")
    try:
        workload = stored_workload(stream.log, parse_target(word, namespace))
    except NoPodError as problem:
        if sees.is_whole:
            raise
        # The remedy names workloads of all namespaces.
        raise NoPodError(problem.where, problem.problem, "check the name") from None
    return workload_json(workload, stream.name)


def _explained(
    stream: LoggedStream, sees: Visibility, pod: str, attempt: int | None, node: str | None
) -> Explanation:
    try:
        return explain(visible_evidence(stream, sees), pod, attempt, node, None)
    except InputError as problem:
        if not problem.where.startswith("--"):
            raise
        remedy = problem.remedy.replace("--recompute", "`eventsched explain --recompute`")
        raise InputError(problem.where.removeprefix("--"), problem.problem, remedy) from None
