"""Which replies to a scheduler that asks us may leave, once they are committed.

Most at once. One to a bind waits for its outcome: an answer says that the pod is on the node.
"""

from collections.abc import Sequence

import msgspec

from eventsched.domain import records
from eventsched.domain.records.extender_replies import ExtenderReplied
from eventsched.domain.records.logged import Logged


class Replies:
    """The replies of a process, and the binds under way that some of them wait for."""

    def __init__(self) -> None:
        self._binds: dict[str, list[ExtenderReplied]] = {}

    def observe(self, committed: Sequence[Logged]) -> list[ExtenderReplied]:
        """Takes in committed records; the replies that may leave now, those to binds with what came
        of them."""
        found: list[ExtenderReplied] = []
        for each in committed:
            record = each.record
            if not isinstance(record, ExtenderReplied):
                found += self._ended(record)
            elif record.waits:
                self._binds.setdefault(record.uid, []).append(record)
            else:
                found.append(record)
        return found

    def _ended(self, record: records.Record) -> list[ExtenderReplied]:
        match record:
            case records.PodBound(uid=uid, node=node):
                return self._told(uid, node)
            case records.PodUpdated(pod=pod) if pod.node_name:
                return self._told(pod.uid, pod.node_name)
            case records.PodUnreserved(uid=uid, message=message):
                return self._told(uid, "", message or "the bind was given up")
            case records.PodDeleted(uid=uid):
                return self._told(uid, "", "the pod is gone")
            case records.TermBegan():
                self._binds.clear()  # whoever waits asks again
        return []

    def _told(self, uid: str, node: str, problem: str = "") -> list[ExtenderReplied]:
        found = []
        for replied in self._binds.pop(uid, ()):
            said = problem or ("" if node == replied.node else f"the pod is on {node}")
            found.append(msgspec.structs.replace(replied, problem=said))
        return found
