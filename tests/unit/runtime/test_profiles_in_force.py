"""What a log says about the profiles in force."""

from typing import Any

from eventsched.domain.records import StreamStarted
from eventsched.plugins import IN_TREE
from eventsched.runtime.queries.profiles_in_force import profiles_with

_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: own
  plugins: {multiPoint: {enabled: [{name: TheirOwn}]}}
"""


def _with(plugin: str, enabled: dict[str, str], known: dict[str, type[Any]]) -> dict[str, bool]:
    opening = StreamStarted(
        format=1, engine="1", seed="s", configuration=_CONFIGURATION, plugins=enabled
    )
    return profiles_with(plugin, "permit", opening, known)


def test_a_plugin_that_is_not_installed_here_hides_which_profile_has_another() -> None:
    enabled = dict.fromkeys([*IN_TREE, "TheirOwn"], "digest")
    assert _with("Coscheduling", enabled, IN_TREE) == {}
    del enabled["Coscheduling"]
    assert list(_with("Coscheduling", enabled, IN_TREE).values()) == [False]


def test_a_log_that_does_not_name_its_plugins_says_nothing() -> None:
    assert _with("Coscheduling", {}, IN_TREE) == {}
