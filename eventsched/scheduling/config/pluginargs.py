"""``Arguments``, the base of all plugins' arguments, and those of kube-scheduler's own plugins.

The fields and defaults are those of kube-scheduler/config/v1/types_pluginargs.go and
pkg/scheduler/apis/config/v1/defaults.go, the rules those of validation/validation_pluginargs.go,
under the feature gates' defaults of v1.36. A plugin names its class in ``Args``. ``ARGUMENTS`` also
covers plugins that do not exist here yet, so that their arguments are checked.
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
    """Base of a plugin's typed arguments. Making one raises RuleError with all ``problems``, so a
    plugin never sees wrong values."""

    def __post_init__(self) -> None:
        if problems := list(self.problems()):
            raise RuleError(problems)

    def problems(self) -> Iterator[InputError]:
        """All problems of the values; ``where`` is the path of the field within the arguments."""
        yield from ()


class DefaultPreemptionArgs(Arguments, frozen=True):
    """How many candidate nodes preemption tries: the larger of the two, at most all nodes."""

    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def problems(self) -> Iterator[InputError]:
        """The rules of ValidateDefaultPreemptionArgs: the ranges, and not both zero."""
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
    """The weight of existing pods' required affinity, and whether their preferred affinity is
    ignored for a pod that has none itself."""

    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self) -> Iterator[InputError]:
        """The range (upstream: ValidateInterPodAffinityArgs)."""
        yield from outside("hardPodAffinityWeight", self.hard_pod_affinity_weight, 0, 100)


class DefaultConstraint(Arguments, frozen=True):
    """A topology spread constraint (core/v1) for pods without their own. It must not have a
    selector, which follows from the services and sets that a pod belongs to. The policies and
    ``min_domains`` are not checked, as upstream."""

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
    """The constraints for pods without any: upstream's own (System) or those of the list (List)."""

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
        for i, constraint in enumerate(self.default_constraints):
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in seen:
                yield InputError(
                    f"defaultConstraints[{i}]",
                    f"there is another one for {pair[0]} and {pair[1]}",
                    "merge the two",
                )
            seen.add(pair)


class ShapePoint(Arguments, frozen=True):
    """A point of a broken line from utilization (percent) to score (0..10)."""

    utilization: Int32 = 0
    score: Int32 = 0


class VolumeBindingArgs(Arguments, frozen=True):
    """How long volumes may take to bind. ``shape`` belongs to a feature that is off by default
    (StorageCapacityScoring), so upstream refuses it, even an empty one; unset it is None."""

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
    """Timeouts in Go's notation (units.nanoseconds): of the search on one node, "0s" for none, and
    of the conditions of a device before binding."""

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
"""Plugin name → its arguments, of kube-scheduler's plugins. Other plugins name theirs in ``Args``
alone."""


def outside(where: str, value: int, low: int, high: int | None = None) -> Iterator[InputError]:
    """A problem if a number is out of its range."""
    if value < low or (high is not None and value > high):
        yield out_of_range(where, value, f"{low} {'or more' if high is None else f'to {high}'}")


def not_one_of(where: str, value: str, choices: tuple[str, ...]) -> Iterator[InputError]:
    """A problem if a text is not one of the choices."""
    if value not in choices:
        known = f"{', '.join(choices[:-1])} or {choices[-1]}"
        yield InputError(where, f"{value!r} is not supported", f"use {known}")


def out_of_range(where: str, value: object, allowed: str) -> InputError:
    """The problem of a value that is too small or too large."""
    return InputError(where, f"{value} is out of range", f"use {allowed}")
