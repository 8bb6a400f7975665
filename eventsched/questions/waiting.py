"""Which pods wait, in which order, and what for; and what goes wrong."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import msgspec

from eventsched.domain.errors import InputError
from eventsched.history.past_state.anomalies import stored_anomalies
from eventsched.history.past_state.wait_estimates import wait_estimates
from eventsched.history.past_state.waiting_pods import (
    WaitingPlace,
    waiting_places,
    waiting_pod,
)
from eventsched.output.queues.anomaly_output import anomalies_json
from eventsched.output.queues.queue_output import first_of_queues, queue_text, waiting_json
from eventsched.output.state_output import place_text
from eventsched.output.terminal.display import PLAIN, Display
from eventsched.output.time_format import iso
from eventsched.questions.answer_shapes import (
    AnomaliesAnswer,
    QueueAnswer,
    QueuedRow,
)
from eventsched.questions.past.past_anomalies import past_anomalies
from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.streams import LoggedStream, present_after
from eventsched.questions.visibility import Visibility
from eventsched.runtime.queries.logged_assembly import assembly_in_force
from eventsched.runtime.queries.state_at import FoldedState
from eventsched.scheduling.framework.profile import Profile

MOST_IN_WORDS = 1_000
"""Pods of the queues that are shown in full at most."""


def queue_page(
    stream: LoggedStream,
    sees: Visibility,
    folded: FoldedState,
    queue: str | None,
    offset: int,
    limit: int,
    plugins: list[Path],
    *,
    is_now: bool,
) -> QueueAnswer:
    """The waiting pods of a state, of one queue or of all, from number ``offset`` on. With
    ``is_now`` the clock goes on since the last record. Raises InputError."""
    profiles = assembly_in_force(folded, stream.name, plugins).profiles
    waiting = _waiting(sees, folded, queue, profiles)
    now = present_after(folded.state.now) if is_now else folded.state.now
    end = offset + limit
    shown = [waiting_pod(folded.state, profiles, each) for each in waiting[offset:end]]
    guesses = wait_estimates(stream.log, folded.position, now, shown)
    return QueueAnswer(
        stream=stream.name,
        position=folded.position,
        now=iso(now),
        counts=dict(Counter(each.place for each in waiting)),
        pods=[
            msgspec.convert(waiting_json(each, now, guesses.get(each.pod_state.pod.uid)), QueuedRow)
            for each in shown
        ],
        next=end if end < len(waiting) else None,
    )


def queue_words(
    stream: LoggedStream,
    sees: Visibility,
    folded: FoldedState,
    queue: str | None,
    plugins: list[Path],
    *,
    is_now: bool,
    full: bool,
    wide: bool,
    display: Display = PLAIN,
) -> str:
    """All of them in words, as ``eventsched queue`` prints them: without ``full`` the first of
    each queue, if ``wide`` with more columns. Raises InputError, also if they are more than
    MOST_IN_WORDS and ``full``."""
    profiles = assembly_in_force(folded, stream.name, plugins).profiles
    places = _waiting(sees, folded, queue, profiles)
    waiting = [waiting_pod(folded.state, profiles, each) for each in places]
    if full and len(waiting) > MOST_IN_WORDS:
        remedy = "leave it out, name a queue, or take JSON in pages"
        raise InputError("full", f"{len(waiting)} pods wait", remedy)
    now = present_after(folded.state.now) if is_now else folded.state.now
    shown = waiting if full else first_of_queues(waiting)
    guesses = wait_estimates(stream.log, folded.position, now, shown)
    place = place_text({"position": folded.position, "now": folded.state.now}, stream.name)
    text = queue_text(waiting, now, guesses, full=full, wide=wide, display=display)
    return f"{place}\n\n{text}"


def _waiting(
    sees: Visibility, folded: FoldedState, queue: str | None, profiles: Mapping[str, Profile]
) -> list[WaitingPlace]:
    """The places of the pods that may be seen, of one queue or of all."""
    return [
        each
        for each in waiting_places(folded.state, profiles)
        if queue in (None, each.place) and sees.sees(each.pod_state.pod.namespace)
    ]


def anomalies_answer(
    stream: LoggedStream, sees: Visibility, limit: int, past: PastPods | None = None
) -> AnomaliesAnswer:
    """The anomalies of a stream, or of its ``past``, at most ``limit`` of each kind. Raises
    UnavailableError."""
    if past is None:
        visible, values = sees.condition("v.namespace")
        found = stored_anomalies(stream.rows.of_views, stream.name, limit, visible, values)
    else:
        found = past_anomalies(stream, sees, past, limit)
    return msgspec.convert(anomalies_json(stream.name, found, limit), AnomaliesAnswer)
