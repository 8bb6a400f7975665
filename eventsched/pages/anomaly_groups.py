"""Anomalies of one kind, those of one workload together."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eventsched.domain.workload_kinds import POD, SHORT_KINDS


class AnomalyGroup(NamedTuple):
    """Anomalies of pods with one owner; ``kind`` and ``name`` are "" for a pod without one, which
    is a group of its own."""

    namespace: str
    kind: str
    name: str
    cases: list[Mapping[str, Any]]

    @property
    def short_kind(self) -> str:
        """The word for its kind in the path of the workload's page; "" for a kind without one."""
        return SHORT_KINDS.get(self.kind, "")

    @property
    def pods(self) -> int:
        """How many pods they are about."""
        return len({each["uid"] for each in self.cases})


def anomaly_groups(cases: Sequence[Mapping[str, Any]]) -> list[AnomalyGroup]:
    """The anomalies by owner, in the order of the first one of each."""
    groups: dict[tuple[str, str, str, str], AnomalyGroup] = {}
    for each in cases:
        kind, name = each["facts"].get("owner_kind"), each["facts"].get("owner_name")
        if not (kind and name) or kind == POD:
            kind = name = ""
        key = (each["namespace"], kind, name, "" if name else each["uid"])
        groups.setdefault(key, AnomalyGroup(each["namespace"], kind, name, [])).cases.append(each)
    return list(groups.values())
