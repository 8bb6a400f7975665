"""Headers that every response of an application has."""

from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""


def with_headers(app: ASGIApp, headers: Headers) -> ASGIApp:
    """The application with ``headers`` on every response, also on those to its own errors. It takes
    HTTP requests alone."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await app(scope, receive, adding_headers(send, headers))

    return answered


def adding_headers(send: Send, headers: Headers) -> Send:
    """Sends what ``send`` does, where each response has ``headers``, too."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *headers]
        await send(message)

    return send_with_headers
