"""The controller that a filter of pods names: ``NAME``, or ``KIND/NAME`` as on a pod's page."""

from typing import Any, NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.workload_kinds import (
    DEPLOYMENT,
    HASH_PATTERN,
    POD_GROUP,
    REPLICA_SET,
    SHORT_KINDS,
    kind_of,
)
from eventsched.history.explain.workloads.workload import deployment_of


class NamedOwner(NamedTuple):
    """A controller; ``kind`` is "" for any. A Deployment has the pods of the ReplicaSets that are
    called as its own are. A name alone means it, too: their hashes are nothing that people type."""

    kind: str
    name: str

    def has(self, kind: str | None, name: str | None) -> bool:
        """Whether pods of a controller of this kind and name are meant."""
        is_set_of_it = kind == REPLICA_SET and deployment_of(name or "") == self.name != ""
        if self.kind == DEPLOYMENT:
            return is_set_of_it
        return (self.kind in ("", kind) and name == self.name) or (not self.kind and is_set_of_it)

    def condition(self, values: dict[str, Any]) -> str:
        """The same as SQL about rows n; what it needs is added to ``values``."""
        sets = ""
        if self.kind in ("", DEPLOYMENT):
            begin = f"{self.name}-"
            values |= {"set_kind": REPLICA_SET, "set_begin": begin, "set_rest": len(begin) + 1}
            values["set_hash"] = f"^{HASH_PATTERN}$"
            sets = (
                "n.owner_kind = :set_kind AND starts_with(n.owner_name, :set_begin)"
                " AND substr(n.owner_name, :set_rest) ~ :set_hash"
            )
        if self.kind == DEPLOYMENT:
            return f" AND {sets}"
        values["owner"] = self.name
        if not self.kind:
            return f" AND (n.owner_name = :owner OR ({sets}))"
        values["owner_kind_asked"] = self.kind
        return " AND n.owner_name = :owner AND n.owner_kind = :owner_kind_asked"


def read_owner(text: str) -> NamedOwner:
    """The controller that a filter names. Raises InputError."""
    prefix, slash, name = text.rpartition("/")
    kind = (kind_of(prefix) or prefix) if slash else ""
    if slash and (not name or "/" in prefix or kind == POD_GROUP):
        remedy = "take its name, or KIND/NAME: deploy/web, sts/db, job/report"
        raise InputError("owner", f"{text!r} is not a controller", remedy)
    return NamedOwner(kind, name)


def names_of_owner(kind: str | None, name: str | None, *, with_kind: bool) -> list[str]:
    """How a filter can name a controller: with its kind, also as the Deployment that it is of."""
    if not name:
        return []
    if not with_kind:
        return [name]
    names = [f"{SHORT_KINDS.get(kind or '', kind)}/{name}"]
    if kind == REPLICA_SET and (deployment := deployment_of(name)):
        names.append(f"{SHORT_KINDS[DEPLOYMENT]}/{deployment}")
    return names
