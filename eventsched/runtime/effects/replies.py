"""Which committed replies may be sent to the scheduler that asked (docs/extender-server.md).

Most are sent at once. The reply to a bind waits for the bind's outcome, because it says whether the
pod is on the node.
"""

from collections.abc import Sequence

import msgspec

from eventsched.domain import records
from eventsched.domain.records import ExtenderReplied
from eventsched.domain.records.log_entry import LogEntry


class Replies:
    """The replies of a process; those to binds wait for their outcome."""

    def __init__(self) -> None:
        self._binds: dict[str, list[ExtenderReplied]] = {}

    def on_records(self, committed: Sequence[LogEntry]) -> list[ExtenderReplied]:
        """Takes in committed records. Returns the replies to send now; those to binds have their
        outcome."""
        replies: list[ExtenderReplied] = []
        for entry in committed:
            record = entry.record
            if not isinstance(record, ExtenderReplied):
                replies += self._bind_outcomes(record)
            elif record.waits:
                self._binds.setdefault(record.uid, []).append(record)
            else:
                replies.append(record)
        return replies

    def _bind_outcomes(self, record: records.Record) -> list[ExtenderReplied]:
        match record:
            case records.PodBound(uid=uid, node=node):
                return self._with_outcome(uid, node)
            case records.PodUpdated(pod=pod) if pod.node_name:
                return self._with_outcome(pod.uid, pod.node_name)
            case records.PodUnreserved(uid=uid, message=message):
                return self._with_outcome(uid, "", message or "the bind was given up")
            case records.PodDeleted(uid=uid):
                return self._with_outcome(uid, "", "the pod is gone")
            case records.TermBegan():
                self._binds.clear()  # the schedulers that wait ask again
        return []

    def _with_outcome(self, uid: str, node: str, problem: str = "") -> list[ExtenderReplied]:
        """The waiting replies about a pod that is on ``node``, or that has a ``problem``."""
        replies = []
        for replied in self._binds.pop(uid, ()):
            outcome = problem or ("" if node == replied.node else f"the pod is on {node}")
            replies.append(msgspec.structs.replace(replied, problem=outcome))
        return replies
