"""Typed arguments of the default plugins whose rules upstream keeps with the configuration.

The fields and defaults are those of kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/v1/defaults.go, the rules those of validation/validation_pluginargs.go,
under the feature gates' defaults of v1.36. A plugin that takes one of them says ``Args = …``;
``ARGUMENTS`` has them for plugins that do not exist here yet, so that theirs are checked all the
same.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.objects import labels
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.decoding import RuleError
from eventsched.scheduling.config.sections import Int32, Int64

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"


class Arguments(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Base of typed arguments; making one with values that upstream refuses raises RuleError."""

    def __post_init__(self) -> None:
        if found := list(self.problems()):
            raise RuleError(found)

    def problems(self) -> Iterator[InputError]:
        """All that is wrong with the values; ``where`` is the path of the field within."""
        yield from ()


class DefaultPreemptionArgs(Arguments, frozen=True):
    """How many nodes preemption tries: the larger of the two, as far as there are nodes."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def problems(self) -> Iterator[InputError]:
        """Ranges, and both zero (upstream: ValidateDefaultPreemptionArgs)."""
        percentage, absolute = (
            self.min_candidate_nodes_percentage,
            self.min_candidate_nodes_absolute,
        )
        yield from outside("minCandidateNodesPercentage", percentage, 0, 100)
        yield from outside("minCandidateNodesAbsolute", absolute, 0)
        if not percentage and not absolute:
            yield InputError(
                "minCandidateNodesPercentage",
                "both it and minCandidateNodesAbsolute are 0",
                "let one of them be above 0",
            )


class InterPodAffinityArgs(Arguments, frozen=True):
    """What the required affinity of pods that are there weighs, and whether the preferred one of
    theirs counts for a pod that has none itself."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self) -> Iterator[InputError]:
        """The range (upstream: ValidateInterPodAffinityArgs)."""
        yield from outside("hardPodAffinityWeight", self.hard_pod_affinity_weight, 0, 100)


class DefaultConstraint(Arguments, frozen=True):
    """A topology spread constraint (core/v1) for pods that have none of their own. It must not
    have a selector: that follows from the services and sets which a pod belongs to. The policies
    and ``min_domains`` are not checked, as upstream."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: dict[str, Any] | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidatePodTopologySpreadArgs for one constraint."""
        yield from outside("maxSkew", self.max_skew, 1)
        if not labels.is_key(self.topology_key):
            yield InputError(
                "topologyKey",
                f"{self.topology_key!r} is not a label's key",
                "name a node label such as topology.kubernetes.io/zone",
            )
        actions = (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
        yield from not_one_of("whenUnsatisfiable", self.when_unsatisfiable, actions)
        if self.label_selector is not None:
            yield InputError(
                "labelSelector",
                "a default constraint has no selector: it follows from each pod's services",
                "remove it",
            )


class PodTopologySpreadArgs(Arguments, frozen=True):
    """Which constraints pods without any get: upstream's own (System) or those of the list."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = "System"

    def __post_init__(self) -> None:
        if not self.defaulting_type:
            msgspec.structs.force_setattr(self, "defaulting_type", "System")
        super().__post_init__()

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidatePodTopologySpreadArgs for the whole."""
        yield from not_one_of("defaultingType", self.defaulting_type, ("System", "List"))
        if self.defaulting_type == "System" and self.default_constraints:
            yield InputError(
                "defaultingType", "System goes with no defaultConstraints", "write List"
            )
        seen: set[tuple[str, str]] = set()
        for i, each in enumerate(self.default_constraints):
            pair = (each.topology_key, each.when_unsatisfiable)
            if pair in seen:
                yield InputError(
                    f"defaultConstraints[{i}]",
                    f"there is another one for {each.topology_key} and {each.when_unsatisfiable}",
                    "merge the two",
                )
            seen.add(pair)


class ShapePoint(Arguments, frozen=True):
    """A point of a broken line from utilization (percent) to score (0..10)."""

    utilization: Int32 = 0
    score: Int32 = 0


class VolumeBindingArgs(Arguments, frozen=True):
    """How long volumes may take to bind. ``shape`` belongs to a feature that is off by default
    (StorageCapacityScoring), so upstream refuses it, an empty one too; here it is None."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[ShapePoint, ...] | None = None

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateVolumeBindingArgs."""
        yield from outside("bindTimeoutSeconds", self.bind_timeout_seconds, 0)
        if self.shape is not None:
            yield InputError(
                "shape", "needs the feature gate StorageCapacityScoring, which is off", "remove it"
            )


class DynamicResourcesArgs(Arguments, frozen=True):
    """Timeouts in Go's notation (decoding.nanoseconds): for the search on one node, "0s" means
    none, and for the conditions of a device before binding."""

    filter_timeout: str = "10s"
    binding_timeout: str = "10m0s"

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateDynamicResourcesArgs."""
        if nanoseconds(self.filter_timeout, "filterTimeout") < 0:
            yield out_of_range("filterTimeout", self.filter_timeout, "0s or more")
        if nanoseconds(self.binding_timeout, "bindingTimeout") < 10**9:
            yield out_of_range("bindingTimeout", self.binding_timeout, "1s or more")


ARGUMENTS: dict[str, type[Arguments]] = {
    "DefaultPreemption": DefaultPreemptionArgs,
    "DynamicResources": DynamicResourcesArgs,
    "InterPodAffinity": InterPodAffinityArgs,
    "PodTopologySpread": PodTopologySpreadArgs,
    "VolumeBinding": VolumeBindingArgs,
}
"""Plugin name → its arguments."""


def outside(where: str, value: int, low: int, high: int | None = None) -> Iterator[InputError]:
    """A problem where a number is not in its range."""
    if value < low or (high is not None and value > high):
        yield out_of_range(where, value, f"{low} {'or more' if high is None else f'to {high}'}")


def not_one_of(where: str, value: str, choices: tuple[str, ...]) -> Iterator[InputError]:
    """A problem where a text is none of those that are known."""
    if value not in choices:
        known = f"{', '.join(choices[:-1])} or {choices[-1]}"
        yield InputError(where, f"{value!r} is not supported", f"use {known}")


def out_of_range(where: str, value: object, allowed: str) -> InputError:
    """The problem of a value that is too small or too large."""
    return InputError(where, f"{value} is out of range", f"use {allowed}")
