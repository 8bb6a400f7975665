"""Replies to a scheduler that uses eventsched as its extender (docs/extender-server.md).

Verdicts and scores are those of ``judge``, with the profile that the stream serves; a bind becomes
a reservation and an intent, like every bind. The pods belong to the calling scheduler and are
never in a queue here. Upstream, the other side: pkg/scheduler/extender.go.
"""

from copy import copy
from typing import Any

import numpy as np

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_views import PodStep, TrialView
from eventsched.domain.nodes.row_ranges import ranges, rows_of
from eventsched.domain.records import (
    BindIntended,
    ExtenderInquired,
    ExtenderReplied,
    Victims,
)
from eventsched.domain.records.extender_records import BIND, FILTER, PREEMPT
from eventsched.domain.records.verdicts import Code
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.cycle.cycle_keys import KEY_EXCLUDED, KEY_NO_NODE, KEY_PASSES, CycleKey
from eventsched.scheduling.cycle.judgement import Judgement, judge
from eventsched.scheduling.cycle.work_budget import over_budget_message
from eventsched.scheduling.framework import PluginError
from eventsched.scheduling.framework.cycle_context import MemoryUpdate
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.memory_writer import MemoryWriter

MAX_SCORE = 10
"""The best score (upstream: extender/v1 MaxExtenderPriority)."""
GONE = "node(s) are not known to the extender any more"


class ExtenderServer:
    """Replies to inquiries, as records."""

    def __init__(self, step: EngineStep, classes: ClassCache, memory_writer: MemoryWriter) -> None:
        self._step = step
        self._classes = classes
        self._memory_writer = memory_writer
        self._unsampled: Profile | None = None
        self._remembered: list[MemoryUpdate] = []

    def reply(self, inquiry: ExtenderInquired) -> None:
        """Emits the reply to an inquiry that was just committed."""
        fields: dict[str, Any]
        try:
            fields = (
                self._bind_reply(inquiry) if inquiry.verb == BIND else self._judged_reply(inquiry)
            )
        except PluginError as error:
            fields = {"problem": str(error)}
        reply = ExtenderReplied(number=inquiry.number, uid=inquiry.uid, verb=inquiry.verb, **fields)
        self._step.emit(reply)
        self._memory_writer.write(self._remembered)
        self._remembered = []
        if reply.attempt:
            intent = BindIntended(uid=reply.uid, node=reply.node, attempt=reply.attempt)
            self._step.emit(intent)

    # --- verdicts and scores --------------------------------------------------------------

    def _judged_reply(self, inquiry: ExtenderInquired) -> dict[str, Any]:
        """The fields of the reply to any other inquiry. Raises PluginError."""
        state, profile = self._step.state, self._profile
        known = state.pods.get(inquiry.uid)
        pod = inquiry.sent if known is None else known.pod
        if profile is None:
            return {"problem": "no profile is served"}
        if pod is None:
            return {"problem": "the pod is gone"}
        reservation = state.reservations.get(pod.uid)
        if reservation is not None and Behaviour.JUDGES_NO_OPEN_BIND in state.flags:
            # A refusal would be final for the other scheduler: nothing that it sees wakes the pod
            # when the reservation ends. After an error it tries again.
            return _being_bound(reservation)
        if problem := over_budget_message(pod, state.nodes.live, state.work_budget):
            return {"problem": problem}
        cycle = self._step.cycle(1)
        self._remembered = cycle.remembered
        judgement = judge(
            state.nodes, self._classes, profile, pod, cycle,
            preemptions=state.preemptions, nominated=state.preemptions.node(pod.uid),
        )  # fmt: skip
        if judgement.refusal is not None and not judgement.refusal[1].rejected:
            return {"problem": ", ".join(judgement.refusal[1].reasons)}
        if inquiry.verb == PREEMPT:
            return {"victims": _victims(judgement, inquiry)}
        rows = rows_of(inquiry.nodes)
        if inquiry.verb == FILTER:
            return _filter_reply(judgement, rows)
        if judgement.problem is not None:
            raise judgement.problem
        return {"scores": _scores(judgement.totals[rows], rows, inquiry.nodes)}

    @property
    def _profile(self) -> Profile | None:
        """The served profile, applied to all nodes: the calling scheduler has selected them."""
        served = self._step.served_profile
        if served is not None and served.percentage:
            if self._unsampled is None or self._unsampled.name != served.name:
                self._unsampled = copy(served)
                self._unsampled.percentage = 0
            return self._unsampled
        return served

    # --- binds ----------------------------------------------------------------------------

    def _bind_reply(self, inquiry: ExtenderInquired) -> dict[str, Any]:
        """The fields of the reply to a bind inquiry."""
        state, node = self._step.state, inquiry.node
        known = state.pods.get(inquiry.uid)
        reservation = state.reservations.get(inquiry.uid)
        if known is None:
            return {"problem": "the pod is not known (yet)"}
        if known.bound:
            on = known.pod.node_name
            return {"node": on} if on == node else {"problem": f"the pod is on {on} already"}
        if reservation is not None:
            if reservation.node == node and reservation.intended:
                return {"node": node, "waits": True}
            return _being_bound(reservation)
        if known.pod.deleting:
            return {"problem": "the pod is being deleted"}
        if node not in state.nodes.rows:
            return {"problem": f"node {node} is not known"}
        if self._step.scheduling_profile(known) is not None:
            return {"problem": "this scheduler places the pod itself"}
        return {"node": node, "attempt": known.attempts + 1, "waits": True}


