"""A profile's pluginConfig, checked against the plugins' own types.

Upstream: kube-scheduler/config/v1/types.go decodeNestedObjects decodes the arguments, validation.go
validatePluginConfig checks them; those of NodeResourcesFit are checked only when the plugin is made
(plugins/noderesources/fit.go NewFit).
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.scheduling.config.catalogue import UPSTREAM_POINTS
from eventsched.scheduling.config.configuration import API_VERSION
from eventsched.scheduling.config.decoding import Report, RuleError, refuse, salvaged
from eventsched.scheduling.config.pluginargs import ARGUMENTS
from eventsched.scheduling.config.sections import PluginConfig

CHECKED_WHERE_MADE = frozenset({"NodeResourcesFit"})
"""Plugins whose arguments are checked against the rules only if the plugin is enabled."""


def typed_arguments(
    plugin_config: Sequence[PluginConfig],
    registry: Mapping[str, type],
    enabled: Collection[str],
    where: str,
    report: Report = refuse,
) -> dict[str, object | None]:
    """The arguments of the enabled plugins by name, defaults included. Those of other plugins are
    checked too, but arguments of an unknown plugin or of an in-tree plugin that takes none are
    accepted, as upstream does."""
    typed: dict[str, object | None] = {}
    for i, configured in enumerate(plugin_config):
        name = configured.name
        kind = kind_of(name, registry)
        place = f"{where}[{i}].args"
        if kind is None:
            if name in registry and name not in UPSTREAM_POINTS and configured.args:
                problem = f"plugin {name} takes no arguments"
                report(InputError(place, problem, "remove them"))
        else:
            lenient = name in CHECKED_WHERE_MADE and name not in enabled
            typed[name] = _decoded(
                kind, name, configured.args, place, _but_rules(report) if lenient else report
            )
    for name in enabled:
        if name not in typed:
            kind = kind_of(name, registry)
            typed[name] = None if kind is None else _decoded(kind, name, None, where, report)
    return {name: typed[name] for name in enabled}


def kind_of(name: str, registry: Mapping[str, type]) -> type | None:
    """The type of a plugin's arguments: its own Args, or that of upstream's plugin of that name;
    None for a plugin that takes none."""
    return getattr(registry.get(name), "Args", None) or ARGUMENTS.get(name)


def without_effect(args: Mapping[str, Any], registry: Mapping[str, type]) -> list[str]:
    """Warnings about arguments (by plugin) that nothing here reads."""
    warnings = []
    for name in args:
        if name not in registry:
            why = "this version does not have the plugin"
            if name not in UPSTREAM_POINTS:
                why = "there is no such plugin"
        elif args[name] and kind_of(name, registry) is None:
            why = "the plugin takes no arguments"
        else:
            continue
        warnings.append(f"pluginConfig of {name} has no effect: {why}")
    return warnings


def typed_args(
    plugin_class: type, raw: Mapping[str, Any] | None, where: str, report: Report = refuse
) -> object | None:
    """A plugin's arguments as its ``Args``, or None for a plugin that has no such struct.

    ``where`` is the place of the arguments, which may include apiVersion and kind, as upstream
    writes them. Raises InputError with the path of a wrong field, and for arguments of a plugin
    without Args.
    """
    name = getattr(plugin_class, "name", plugin_class.__name__)
    kind = getattr(plugin_class, "Args", None)
    if kind is not None:
        return _decoded(kind, name, raw, where, report)
    if raw:
        report(InputError(where, f"plugin {name} takes no arguments", "remove them"))
    return None


def _but_rules(report: Report) -> Report:
    def but_rules(problem: InputError) -> None:
        if not isinstance(problem, RuleError):
            report(problem)

    return but_rules


def _decoded(kind: type, name: str, args: Any, where: str, report: Report) -> object | None:
    if args is not None and not isinstance(args, dict):
        report(InputError(where, "no mapping of arguments", "write fields and their values"))
        args = None
    raw = dict(args or {})
    written_kind = raw.pop("kind", None)
    if written_kind not in (None, "", f"{name}Args"):
        report(InputError(f"{where}.kind", f"{written_kind!r} is not {name}Args", "remove kind"))
    version = raw.pop("apiVersion", None)
    if version not in (None, "", API_VERSION):
        report(InputError(f"{where}.apiVersion", f"{version!r} is not supported", "remove it"))
    fields = {field.encode_name for field in msgspec.structs.fields(kind)}
    strict = kind.__struct_config__.forbid_unknown_fields  # type: ignore[attr-defined]
    for unknown in raw.keys() - fields if fields and not strict else ():
        # Refused even if the plugin's Args accept them: a misspelt field would mean its default.
        close = difflib.get_close_matches(unknown, fields, n=1)
        remedy = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(fields))}"
        report(InputError(f"{where}.{unknown}", f"plugin {name} has no such argument", remedy))
    arguments: object | None = salvaged(raw, kind, where, report)
    return arguments
