"""What an API server means when it does not do what it was asked.

The one question that counts is whether the outcome is known. Requests that were never carried out
for certain (4xx) are told from those that may have been (5xx, no answer) and from those that only
came at a bad time (401, 408, 429). Nobody takes an outcome from that alone: whoever must know reads
the object.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from eventsched.cluster.kube.http.api import HttpAnswer
from eventsched.domain.objects.texts import json_without_nul

_NOT_NOW = (401, 408, 429)
_FORBIDDEN = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
)
_PAUSE = 60.0
"""Seconds between two lines about the same refusal."""
_HOLDS = 300.0
"""Seconds for which it is taken that what was forbidden still is: a replica that leads no more does
not ask again."""
_SHOWN = 300

logger: Any = structlog.get_logger()


class _Details(msgspec.Struct):
    kind: str = ""


class ApiStatus(msgspec.Struct):
    """A meta/v1 Status. ``reason`` is a word for programs, ``message`` is for people."""

    kind: str = ""
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_decode = msgspec.json.Decoder(ApiStatus).decode


def status_of(answer: HttpAnswer) -> ApiStatus:
    """The Status in an answer; an empty one where it holds something else (a proxy's page)."""
    try:
        status = _decode(json_without_nul(answer.body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ApiStatus()
    return status if status.kind == "Status" else ApiStatus()


def is_done(answer: HttpAnswer) -> bool:
    """Whether the request was carried out."""
    return answer.status in (200, 201, 202)


def is_refused(answer: HttpAnswer) -> bool:
    """Whether the request was not carried out, and would not be if it were sent again."""
    return 400 <= answer.status < 500 and answer.status not in _NOT_NOW


def is_absent(answer: HttpAnswer) -> bool:
    """Whether the API server itself says that the object is not there; a proxy's 404 is none."""
    return answer.status == 404 and status_of(answer).reason == "NotFound"


def words(answer: HttpAnswer) -> str:
    """An answer for people: the server's message, or the HTTP status."""
    return status_of(answer).message[:_SHOWN] or f"HTTP {answer.status}"


def missing_rule(answer: HttpAnswer) -> str:
    """The RBAC rule that the client lacks, as one line of YAML, where that is why it was refused
    (403 of the authorizer; upstream: apiserver endpoints/handlers/responsewriters); else ""."""
    found = _FORBIDDEN.search(status_of(answer).message) if answer.status == 403 else None
    if found is None:
        return ""
    group, resource, verb = (found[name] for name in ("group", "resource", "verb"))
    return f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'


def explained(answer: HttpAnswer) -> str:
    """An answer for people, with the rule to add where a right is missing."""
    rule = missing_rule(answer)
    return words(answer) + (f"; add the rule {rule} to the scheduler's role" if rule else "")


@dataclass(slots=True)
class _Trouble:
    text: str
    said: float
    is_forbidden: bool
    seen: float = 0.0
    times: int = 0


class Refusals:
    """What the API server does not let us do at present, or does not answer, by what was asked. It
    is logged when it begins and every minute while it goes on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` gives seconds that only grow."""
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}

    @property
    def present(self) -> list[str]:
        """One sentence for each."""
        return [each.text for each in self._troubles.values()]

    @property
    def forbidden(self) -> list[str]:
        """One sentence for each thing that we may not do, with the rule to add: what was refused
        when it was last asked for, and that lately."""
        since = self._clock() - _HOLDS
        known = self._troubles.values()
        return [each.text for each in known if each.is_forbidden and each.seen >= since]

    def saw(self, asked: str, answer: HttpAnswer, **about: str) -> None:
        """Takes in an answer to what was ``asked`` ("create pods/binding"); ``about`` are further
        facts for the log (pod)."""
        if answer.status not in (401, 403):
            if is_done(answer) or is_refused(answer):  # whatever it was, we may ask for it
                self.accepted(asked)
            return
        rule = missing_rule(answer)
        if answer.status == 403 and not rule:  # by admission, for the one object
            logger.warning("refused", asked=asked, status=403, message=words(answer), **about)
            return
        event = "forbidden" if answer.status == 403 else "not authenticated"
        trouble = self._trouble(asked, f"may not {asked}: {explained(answer)}", is_forbidden=True)
        self._say(trouble, event, asked=asked, message=words(answer), rule=rule, **about)

    def accepted(self, asked: str) -> None:
        """Takes in that something was answered, and not forbidden."""
        if self._troubles and self._troubles.pop(asked, None) is not None:
            logger.info("the API server takes this again", asked=asked)

    def unanswered(self, asked: str, why: str, **about: str) -> None:
        """Takes in that no answer came to what was asked."""
        trouble = self._trouble(asked, f"no answer to {asked}: {why}", is_forbidden=False)
        self._say(trouble, "no answer", asked=asked, why=why, **about)

    def _trouble(self, asked: str, text: str, *, is_forbidden: bool) -> _Trouble:
        """The trouble with what was asked, as it is now."""
        now = self._clock()
        trouble = self._troubles.setdefault(asked, _Trouble(text, now - _PAUSE, is_forbidden))
        trouble.text, trouble.is_forbidden, trouble.seen = text, is_forbidden, now
        trouble.times += 1
        return trouble

    def _say(self, trouble: _Trouble, event: str, **facts: str) -> None:
        if trouble.seen - trouble.said >= _PAUSE:
            trouble.said = trouble.seen
            logger.error(event, times=trouble.times, **facts)
