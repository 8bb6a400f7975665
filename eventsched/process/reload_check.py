"""Which changes of a configuration a running process can take up, and which need a restart.

What decides placements can change between two terms: profiles, plugins and their arguments, backoff
times, extenders, the work budget, annotations, and how the log is written. What identifies the
process or is open for as long as it runs cannot: the Lease, the log, the ports, the connection to
the API server. A file that changes anything of the latter is refused as a whole, so that what runs
is always one file and never parts of two.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.records.stimuli import in_force
from eventsched.process.service_plan import ServiceOptions, plan_of

_NEED_RESTART = ("database", "stream", "serving", "api", "client", "extender", "shadow", "tracing")
"""Settings and sections of settings that need a restart."""
_IN_THE_LOG = ("extender.profile", "shadow.schedulers")
"""Fields of those sections that need none: the first record of a term has them."""
_AT_ONCE = ("logging",)
"""Fields that take effect without a new term."""


def needing_restart(running: ServiceOptions, changed: ServiceOptions) -> Iterator[InputError]:
    """The changes that a running process cannot take up."""
    before, after = running.assembly.configuration, changed.assembly.configuration
    fields = [
        *_changes("leaderElection", before.leader_election, after.leader_election),
        *(
            change
            for name in _NEED_RESTART
            for change in _changes(
                name, getattr(running.settings, name), getattr(changed.settings, name)
            )
        ),
    ]
    for field in fields:
        if field in _IN_THE_LOG:
            continue
        yield InputError(
            f"{changed.source}: {field}",
            "has changed, which needs a restart",
            "restart the process (kubectl rollout restart), or restore the value",
        )


def needs_term(running: ServiceOptions, changed: ServiceOptions) -> bool:
    """Whether anything changes for a term: what decides, or how the log is written."""
    return _of_terms(running) != _of_terms(changed)


def _of_terms(job: ServiceOptions) -> tuple[Any, ...]:
    settings = msgspec.structs.asdict(job.settings)
    left = {name: value for name, value in settings.items() if name not in _AT_ONCE}
    return in_force(plan_of(job, "").opening), left


def _changes(path: str, before: Any, after: Any) -> Iterator[str]:
    """The paths of the fields that differ."""
    if before == after:
        return
    if not isinstance(before, msgspec.Struct) or type(before) is not type(after):
        yield path
        return
    for field in msgspec.structs.fields(before):
        name = f"{path}.{field.encode_name}"
        yield from _changes(name, getattr(before, field.name), getattr(after, field.name))
