"""Answers about the present or, with ``at``, about a position or time of the past."""

from typing import Any

from msgspec.structs import replace

from eventsched.api.desk.asked import Asked
from eventsched.api.desk.position_range import given_range
from eventsched.domain.errors import InputError
from eventsched.domain.workload_kinds import (
    GROUP,
    POD_GROUP,
    SHORT_KINDS,
    kind_of,
)
from eventsched.questions.attempts.timelines import pod_timeline
from eventsched.questions.decisions import decision_detail
from eventsched.questions.explanations import pod_explanation
from eventsched.questions.now import now_of
from eventsched.questions.overviews.grouped_pods import past_pod_groups, pod_groups
from eventsched.questions.overviews.recent_activity import RecentActivity, recent_activity
from eventsched.questions.overviews.unmatched_filters import unmatched
from eventsched.questions.past.now_at import now_at
from eventsched.questions.past.past_rows import past_pods_page
from eventsched.questions.past.positions import LogPosition, kept_position_of, log_position
from eventsched.questions.pods.pod_rows import PodRowFilter, count_of_pods, pods_page
from eventsched.questions.streams import LoggedStream

_FILTERS = (
    "namespace", "name", "name_contains", "owner", "state", "reason", "plugin", "node", "profile",
    "group", "ever",
)  # fmt: skip

_KINDS = {**SHORT_KINDS, POD_GROUP: GROUP}
"""The kinds of /workloads, with the word for each."""
_SHOWN = 100
"""Characters of a wrong value that are repeated."""


def position_answer(asked: Asked) -> LogPosition:
    """The place of a position or time in the log."""
    return log_position(asked.stream(), asked.values["at"])


def now_answer(asked: Asked) -> Any:
    """What happens, or happened."""
    stream, at, states = asked.stream(), asked.values["at"], asked.desk.states
    with_nodes = asked.values["nodes"]
    if at is not None:
        return now_at(stream, asked.sees, states.past(stream, at), with_nodes=with_nodes)
    nodes = states.filled(stream) if with_nodes else None
    return now_of(stream, asked.sees, nodes, with_nodes=with_nodes)


def activity_answer(asked: Asked) -> RecentActivity:
    """Decisions and waiting times in the hour before."""
    stream = asked.stream()
    return recent_activity(stream, asked.sees, end_of(asked, stream))


def fill_nodes(asked: Asked) -> Any:
    """Reads how full the nodes are now."""
    if asked.values["nodes"] and asked.values["at"] is None and asked.sees.is_whole:
        asked.desk.states.fill(asked.stream())


def pods_answer(asked: Asked) -> Any:
    """A page of pods."""
    values, stream = asked.values, asked.stream()
    wanted = _pod_filter(asked, stream)
    page = (values["sort"] or "", values["cursor"], values["limit"])
    if values["at"] is None:
        past, found = None, pods_page(stream, asked.sees, wanted, *page)
        if values["count"]:
            found = replace(found, total=count_of_pods(stream, asked.sees, wanted))
    else:
        past = asked.desk.states.past(stream, values["at"])
        found = past_pods_page(stream, asked.sees, past, wanted, *page)
        if not values["count"]:
            found = replace(found, total=None)
    if found.pods or found.next is not None or values["cursor"] is not None:
        return found
    return replace(found, unmatched=unmatched(stream, asked.sees, wanted, past))


def pod_groups_answer(asked: Asked) -> Any:
    """A page of groups of pods."""
    values, stream = asked.values, asked.stream()
    wanted = _pod_filter(asked, stream)
    page = (values["by"], values["offset"], values["limit"])
    if values["at"] is None:
        past, found = None, pod_groups(stream, asked.sees, wanted, *page)
    else:
        past = asked.desk.states.past(stream, values["at"])
        found = past_pod_groups(stream, asked.sees, past, wanted, *page)
    if found.pods:
        return found
    return replace(found, unmatched=unmatched(stream, asked.sees, wanted, past))


def _pod_filter(asked: Asked, stream: LoggedStream) -> PodRowFilter:
    low, high = given_range(asked, stream)
    filters = {name: asked.values[name] for name in _FILTERS if name in asked.values}
    return PodRowFilter(**filters, low=low, high=high)


def decision_answer(asked: Asked) -> Any:
    """A decision, with ``at`` as it was known then."""
    stream, position = asked.stream(), asked.values["position"]
    end = end_of(asked, stream)
    if end is not None and position >= end:
        problem = f"is not yet there at position {end}"
        raise InputError(f"position {position}", problem, "choose a later position or time")
    return decision_detail(stream, asked.sees, position, end)


def explanation_answer(asked: Asked) -> Any:
    """A pod's story."""
    values = asked.values
    asked.sees.require(values["namespace"], "namespace")
    stream = asked.stream()
    pod, end = pod_of_path(asked, stream), end_of(asked, stream)
    return pod_explanation(stream, asked.sees, pod, values["attempt"], values["node"], end)


def timeline_answer(asked: Asked) -> Any:
    """A pod's bars over time."""
    asked.sees.require(asked.values["namespace"], "namespace")
    stream = asked.stream()
    return pod_timeline(stream, asked.sees, pod_of_path(asked, stream), end_of(asked, stream))


def end_of(asked: Asked, stream: LoggedStream) -> int | None:
    """The position of ``at``; None for the present. Raises InputError."""
    at = asked.values["at"]
    return None if at is None else kept_position_of(stream, at)


def pod_of_path(asked: Asked, stream: LoggedStream) -> str:
    """The pod of the path, by name or by uid. Raises InputError."""
    name = f"{asked.values['namespace']}/{asked.values['name']}"
    if asked.values["uid"] is None:
        return name
    pods = stream.evidence().pods(asked.values["uid"])
    if not pods or pods[0].full_name != name:
        raise InputError("uid", f"is not one of {name}", "take one of its `older`")
    return pods[0].uid


def workload_of_path(asked: Asked) -> str:
    """The workload of the path, as ``deploy/NAME``: its kind is the kind's name or a short one, in
    any case, as kubectl takes it. Raises InputError."""
    kind = asked.values["kind"]
    word = _KINDS.get(kind_of(kind) or "")
    if word is None:
        problem = f"{kind[:_SHOWN]!r} is unknown"
        raise InputError("kind", problem, f"take one of {', '.join(_KINDS.values())}")
    return f"{word}/{asked.values['name']}"
