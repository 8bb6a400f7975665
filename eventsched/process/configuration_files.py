"""Notices that a configuration file or a plugin file has changed.

The content is read every few seconds. So every way to change a file is noticed: an editor that
writes it in place or replaces it, and the kubelet, which replaces the link ``..data`` of a mounted
ConfigMap.
"""

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from eventsched.domain.errors import InputError

Content = tuple[bytes | None, ...]
"""A digest of each file's content; None for a file that cannot be read."""


class ConfigurationFiles:
    """The configuration file and the plugin files of a process. Make it before they are read."""

    def __init__(self, config: Path, plugins: Sequence[Path] = ()) -> None:
        self.config = config
        self._plugins = tuple(plugins)
        self.in_force = self.handled = self._previous = self.content()
        """``in_force``: what the process runs with. ``handled``: what was last taken up or
        refused."""

    def content(self) -> Content:
        """What the files hold now."""
        return tuple(map(_digest, (self.config, *self._plugins)))

    def changed(self) -> bool:
        """Whether the files have changed since they were handled. A change counts from the second
        call on that finds the same content, because a file may be only half written."""
        content = self.content()
        is_settled, self._previous = content == self._previous, content
        return is_settled and content != self.handled

    def require_same_plugins(self, content: Content) -> None:
        """Raises InputError if a plugin file is not as it was when it was loaded. A module that is
        loaded again would be a second one beside the first, with state of its own."""
        for path, digest, loaded in zip(self._plugins, content[1:], self.in_force[1:], strict=True):
            if digest != loaded:
                raise InputError(
                    str(path),
                    "has changed, and Python code is loaded only at a start",
                    "restart the process, or restore the file",
                )


def _digest(path: Path) -> bytes | None:
    try:
        return blake2b(path.read_bytes(), digest_size=16).digest()
    except OSError:
        return None
