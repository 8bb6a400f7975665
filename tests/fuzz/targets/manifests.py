"""Manifests, as ``eventsched simulate --manifests`` reads them."""

from functools import lru_cache
from pathlib import Path

from eventsched.cluster.sources import load
from eventsched.domain.errors import InputError
from eventsched.domain.units import SECOND
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.simulation.outcome import SimulationOutcome
from eventsched.runtime.simulation.resumption import new_or_resumed
from tests.fuzz.choices import Choices
from tests.fuzz.documents import HOSTILE_JSON, HOSTILE_YAML, as_json, as_yaml, documents, spoiled
from tests.fuzz.targets import is_choices
from tests.fuzz.targets.exported_logs import _file

_UNTIL = 60 * SECOND


@lru_cache(maxsize=1)
def _assembly() -> Assembly:
    return assemble()


def fuzz_one(data: bytes) -> None:
    """A file is refused with an InputError that names it and a remedy, or it can be simulated."""
    if is_choices(data):
        choices = Choices(data[1:])
        _, document = choices.of(documents("manifests"))
        is_json = choices.below(2)
        changed = spoiled(document, choices, HOSTILE_JSON if is_json else HOSTILE_YAML)
        data = as_json(changed) if is_json else as_yaml(changed)
    with _file(data) as path:
        try:
            source = load.read(nodes=None, pods=None, objects=[path], generate=None)
        except InputError as error:
            _check(error, path, data)
            return
    for warning in source.warnings:
        warning.encode(errors="backslashreplace")
    assembly = _assembly()
    log = MemoryEventLog("s")
    simulation = new_or_resumed(
        assembly, source.of_profiles(assembly.profiles), log, "seed", None, None
    )
    simulation.run(_UNTIL)
    SimulationOutcome.of(simulation, log, 1.0).as_json()


def _check(error: InputError, path: Path, data: bytes) -> None:
    assert error.where.startswith(str(path)), error
    assert error.problem
    assert error.remedy
    assert len(str(error).encode(errors="backslashreplace")) < 2_000 + 6 * len(data)
