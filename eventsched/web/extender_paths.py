"""The paths that a scheduler asks as its extender: one for each verb, POST only.

The caller gives the implementation: a function from verb and body to status and answer.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.web.http.posts import Handle, PostAnswer, PostedRequest

MOST_UNDER_WAY = 64
"""Requests at a time; more are answered 503. A scheduler asks about one pod at a time."""

Ask = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Verb and body → status and body. May raise InputError and UnavailableError."""


def application(paths: Mapping[str, str], ask: Ask) -> Handle:
    """What answers; ``paths`` by verb, "" for a verb that is not offered."""
    verbs = {path: verb for verb, path in paths.items() if path}
    offered = ", ".join(f"{path} ({verb})" for path, verb in verbs.items())
    under_way = 0

    async def answer(asked: PostedRequest) -> PostAnswer:
        nonlocal under_way
        verb = verbs.get(asked.path)
        if verb is None:
            said = f"{asked.path} is not offered; offered are POST {offered}"
            return _words(HTTPStatus.NOT_FOUND, said)
        if asked.method != "POST":
            return _words(HTTPStatus.METHOD_NOT_ALLOWED, f"{asked.path} takes POST only")
        if under_way >= MOST_UNDER_WAY:
            return _words(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at a time")
        under_way += 1
        try:
            status, body = await ask(verb, asked.body)
        except InputError as wrong:
            return _words(HTTPStatus.BAD_REQUEST, str(wrong))
        except UnavailableError as unavailable:
            # Another replica behind the same address may lead.
            return _words(HTTPStatus.SERVICE_UNAVAILABLE, str(unavailable))._replace(last=True)
        finally:
            under_way -= 1
        return PostAnswer(HTTPStatus(status), body, is_json=status == HTTPStatus.OK)

    return answer


def _words(status: HTTPStatus, said: str) -> PostAnswer:
    return PostAnswer(status, f"{said}\n".encode())
