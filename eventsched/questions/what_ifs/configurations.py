"""The configuration in force in a log, and one that a client has typed, checked as ``config check``
does."""

from pathlib import Path

import msgspec

from eventsched.cluster.files import decoded_text
from eventsched.cluster.sources import manifests
from eventsched.domain.errors import InputError
from eventsched.process.settings import check_text
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility
from eventsched.questions.what_ifs.what_if_answer import RANGE, range_begin
from eventsched.runtime.assembly import registry
from eventsched.runtime.queries.profiles_in_force import profiles_in_force
from eventsched.runtime.queries.state_at import opening_at
from eventsched.scheduling.config.checking import Checked, running_points

BODY = "configuration"
"""What messages call the configuration of a request."""
MOST_BYTES = 64 * 1024
"""Bytes of a configuration at most: YAML of that size takes a second to read."""
Profiles = dict[str, dict[str, list[str]]]
"""The names of plugins by profile and extension point."""


class ConfigurationInForce(msgspec.Struct, frozen=True, kw_only=True):
    """The ``configuration`` in force at the end of a stream, as text ("" for the default one), and
    the ``plugins`` that run; ``profiles`` has them by profile and extension point, those that score
    as ``Name=weight`` ({} if one of them is not known to this server). Another configuration may
    name the ``known_plugins`` of this server.
    What would have been is asked about from position ``begin`` on, by default from ``first`` on.
    ``answers_what_ifs``: whether this server does; ``stores_results``: whether it keeps their
    results as streams."""

    stream: str
    head: int
    begin: int
    first: int
    configuration: str
    plugins: list[str]
    profiles: Profiles
    known_plugins: list[str]
    answers_what_ifs: bool
    stores_results: bool


class ConfigurationProblem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong in a configuration, where, and what to do about it."""

    where: str
    problem: str
    remedy: str


class ConfigurationCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of a configuration and its warnings; without problems the plugins by profile and
    extension point, those that score as ``Name=weight``."""

    problems: list[ConfigurationProblem]
    warnings: list[str]
    profiles: Profiles


def configuration_in_force(
    stream: LoggedStream,
    sees: Visibility,
    plugins: list[Path],
    *,
    answers_what_ifs: bool,
    stores_results: bool,
) -> ConfigurationInForce:
    """What a stream decides by now, and what the server does with another configuration. Raises
    InputError, also NotVisibleError."""
    sees.require_whole("configuration")
    head = stream.log.head.next
    if not head:
        raise InputError(f"stream {stream.name}", "holds no record yet", "run a scheduler on it")
    begin = range_begin(stream.log)
    opening = opening_at(stream.log, head)
    known = registry(plugins)
    return ConfigurationInForce(
        stream=stream.name, head=head, begin=begin, first=max(begin, head - RANGE),
        configuration=opening.configuration, plugins=sorted(opening.plugins),
        profiles={
            each.name: running_points(each) for each in profiles_in_force(opening, known)
        }, known_plugins=sorted(known),
        answers_what_ifs=answers_what_ifs, stores_results=stores_results,
    )  # fmt: skip


def configuration_check(body: bytes, plugins: list[Path]) -> ConfigurationCheck:
    """A configuration with everything that is wrong with it. Raises InputError for what is not
    read: too much, or YAML with aliases."""
    checked = _checked(_text(body), plugins)
    return ConfigurationCheck(
        problems=[
            ConfigurationProblem(where=each.where, problem=each.problem, remedy=each.remedy)
            for each in checked.problems
        ],
        warnings=list(checked.warnings),
        profiles={}
        if checked.problems
        else {profile.name: running_points(profile) for profile in checked.profiles},
    )


def sound_configuration(body: bytes, plugins: list[Path]) -> str:
    """The text of a configuration without problems; "" for an empty body. Raises InputError with
    the first problem."""
    if not body.strip():
        return ""
    text = _text(body)
    for problem in _checked(text, plugins).problems:
        raise problem
    return text


def _text(body: bytes) -> str:
    if len(body) > MOST_BYTES:
        problem = f"has {len(body):,} bytes"
        raise InputError(BODY, problem, f"send {MOST_BYTES:,} at most")
    text = decoded_text(body, BODY)
    manifests.refuse_aliases(text, BODY)
    return text


def _checked(text: str, plugins: list[Path]) -> Checked:
    return check_text(text, BODY, registry(plugins))
