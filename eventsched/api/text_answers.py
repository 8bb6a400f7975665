"""Answers in words, for clients that accept ``text/plain``: what the commands print."""

from collections.abc import Callable, Mapping

from eventsched.api import parameters as p
from eventsched.api.desk.asked import Asked
from eventsched.api.desk.present_or_past import end_of, pod_of_path, workload_of_path
from eventsched.questions.explanations import pod_remedies_text, pod_story, workload_story
from eventsched.questions.waiting import queue_words

TEXT_TYPE = "text/plain"


def _explain(asked: Asked) -> str:
    values = asked.values
    asked.sees.require(values["namespace"], "namespace")
    stream = asked.stream()
    return pod_story(
        stream, asked.sees, pod_of_path(asked, stream), values["attempt"], values["node"],
        p.display_of(values), end_of(asked, stream), full=values["full"],
    )  # fmt: skip


def _why_not(asked: Asked) -> str:
    asked.sees.require_whole("why-not")  # before it shows whether a pod exists
    values, stream = asked.values, asked.stream()
    return pod_remedies_text(
        stream, asked.sees, asked.desk.states, pod_of_path(asked, stream), values["attempt"],
        values["node"], list(asked.desk.plugins), p.display_of(values),
    )  # fmt: skip


def _workload(asked: Asked) -> str:
    values, word = asked.values, workload_of_path(asked)
    return workload_story(
        asked.stream(), asked.sees, asked.desk.states, values["namespace"], word,
        list(asked.desk.plugins), p.display_of(values), full=values["full"],
    )  # fmt: skip


def _queue(asked: Asked) -> str:
    values, stream, plugins = asked.values, asked.stream(), list(asked.desk.plugins)
    with asked.desk.states.at(stream, values["at"]) as folded:
        return queue_words(
            stream, asked.sees, folded, values["queue"], plugins, is_now=values["at"] is None,
            full=values["full"], wide=values["wide"], display=p.display_of(values),
        )  # fmt: skip


TEXTS: Mapping[str, Callable[[Asked], str]] = {
    "/pods/{namespace}/{name}/explain": _explain,
    "/pods/{namespace}/{name}/why-not": _why_not,
    "/workloads/{namespace}/{kind}/{name}/explain": _workload,
    "/queue": _queue,
}
"""What makes the text of an operation, by its path."""
