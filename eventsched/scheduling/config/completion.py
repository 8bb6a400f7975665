"""A configuration written out in full: all defaults, and the plugins of each profile by point.

As kube-scheduler's --write-config-to writes it (upstream: cmd/kube-scheduler app/options
configfile.go, NewFramework's captureProfile), but with multiPoint expanded. It has the same meaning
when it is read again, here or by kube-scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from eventsched.domain.units import duration_text, nanoseconds
from eventsched.scheduling.config.configuration import API_VERSION, KIND
from eventsched.scheduling.config.resolution import ResolvedProfile
from eventsched.scheduling.config.sections import ELECTION_DURATIONS, Configuration, Section

_CPU_AND_MEMORY = ({"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1})


def completed(configuration: Configuration, profiles: Sequence[ResolvedProfile]) -> dict[str, Any]:
    """The document as plain data, in upstream's field names."""
    document = {"apiVersion": API_VERSION, "kind": KIND, **_fields(configuration)}
    document["clientConnection"] = client = _fields(configuration.client_connection)
    client["qps"] = int(client["qps"]) if client["qps"].is_integer() else client["qps"]
    document["leaderElection"] = _fields(configuration.leader_election) | {
        field: duration_text(nanoseconds(getattr(configuration.leader_election, attribute)))
        for attribute, field in ELECTION_DURATIONS.items()
    }
    del document["warnings"]
    document["extenders"] = [msgspec.to_builtins(extender) for extender in configuration.extenders]
    document["profiles"] = [_profile(profile) for profile in profiles]
    return document


def _fields(section: Section) -> dict[str, Any]:
    """A section's own fields, including defaults."""
    fields = msgspec.structs.fields(section)
    return {field.encode_name: getattr(section, field.name) for field in fields}


def _profile(profile: ResolvedProfile) -> dict[str, Any]:
    plugins: dict[str, Any] = {
        point: {"enabled": [_entry(name, point, profile.weights) for name in names]}
        for point, names in profile.points.items()
        if names
    }
    plugins["multiPoint"] = {"disabled": [{"name": "*"}]}
    return {
        "schedulerName": profile.name,
        "percentageOfNodesToScore": profile.percentage,
        "plugins": plugins,
        "pluginConfig": [
            {
                "name": name,
                "args": {"apiVersion": API_VERSION, "kind": f"{name}Args"} | arguments(name, typed),
            }
            for name, typed in sorted(profile.typed.items())
            if typed is not None
        ],
    }


def _entry(name: str, point: str, weights: Mapping[str, int]) -> dict[str, Any]:
    return {"name": name, "weight": weights[name]} if point == "score" else {"name": name}


def arguments(name: str, typed: object) -> dict[str, Any]:
    """A plugin's arguments as plain data, with the default resources to score (upstream:
    apis/config/v1/defaults.go)."""
    plain: dict[str, Any] = _without_unset(msgspec.to_builtins(typed))
    if name == "NodeResourcesFit":
        strategy = plain["scoringStrategy"]
        strategy["resources"] = _weighted(strategy.get("resources"))
    elif name == "NodeResourcesBalancedAllocation":
        plain["resources"] = _weighted(plain.get("resources"))
    return plain


def _weighted(resources: Sequence[dict[str, Any]] | None) -> list[dict[str, Any]]:
    return [
        {**resource, "weight": resource["weight"] or 1} for resource in resources or _CPU_AND_MEMORY
    ]


def _without_unset(value: Any) -> Any:
    if isinstance(value, dict):
        fields = {name: _without_unset(inner) for name, inner in value.items()}
        return {name: inner for name, inner in fields.items() if inner not in (None, [])}
    return [_without_unset(item) for item in value] if isinstance(value, list | tuple) else value
