"""The rules under which history is decided again: those of a configuration, or those of the log."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from eventsched import __version__
from eventsched.domain.errors import InputError
from eventsched.domain.records import TermBegan
from eventsched.domain.records.stimuli import OWN, SERVES, SHADOWS, WHAT_IF
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.queries.state_at import Opening
from eventsched.scheduling.config.configuration import refuse_extenders
from eventsched.scheduling.engine import Engine

AssemblyOf = Callable[[Opening], Assembly]
"""Makes the assembly that is in force after a record."""


@dataclass(frozen=True)
class OtherRules:
    """Which rules decide. ``name`` is for people. ``chosen`` are the rules of a configuration;
    without it the ones in force in the log are used, which ``recorded`` makes. ``origin`` says, in
    a stream of the result, where it comes from."""

    name: str
    recorded: AssemblyOf
    chosen: Assembly | None = None
    origin: str = ""

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
        if self.are(record):
            return record
        configuration, plugins = self._sources(record)
        return msgspec.structs.replace(
            record, configuration=configuration, plugins=plugins, inputs=self._inputs(record)
        )

    def are(self, opening: Opening) -> bool:
        """Whether these rules are the ones that the record puts in force."""
        if self.origin:
            return False
        if self.chosen is None:
            return True
        digest = opening.inputs.get("configuration")
        return digest == self.chosen.digest and opening.plugins == self.chosen.sources

    def term(self, opening: Opening, flags: tuple[int, ...]) -> TermBegan:
        """The record that puts these rules in force in the middle of a history. Those of the log
        are in force already: then it only says where the stream comes from."""
        if self.chosen is None:
            return TermBegan(epoch=0, token="0" * 8, inputs=self._inputs(None))
        configuration, plugins = self._sources(opening)
        return TermBegan(
            epoch=0, token="0" * 8, engine=__version__, flags=flags, plugins=plugins,
            configuration=configuration, inputs=self._inputs(opening),
        )  # fmt: skip

    def _sources(self, opening: Opening) -> tuple[str, dict[str, str]]:
        """The text of the configuration, and the plugins' digests by name."""
        if self.chosen is None:
            return opening.configuration, opening.plugins
        return self.chosen.text, self.chosen.sources

    def _inputs(self, opening: Opening | None) -> dict[str, str]:
        changed = {} if self.chosen is None else {"configuration": self.chosen.digest}
        if self.origin:
            changed[WHAT_IF] = self.origin
        return {**({} if opening is None else opening.inputs), **changed}
