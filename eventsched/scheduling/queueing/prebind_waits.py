"""Which pods a change of an object concerns, of those that wait for what PreBind needs.

A cache of what ``prepared`` has answered: a pod of which nothing is known, as after a restart,
is concerned by every change; asking once too often changes nothing.
"""

from collections.abc import Iterable

from eventsched.scheduling.framework.wait_results import ObjectKey


class PreBindWaitIndex:
    """Pods by the objects that they wait for."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[ObjectKey]] = {}
        self._pods: dict[ObjectKey, dict[str, None]] = {}
        self._unknown: dict[str, None] = {}

    def note(self, uid: str, *, waits: bool) -> None:
        """Takes in that a pod waits, or no longer does."""
        if waits and uid not in self._keys:
            self._unknown[uid] = None
        elif not waits:
            self._unknown.pop(uid, None)
            self._leave(uid)

    def keep(self, uid: str, objects: Iterable[ObjectKey]) -> None:
        """Takes in which objects a pod waits for now."""
        self._leave(uid)
        self._unknown.pop(uid, None)
        self._keys[uid] = frozenset(objects)
        for key in self._keys[uid]:
            self._pods.setdefault(key, {})[uid] = None

    def forget(self) -> None:
        """Drops all that was answered: somebody else has gone on from there."""
        self._unknown |= dict.fromkeys(self._keys)
        self._keys.clear()
        self._pods.clear()

    def concerned(self, key: ObjectKey) -> list[str]:
        """The pods that an object's change concerns, in no order."""
        return [*self._unknown, *self._pods.get(key, ())]

    def _leave(self, uid: str) -> None:
        for key in self._keys.pop(uid, ()):
            pods = self._pods[key]
            del pods[uid]
            if not pods:
                del self._pods[key]
