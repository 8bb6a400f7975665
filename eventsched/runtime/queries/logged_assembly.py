"""The configuration and the plugins that a log was written with, assembled again."""

import sys
from pathlib import Path

import msgspec

from eventsched.domain.behaviours import require_known
from eventsched.domain.errors import InputError
from eventsched.domain.records import StreamStarted, TermBegan
from eventsched.domain.records.stimuli import OWN
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_text
from eventsched.runtime.log_start import LogStart
from eventsched.runtime.queries.state_at import FoldedState


def begun_assembly(
    log: StoredLog, stream: str, plugins: list[Path], verify: bool, start: LogStart | None
) -> Assembly:
    """The configuration and the plugins that the stream was begun with, or that were in force where
    what was kept of it starts."""
    if start is not None:
        return _assembly_of(start.opening, stream, plugins, verify)
    first = next(log.read(), None)
    try:
        started = first.record if first else None
    except msgspec.MsgspecError as problem:
        raise CorruptLogError(0, str(problem)) from problem
    if first is not None and (first.position or not isinstance(started, StreamStarted)):
        raise CorruptLogError(0, "is not there, or does not begin a stream")
    if not isinstance(started, StreamStarted):
        raise InputError(f"stream {stream}", "holds no record yet", "run a scheduler on it first")
    return _assembly_of(started, stream, plugins, verify)


def _assembly_of(
    started: StreamStarted, stream: str, plugins: list[Path], verify: bool
) -> Assembly:
    own = started.inputs.get(OWN)
    if own and verify:
        raise InputError(
            f"stream {stream}",
            f"is of {own}, a scheduler of its own, which cannot be asked to decide again",
            "leave --verify out; `eventsched verify` checks the log",
        )
    if own:  # any engine comes to the same state
        return assemble_text("", [], stream, IN_TREE)
    return assembled(started, stream, plugins)


def assembled(inputs: StreamStarted | TermBegan, stream: str, plugins: list[Path]) -> Assembly:
    """The assembly that a record describes; warns of each plugin that is missing or has another
    version now. Raises InputError."""
    require_known(inputs.flags, f"stream {stream}")
    source = f"the configuration of {stream}"
    assembly = assemble_text(inputs.configuration, plugins, source, inputs.plugins, inputs.flags)
    for name, digest in inputs.plugins.items():
        current = assembly.sources.get(name)
        if current != digest:
            changed = "is missing" if current is None else "has another version now"
            print(f"warning: plugin {name} {changed}; decisions may differ", file=sys.stderr)
    return assembly


def assembly_in_force(folded: FoldedState, stream: str, plugins: list[Path]) -> Assembly:
    """The configuration in force, which sorts the queue; of a log without one, the default. Raises
    InputError before the first record."""
    if folded.opening is None:
        raise InputError(f"stream {stream}", "has not begun at that position", "name a later one")
    if folded.opening.inputs.get(OWN) or not folded.opening.plugins:
        # its pods are in the order in which they came
        return assemble_text("", [], stream, IN_TREE)
    return assembled(folded.opening, stream, plugins)
