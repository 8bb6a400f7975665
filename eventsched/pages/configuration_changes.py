"""The usual changes of a configuration, from fields of a form: a plugin's weight, a plugin off, and
nodes that are added or left out.

Comments of the text are lost when it is changed. Whether the result is sound is not checked here.
"""

from collections.abc import Collection, Mapping
from typing import Any

import yaml

from eventsched.cluster.sources import manifests
from eventsched.domain import near_names
from eventsched.domain.errors import InputError

PLAIN = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
"""
"""A configuration that changes nothing of the default."""
_MOST_DIGITS = 10
"""Of a weight that is written as a number. A longer one stays as it is, and is refused as such."""
_FIELDS = ("plugin", "weight", "off", "more", "like", "without")


def require_known(form: Mapping[str, str], known: Collection[str]) -> None:
    """Raises InputError if the field ``plugin`` names none of the known plugins."""
    plugin = form.get("plugin", "").strip()
    if plugin and plugin not in known:
        raise InputError("plugin", f"{plugin} is not known", near_names.offer(plugin, known))


def weights(profiles: Mapping[str, Mapping[str, list[str]]]) -> dict[str, str]:
    """The weight of each plugin that runs, as the page shows it: "2", "does not score", or the
    weight by profile if it is not the same in all. ``profiles`` as in the answer of
    ``/configuration``."""
    by_plugin: dict[str, dict[str, str]] = {}
    for profile, points in profiles.items():
        for name in (name for names in points.values() for name in names):
            plugin, _, weight = name.partition("=")
            of_profile = by_plugin.setdefault(plugin, {})
            of_profile[profile] = weight or of_profile.get(profile, "")
    said = {}
    for plugin, of_profile in by_plugin.items():
        scores = {profile: weight for profile, weight in of_profile.items() if weight}
        values = set(scores.values())
        if len(values) == 1 and len(scores) == len(profiles):
            said[plugin] = values.pop()
        else:
            each = (f"{weight} in {profile}" for profile, weight in scores.items())
            said[plugin] = ", ".join(each) or "does not score"
    return said


def changed_form(form: Mapping[str, str], in_force: str) -> dict[str, str]:
    """The form with the changes that its fields ask for in ``configuration`` and ``nodes``, and
    these fields empty. ``in_force`` is the configuration that an empty one stands for. A text that
    is not YAML, or another kind of value, stays as it is."""
    changed = {name: value for name, value in form.items() if name not in _FIELDS}
    asked = {name: form.get(name, "").strip() for name in _FIELDS}
    text = form.get("configuration", "")
    if asked["plugin"] and (asked["off"] or asked["weight"]):
        text = text if text.strip() else in_force or PLAIN
        weight = None if asked["off"] else asked["weight"]
        changed["configuration"] = _with_plugin(text, asked["plugin"], weight)
    parts = [form.get("nodes", "").strip()]
    parts += [f"+{asked['more'] or 1}x{asked['like']}"] if asked["like"] else []
    parts += [f"-{name}" for name in asked["without"].replace(",", " ").split()]
    changed["nodes"] = "|".join(filter(None, parts))
    return changed


def _with_plugin(text: str, plugin: str, weight: str | None) -> str:
    """The configuration with a weight of a plugin in each profile, or without the plugin (None)."""
    try:
        manifests.refuse_aliases(text, "configuration")
        document, *others = yaml.safe_load_all(text)
        if not isinstance(document, dict):
            return text
        profiles = document.setdefault("profiles", [{"schedulerName": "default-scheduler"}])
        for profile in profiles if isinstance(profiles, list) else ():
            if isinstance(profile, dict):
                points = profile["plugins"] = _mapping(profile.get("plugins"))
                _change(points, plugin, weight)
        return yaml.safe_dump_all([document, *others], sort_keys=False, allow_unicode=True)
    except (yaml.YAMLError, InputError, ValueError, RecursionError):
        return text  # a ValueError: there is no document, or a number is too long


def _change(points: dict[str, Any], plugin: str, weight: str | None) -> None:
    """Kubernetes' rules: a plugin of ``score.enabled`` has that weight, whatever ``multiPoint``
    says; ``multiPoint.disabled`` keeps a default plugin from every extension point."""
    if weight is None:
        for name in points:
            points[name] = _without(points[name], "enabled", plugin)
        point = points["multiPoint"] = _mapping(points.get("multiPoint"))
        point = points["multiPoint"] = _without(point, "disabled", plugin)
        point["disabled"] = [*_listed(point, "disabled"), {"name": plugin}]
        return
    point = _without(_mapping(points.get("score")), "enabled", plugin)
    point = points["score"] = _without(point, "disabled", plugin)
    is_number = weight.isascii() and weight.isdigit() and len(weight) <= _MOST_DIGITS
    number = int(weight) if is_number else weight
    point["enabled"] = [*_listed(point, "enabled"), {"name": plugin, "weight": number}]


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(point: Mapping[str, Any], key: str) -> list[Any]:
    """A list of an extension point; empty if there is none, or another kind of value."""
    value = point.get(key)
    return value if isinstance(value, list) else []


def _without(point: Any, key: str, plugin: str) -> Any:
    """An extension point without a plugin in one of its lists; the list goes if it is empty."""
    if not isinstance(point, dict) or not isinstance(point.get(key), list):
        return point
    left = [
        each for each in point[key] if not (isinstance(each, dict) and each.get("name") == plugin)
    ]
    others = {name: value for name, value in point.items() if name != key}
    return {**others, key: left} if left else others
