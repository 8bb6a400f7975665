"""An index from objects to the pods that wait for them in PreBind.

A cache of what the plugins' method ``prepared`` has answered. A pod without an answer, as after a
restart, is affected by every change; asking its plugins once too often is harmless.
"""

from collections.abc import Iterable

from eventsched.scheduling.framework.wait_results import ObjectKey


class PreBindWaitIndex:
    """Indexes pods by the objects that they wait for."""

    def __init__(self) -> None:
        self._keys: dict[str, frozenset[ObjectKey]] = {}
        self._pods: dict[ObjectKey, dict[str, None]] = {}
        self._unknown: dict[str, None] = {}

    def note(self, uid: str, *, waits: bool) -> None:
        """Records that a pod waits, or no longer does."""
        if waits and uid not in self._keys:
            self._unknown[uid] = None
        elif not waits:
            self._unknown.pop(uid, None)
            self._leave(uid)

    def set_objects(self, uid: str, objects: Iterable[ObjectKey]) -> None:
        """Records which objects a pod waits for now."""
        self._leave(uid)
        self._unknown.pop(uid, None)
        self._keys[uid] = frozenset(objects)
        for key in self._keys[uid]:
            self._pods.setdefault(key, {})[uid] = None

    def forget(self) -> None:
        """Drops all answers: another replica may have processed records since."""
        self._unknown |= dict.fromkeys(self._keys)
        self._keys.clear()
        self._pods.clear()

    def affected_pods(self, key: ObjectKey) -> list[str]:
        """The pods that a change of the object affects, in no particular order."""
        return [*self._unknown, *self._pods.get(key, ())]

    def _leave(self, uid: str) -> None:
        for key in self._keys.pop(uid, ()):
            pods = self._pods[key]
            del pods[uid]
            if not pods:
                del self._pods[key]
