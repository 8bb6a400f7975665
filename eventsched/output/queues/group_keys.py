"""Names of groups of pods in requests: ``owner:NAMESPACE/KIND/NAME``, ``reason:PLUGIN/REASON``."""

from typing import NamedTuple

from eventsched.domain.errors import InputError

BY = ("owner", "reason")
"""What pods are grouped by."""
LONGEST_REASON = 300
"""Characters of a reason by which groups differ, so that the name of a group fits a request."""


class OwnerGroup(NamedTuple):
    """The pods of a controller; ``kind`` and ``name`` are "" for those of a namespace that have
    none."""

    namespace: str
    kind: str
    name: str

    @property
    def key(self) -> str:
        """The group's name."""
        return f"owner:{_escaped(self.namespace)}/{_escaped(self.kind)}/{self.name}"


class ReasonGroup(NamedTuple):
    """The pods whose last attempt failed with a refusal that is named first; ``plugin`` is "" if no
    single plugin refused, and ``reason``, too, for pods that were not refused."""

    plugin: str
    reason: str

    @property
    def key(self) -> str:
        """The group's name."""
        return f"reason:{_escaped(self.plugin)}/{self.reason}"


def reason_group(plugin: str | None, reason: str | None) -> ReasonGroup:
    """The group of a refusal."""
    return ReasonGroup(plugin or "", (reason or "")[:LONGEST_REASON])


def key_of_refusal(plugin: str | None, reason: str | None) -> str | None:
    """The name of the group of a refusal; None without one, which pods on nodes have, too."""
    return reason_group(plugin, reason).key if plugin or reason else None


def read_group(text: str) -> OwnerGroup | ReasonGroup:
    """The group of a name. Raises InputError."""
    by, _, rest = text.partition(":")
    parts = rest.split("/", 2 if by == "owner" else 1)
    if by == "owner" and len(parts) == 3:
        return OwnerGroup(_plain(parts[0]), _plain(parts[1]), parts[2])
    if by == "reason" and len(parts) == 2:
        return ReasonGroup(_plain(parts[0]), parts[1])
    remedy = "take the key of a group of /pods/groups"
    raise InputError("group", f"{text!r} is not the name of a group", remedy)


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("/", "%2F")


def _plain(part: str) -> str:
    return part.replace("%2F", "/").replace("%25", "%")
