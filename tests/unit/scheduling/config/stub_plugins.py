"""Configurations resolved against plugins that do nothing: one for each default plugin."""

from typing import Any

import msgspec
import pytest

from eventsched.domain.errors import InputError
from eventsched.scheduling.config.catalogue import DEFAULT_PLUGINS, UPSTREAM_POINTS
from eventsched.scheduling.config.configuration import load
from eventsched.scheduling.config.resolution import ResolvedProfile, resolve_all
from eventsched.scheduling.framework import POINTS

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


class AnyArgs(msgspec.Struct):
    """Takes whatever it is given: the plugins' own rules are tested with the plugins."""


def stub(name: str, *points: str, **attributes: Any) -> type:
    methods = {POINTS[point][0]: lambda self: None for point in points}
    return type(name, (), {"name": name, "Args": AnyArgs, **methods, **attributes})


def upstream_registry() -> dict[str, type]:
    """A stub for each default plugin, with upstream's points."""
    return {
        each.name: stub(each.name, *(p for p in UPSTREAM_POINTS[each.name] if p in POINTS))
        for each in DEFAULT_PLUGINS
    }


REGISTRY = upstream_registry()


def refusal(text: str, registry: dict[str, type] = REGISTRY) -> InputError:
    with pytest.raises(InputError) as caught:
        resolve_all(load(HEAD + text, "sched.yaml"), registry, "sched.yaml")
    return caught.value


def profile(plugins: str, registry: dict[str, type] = REGISTRY) -> ResolvedProfile:
    text = f"{HEAD}profiles:\n- plugins: {{{plugins}}}\n"
    [resolved] = resolve_all(load(text, "sched.yaml"), registry, "sched.yaml")
    return resolved
