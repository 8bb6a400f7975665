"""How new what a leader has seen of the cluster is: older news are told from newer ones."""

import sys

_FOREVER = sys.maxsize


class Sight:
    """The resourceVersions of one resource's objects, by key (uid or name).

    A watch tells its events in order, but may repeat some after a reconnect; an answer to a request
    of ours can be ahead of the watch.
    """

    def __init__(self) -> None:
        self.upto = 0
        """The watch has told all changes up to this resourceVersion."""
        self._versions: dict[str, int] = {}

    def version(self, key: str) -> int:
        """The newest resourceVersion in which an object was seen; 0 where it never was."""
        return self._versions.get(key, 0)

    def watched(self, key: str, version: int) -> bool:
        """Takes in an event of the watch; whether it is news."""
        if version <= self.upto:
            return False
        self.upto = version
        return self.answered(key, version)

    def vanished(self, key: str, version: int) -> bool:
        """Takes in that the watch saw an object's end; whether that is news."""
        if version <= self.upto:
            return False
        self.upto = version
        self._versions.pop(key, None)
        return True

    def answered(self, key: str, version: int) -> bool:
        """Takes in an object that was part of an answer; whether it is news."""
        if version <= self.version(key):
            return False
        self._versions[key] = version
        return True

    def absent(self, key: str) -> None:
        """An answer said that an object is gone: what the watch still tells of it is old."""
        self._versions[key] = _FOREVER

    def relisted(self, version: int, keys: set[str]) -> list[str]:
        """Takes in that a list of a resourceVersion has these objects; returns the others that were
        seen before, and are gone."""
        gone = [key for key in self._versions if key not in keys]
        for key in gone:
            del self._versions[key]
        self.upto = max(self.upto, version)
        return gone