def _being_bound(reservation: Reservation) -> dict[str, Any]:
    return {"problem": f"the pod is being bound to {reservation.node}"}


def _filter_reply(judgement: Judgement, rows: Rows) -> dict[str, Any]:
    """The refused rows by reason, in the order of filters."""
    groups: dict[str, dict[str, list[Rows]]] = {"failed": {}, "unresolvable": {}}
    for key, refused in _rows_by_key(judgement, rows):
        kind, reason = _refusal(judgement, key)
        groups[kind].setdefault(reason, []).append(refused)
    return {
        kind: {reason: ranges(np.sort(np.concatenate(parts))) for reason, parts in reasons.items()}
        for kind, reasons in groups.items()
    }


def _rows_by_key(judgement: Judgement, rows: Rows) -> list[tuple[CycleKey, Rows]]:
    """The refused rows by their refusal."""
    keys = judgement.keys[rows]
    if np.count_nonzero(keys == KEY_PASSES) == len(keys):
        return []  # saves the sort
    return [(key, rows[keys == key]) for key in np.unique(keys).tolist() if key != KEY_PASSES]


def _refusal(judgement: Judgement, key: CycleKey) -> tuple[str, str]:
    """("failed" or "unresolvable", reason) of a key. Raises PluginError for the status Error."""
    if key == KEY_NO_NODE:
        return "failed", GONE
    if judgement.refusal is not None:
        code, reasons = judgement.refusal[1].code, judgement.refusal[1].reasons
    else:
        verdict = judgement.verdict(key)
        code, reasons = verdict.code, verdict.reasons
    return "unresolvable" if code is Code.UNRESOLVABLE else "failed", ", ".join(reasons)


def _scores(totals: Rows, rows: Rows, nodes: str) -> tuple[tuple[int, str], ...]:
    """0..10 in proportion to the best of these nodes, rounded; 0 for refused nodes. ``nodes``
    are the rows as text."""
    best = int(totals.max(initial=0))
    if best <= 0:
        return ()
    scaled = (np.maximum(totals, 0) * MAX_SCORE * 2 + best) // (2 * best)
    distinct = np.flatnonzero(np.bincount(scaled)).tolist()
    if len(distinct) == 1:
        return ((distinct[0], nodes),)
    return tuple((score, ranges(rows[scaled == score])) for score in distinct if score)


# --- preemption ---------------------------------------------------------------------------


def _victims(judgement: Judgement, inquiry: ExtenderInquired) -> dict[str, Victims]:
    """The candidates on which the pod would pass all filters without the victims. Raises
    PluginError."""
    rows = rows_of(inquiry.nodes)
    rows = rows[~np.isin(judgement.keys[rows], (KEY_NO_NODE, KEY_EXCLUDED))]
    if not len(rows) or judgement.dry_run is None:
        return {}
    table, steps = judgement.dry_run.table, []
    names = [table.names[row] for row in rows.tolist()]
    for position, name in enumerate(names):
        residents = table.residents[table.rows[name]]
        pods = [residents.get(uid) for uid in inquiry.candidates[name].uids]
        steps += [PodStep(position, pod, -1) for pod in pods if pod is not None]
    keys = judgement.dry_run.keys_with_nominated(
        TrialView(table, rows, steps), judgement.dry_run.nominated_by_position(rows)
    )
    return {
        name: inquiry.candidates[name]
        for name, key in zip(names, keys.tolist(), strict=True)
        if key == KEY_PASSES
    }
