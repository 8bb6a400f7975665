"""The Events and pod conditions that must exist at the end, according to a log.

Computed from the records alone, without the product's code (runtime/effects/event_drafts.py).
"""

from eventsched.cluster.messages import WriteEvent
from eventsched.domain import records
from eventsched.domain.records import Outcome
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState

from .apiserver import ApiServer
from .cluster import STREAM


class ExpectedReports:
    """Reads a log, record by record. ``named`` are the ids of all decisions, including those of
    lost history."""

    def __init__(self, named: set[str]) -> None:
        self.named = named
        self._token = ""
        self._intents: dict[str, str] = {}
        self._victims: dict[str, tuple[str, str]] = {}
        self._events: dict[tuple[str, str], tuple[str, str]] = {}
        """Name of the pod and decision id → reason and prefix of the note."""
        self._failures: dict[str, str] = {}
        """Uid → the message of the last attempt; "" if its text is not checked."""
        self._notes: dict[str, tuple[str, str]] = {}
        """By decision id: name of the pod and message of each failed attempt."""
        self._lost: set[tuple[str, str]] = set()
        """The same of attempts whose records were lost. A condition shows them until the pod is
        tried again, because the log says that those before them were reported."""

    def note_lost(self, before: "ExpectedReports") -> None:
        """Notes what a longer log had that this one no longer has."""
        gone = before._notes.keys() - self._notes.keys()
        self._lost |= before._lost | {before._notes[decision] for decision in gone}

    def read(self, logged: LogEntry, state: SchedulerState) -> None:
        """Reads the next record, before it is applied."""
        record = logged.record
        decision = f"{STREAM}/{logged.position}@{self._token}"
        match record:
            case records.TermBegan(token=token):
                self._token = token
            case records.PodDecided(outcome=Outcome.SCHEDULED) | records.BindIntended():
                self._intents[record.uid] = decision
                self.named.add(decision)
            case records.PodDecided(uid=uid):
                self.named.add(decision)
                pod = state.pods[uid].pod
                if record.outcome is not Outcome.WAITING and not pod.deleting:
                    self._failures[uid] = record.message if not record.node else ""
                    self._notes[decision] = pod.name, self._failures[uid]
            case records.PodSkipped():
                self.named.add(decision)
            case records.PodUnreserved(uid=uid):
                self._failures[uid] = ""
                self.named.add(decision)
            case records.PodBound(uid=uid, node=node):
                name = state.pods[uid].pod.name
                note = f"Successfully assigned {state.pods[uid].pod.namespace}/{name} to {node}"
                self._events[name, self._intents[uid]] = "Scheduled", note
            case records.PreemptionDecided():
                self.named.add(decision)
                for uid in record.evicted:
                    self._victims[uid] = state.pods[uid].pod.name, decision
            case records.EvictionSucceeded(uid=uid) if uid in self._victims:
                self._events[self._victims.pop(uid)] = "Preempted", "Preempted by pod "
            case records.PodDeleted(uid=uid):
                self._victims.pop(uid, None)
                self._failures.pop(uid, None)

    def allows(self, event: WriteEvent) -> str:
        """Why an event must not be sent; "" if it may."""
        return "" if event.key in self.named else f"{event.note!r}: no decision was committed"

    def missing(self, state: SchedulerState, api: ApiServer) -> str:
        """The first missing report; "" if there is none."""
        for key, (reason, note) in self._events.items():
            event = api.events.get(key)
            if event is None or event.reason != reason or not event.note.startswith(note):
                return f"no event reports {reason} of {key}, but {event}"
        reported = {(event.name, event.note) for event in api.events.values()}
        for name, note in self._notes.values():
            if note and (name, note) not in reported:
                return f"no event reports {note!r} of {name}"
        for uid, seen in api.pods.items():
            if seen.pod.node_name:
                continue
            condition, failure = api.conditions.get(uid, ("", "")), self._failures.get(uid)
            is_lost = (seen.pod.name, condition[1]) in self._lost
            is_shown = is_lost or (failure or "") in condition[1]
            if failure is not None and not (condition[0] and is_shown):
                return f"the condition of {uid} is {condition}, not {failure!r}"
            nominated = state.preemptions.node(uid)
            if seen.pod.nominated_node != nominated:
                return f"{uid} is nominated to {nominated!r}, not {seen.pod.nominated_node!r}"
        return ""
