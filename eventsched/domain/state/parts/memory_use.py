"""Which entries of the plugins' memory are in use, and since when the others are not.

An entry is in use while the pod that ``MemoryChanged.used_by`` names exists. Any other entry counts
as unused since its last change, or since its pod was deleted.

The entries of a plugin that no profile runs stay, so that they are there when a change of the
configuration is rolled back. They need no bound of their own: only the plugin itself adds entries,
so there are never more than when it ran last. Its bounds hold again once a profile runs it.
"""

from collections.abc import Mapping
from typing import Any

_GAPS = 1000
"""A dictionary with this many removed keys, and an eighth of its size, is copied: to find the first
key takes longer the more were removed before it."""

_NOTHING: Mapping[str, int] = {}


class MemoryUse:
    """Follows the entries of streams with the behaviour BOUNDS_MEMORY; empty in all others."""

    def __init__(self) -> None:
        self._unused: dict[str, dict[str, int]] = {}
        """Plugin → key → since when (µs), in that order."""
        self._gaps: dict[str, int] = {}
        """Plugin → keys removed from that dictionary since it was copied."""
        self._users: dict[str, dict[str, str]] = {}
        """Plugin → key → uid of the pod that uses it."""
        self._used: dict[str, set[tuple[str, str]]] = {}
        """Uid → (plugin, key) of the entries that the pod uses."""

    def unused(self, plugin: str) -> Mapping[str, int]:
        """A plugin's entries that no pod uses, and since when (µs), in that order."""
        return self._unused.get(plugin, _NOTHING)

    def users(self, plugin: str) -> Mapping[str, str]:
        """A plugin's entries in use, and the uids of their pods."""
        return self._users.get(plugin, {})

    def plugins(self) -> list[str]:
        """The plugins with an entry, sorted."""
        both = self._unused.keys() | self._users.keys()
        return sorted(name for name in both if self.unused(name) or self.users(name))

    def plugins_of(self, uid: str) -> list[str]:
        """The plugins of which a pod uses an entry, sorted."""
        return sorted({plugin for plugin, _ in self._used.get(uid, ())})

    def changed(self, plugin: str, key: str, uid: str, now: int) -> None:
        """An entry has a new value. ``uid`` is the pod that uses it, "" if there is none."""
        self.removed(plugin, key)
        if uid:
            self._users.setdefault(plugin, {})[key] = uid
            self._used.setdefault(uid, set()).add((plugin, key))
        else:
            self._unused.setdefault(plugin, {})[key] = now

    def removed(self, plugin: str, key: str) -> None:
        """An entry is gone."""
        uid = self._users.get(plugin, {}).pop(key, "")
        if uid:
            entries = self._used[uid]
            entries.discard((plugin, key))
            if not entries:
                del self._used[uid]
        elif plugin in self._unused:
            unused = self._unused[plugin]
            if unused.pop(key, None) is not None:
                self._gaps[plugin] = self._gaps.get(plugin, 0) + 1
                if self._gaps[plugin] > _GAPS + len(unused) // 8:
                    self._unused[plugin] = dict(unused.items())  # dict(unused) may keep the gaps
                    self._gaps[plugin] = 0

    def pod_deleted(self, uid: str, now: int) -> None:
        """The entries that a pod used are unused from now on."""
        if uid in self._used:
            for plugin, key in sorted(self._used[uid]):
                self.changed(plugin, key, "", now)

    def begin(self, memory: Mapping[str, Mapping[str, Any]], now: int) -> None:
        """Follows the entries of a memory, all of them unused since now."""
        self.clear()
        for plugin in memory:
            for key in sorted(memory[plugin]):
                self.changed(plugin, key, "", now)

    def clear(self) -> None:
        """Follows nothing any more."""
        self._unused.clear()
        self._gaps.clear()
        self._users.clear()
        self._used.clear()

    def put_back(self, plugin: str, users: Mapping[str, str], unused: Mapping[str, int]) -> None:
        """Fills an empty one from a snapshot."""
        for key, uid in users.items():
            self.changed(plugin, key, uid, 0)
        for key, since in unused.items():
            self.changed(plugin, key, "", since)
