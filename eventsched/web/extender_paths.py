"""The HTTP paths of ``eventsched extender``: one for each verb of extender/v1, POST only.

A given function answers the requests: it maps verb and body to a status and a body.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.web.http.posts import Handle, PostAnswer, PostedRequest

MOST_UNDER_WAY = 64
"""Requests under way at most; more are answered 503. A scheduler asks about one pod at a time."""

Ask = Callable[[str, bytes], Awaitable[tuple[int, bytes]]]
"""Verb and body → status and body. May raise InputError and UnavailableError."""


def application(paths: Mapping[str, str], ask: Ask) -> Handle:
    """The function that answers requests. ``paths`` maps each verb to its path; "" for a verb that
    is not offered."""
    verbs = {path: verb for verb, path in paths.items() if path}
    offered = ", ".join(f"{path} ({verb})" for path, verb in verbs.items())
    under_way = 0

    async def answer(request: PostedRequest) -> PostAnswer:
        nonlocal under_way
        verb = verbs.get(request.path)
        if verb is None:
            message = f"{request.path} is not offered; offered are POST {offered}"
            return _text_answer(HTTPStatus.NOT_FOUND, message)
        if request.method != "POST":
            return _text_answer(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path} takes POST only")
        if under_way >= MOST_UNDER_WAY:
            return _text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at a time")
        under_way += 1
        try:
            status, body = await ask(verb, request.body)
        except InputError as error:
            return _text_answer(HTTPStatus.BAD_REQUEST, str(error))
        except UnavailableError as unavailable:
            # Another replica behind the same address may lead.
            return _text_answer(HTTPStatus.SERVICE_UNAVAILABLE, str(unavailable))._replace(
                last=True
            )
        finally:
            under_way -= 1
        return PostAnswer(HTTPStatus(status), body, is_json=status == HTTPStatus.OK)

    return answer


def _text_answer(status: HTTPStatus, message: str) -> PostAnswer:
    return PostAnswer(status, f"{message}\n".encode())
