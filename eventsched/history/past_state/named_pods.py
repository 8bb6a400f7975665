"""The pod that a word of the command line means, among those of a state."""

from collections.abc import Mapping

from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.domain.state.pod_state import PodState

_SUGGESTED = 3
_LEAST_RATIO = 0.6
"""The least likeness: names of pods have the namespace in common."""


def find_pod_state(pods: Mapping[str, PodState], word: str, option: str = "--pod") -> PodState:
    """The pod: by ``namespace/name``, by a name that is unique, or by uid. Of two with the same
    name the newer one. Raises InputError that names the candidates, or similar names."""
    if word in pods:
        return pods[word]
    matching = {
        pod_state.pod.full_name: pod_state
        for pod_state in pods.values()
        if word in (pod_state.pod.full_name, pod_state.pod.name)
    }
    if word in matching:
        return matching[word]
    if len(matching) == 1:
        return next(iter(matching.values()))
    where = f"{option} {word}"
    if matching:
        some = sorted(matching)
        more = f" and {len(some) - _SUGGESTED} more" if len(some) > _SUGGESTED else ""
        problem = f"is the name of {len(some)} pods"
        raise InputError(where, problem, f"name one: {', '.join(some[:_SUGGESTED])}{more}")
    names = dict.fromkeys(pod_state.pod.full_name for pod_state in pods.values())
    full_name = word if "/" in word else f"default/{word}"
    near = near_names.nearest(full_name, names, _LEAST_RATIO)
    if near:
        remedy = f"did you mean {' or '.join(near)}?"
    else:
        such = ", ".join(sorted(names)[:_SUGGESTED])
        remedy = "name it as namespace/name" + (f", such as {such}" if such else "")
    raise InputError(where, "was not there at that position", remedy)
