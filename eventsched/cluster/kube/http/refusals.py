"""Classifies the API server's refusals by whether the outcome of the request is known.

After a 4xx the request was certainly not carried out; after 401, 408 or 429 it may succeed later.
After a 5xx, or without an answer, it may have been carried out: code that must know reads the
object.
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
_LOG_INTERVAL = 60.0
"""Seconds between two log lines about the same refusal."""
_FORBIDDEN_SECONDS = 300.0
"""Seconds for which a request counts as forbidden after the last refusal. A replica that no longer
leads does not send it again, so it would otherwise count forever."""
_MAX_SHOWN_LENGTH = 300

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
    """The Status in an answer; an empty one for any other body, such as a proxy's page."""
    try:
        status = _decode(json_without_nul(answer.body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ApiStatus()
    return status if status.kind == "Status" else ApiStatus()


def is_done(answer: HttpAnswer) -> bool:
    """Whether the request was carried out."""
    return answer.status in (200, 201, 202)


def is_refused(answer: HttpAnswer) -> bool:
    """Whether the request was not carried out, and repeating it would not help."""
    return 400 <= answer.status < 500 and answer.status not in _NOT_NOW


def is_absent(answer: HttpAnswer) -> bool:
    """Whether the API server says that the object does not exist. A proxy's 404 does not count."""
    return answer.status == 404 and status_of(answer).reason == "NotFound"


def words(answer: HttpAnswer) -> str:
    """An answer for people: the server's message, or the HTTP status."""
    return status_of(answer).message[:_MAX_SHOWN_LENGTH] or f"HTTP {answer.status}"


def missing_rule(answer: HttpAnswer) -> str:
    """The missing RBAC rule as one line of YAML after a 403 of the authorizer (upstream: apiserver
    endpoints/handlers/responsewriters); otherwise ""."""
    match = _FORBIDDEN.search(status_of(answer).message) if answer.status == 403 else None
    if match is None:
        return ""
    group, resource, verb = (match[name] for name in ("group", "resource", "verb"))
    return f'{{apiGroups: ["{group}"], resources: ["{resource}"], verbs: ["{verb}"]}}'


def explained(answer: HttpAnswer) -> str:
    """An answer for people, with the RBAC rule to add if one is missing."""
    rule = missing_rule(answer)
    return words(answer) + (f"; add the rule {rule} to the scheduler's role" if rule else "")


@dataclass(slots=True)
class _Trouble:
    text: str
    logged_at: float
    is_forbidden: bool
    seen: float = 0.0
    times: int = 0


class Refusals:
    """The kinds of requests that the API server currently refuses or does not answer. Each is
    logged at its first failure and then at most once a minute."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock`` gives monotonic seconds."""
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}

    @property
    def present(self) -> list[str]:
        """One sentence for each kind of request."""
        return [trouble.text for trouble in self._troubles.values()]

    @property
    def forbidden(self) -> list[str]:
        """One sentence for each kind of request whose last answer was a recent 401 or 403, with the
        RBAC rule to add."""
        since = self._clock() - _FORBIDDEN_SECONDS
        return [
            trouble.text
            for trouble in self._troubles.values()
            if trouble.is_forbidden and trouble.seen >= since
        ]

    def saw(self, asked: str, answer: HttpAnswer, **about: str) -> None:
        """Records an answer to a kind of request, such as "create pods/binding". ``about`` has
        further fields for the log, such as the pod."""
        if answer.status not in (401, 403):
            if is_done(answer) or is_refused(answer):  # authorized, whatever the outcome
                self.accepted(asked)
            return
        rule = missing_rule(answer)
        if answer.status == 403 and not rule:  # refused by admission, for this object only
            logger.warning("refused", asked=asked, status=403, message=words(answer), **about)
            return
        event = "forbidden" if answer.status == 403 else "not authenticated"
        trouble = self._trouble(asked, f"may not {asked}: {explained(answer)}", is_forbidden=True)
        self._log(trouble, event, asked=asked, message=words(answer), rule=rule, **about)

    def accepted(self, asked: str) -> None:
        """Records an answer that is not a lack of rights."""
        if self._troubles and self._troubles.pop(asked, None) is not None:
            logger.info("the API server accepts this again", asked=asked)

    def unanswered(self, asked: str, why: str, **about: str) -> None:
        """Records that no answer came."""
        trouble = self._trouble(asked, f"no answer to {asked}: {why}", is_forbidden=False)
        self._log(trouble, "no answer", asked=asked, why=why, **about)

    def _trouble(self, asked: str, text: str, *, is_forbidden: bool) -> _Trouble:
        """Records one more failure of a kind of request."""
        now = self._clock()
        trouble = self._troubles.setdefault(
            asked, _Trouble(text, now - _LOG_INTERVAL, is_forbidden)
        )
        trouble.text, trouble.is_forbidden, trouble.seen = text, is_forbidden, now
        trouble.times += 1
        return trouble

    def _log(self, trouble: _Trouble, event: str, **facts: str) -> None:
        if trouble.seen - trouble.logged_at >= _LOG_INTERVAL:
            trouble.logged_at = trouble.seen
            logger.error(event, times=trouble.times, **facts)
