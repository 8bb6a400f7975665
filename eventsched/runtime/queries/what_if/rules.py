"""The rules under which history is decided again: those of a configuration, or those of the log."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from eventsched import __version__
from eventsched.domain.errors import InputError
from eventsched.domain.records import StreamStarted, TermBegan
from eventsched.domain.records.stimuli import SERVES, SHADOWS
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.logbook import OWN
from eventsched.runtime.queries.state_at import Opening
from eventsched.scheduling.config.configuration import refuse_extenders
from eventsched.scheduling.engine import Engine

AssemblyOf = Callable[[Opening], Assembly]
"""Makes the assembly that is in force after a record."""


@dataclass(frozen=True)
class OtherRules:
    """Which rules decide. ``name`` is for people. ``chosen`` are the rules of a configuration;
    without it the ones in force in the log are used, which ``recorded`` makes."""

    name: str
    recorded: AssemblyOf
    chosen: Assembly | None = None

    def assembly(self, opening: Opening) -> Assembly:
        """The rules while ``opening`` is in force. Raises InputError for extenders, which cannot be
        asked, and for a log of a scheduler without profiles."""
        if any(opening.inputs.get(name) for name in (SERVES, OWN, SHADOWS)):
            problem = "is not one of a scheduler that binds by profiles, so it has no other outcome"
            raise InputError("the log", problem, "name another stream")
        if self.chosen is None:
            assembly = self.recorded(opening)
        else:
            assembly = self.chosen.as_of(opening.flags)
        refuse_extenders(assembly.configuration, self.name)
        return assembly

    def engine(self, opening: Opening, *, with_detail: bool) -> Engine:
        """A new engine with the rules while ``opening`` is in force."""
        return self.assembly(opening).engine(with_detail=with_detail)

    def opening(self, record: Opening) -> Opening:
        """The record with these rules; the record itself if it has them already."""
        if self.chosen is None or self.are(record):
            return record
        return msgspec.structs.replace(
            record,
            configuration=self.chosen.text,
            plugins=self.chosen.sources,
            inputs={**record.inputs, "configuration": self.chosen.digest},
        )

    def are(self, opening: Opening) -> bool:
        """Whether these rules are the ones that the record puts in force."""
        if self.chosen is None:
            return True
        digest = opening.inputs.get("configuration")
        return digest == self.chosen.digest and opening.plugins == self.chosen.sources

    def term(self, opening: Opening, flags: tuple[int, ...]) -> TermBegan:
        """The record that puts these rules in force in the middle of a history."""
        assert self.chosen is not None
        return TermBegan(
            epoch=0, token="0" * 8, engine=__version__, flags=flags, plugins=self.chosen.sources,
            configuration=self.chosen.text,
            inputs={**opening.inputs, "configuration": self.chosen.digest},
        )  # fmt: skip


def is_start(record: object) -> bool:
    """Whether a record begins a stream."""
    return isinstance(record, StreamStarted)
