"""``python -m benchmarks.cluster.agreeing PORT``: an extender that passes every node and prefers
none, without reading the request: it shows what asking alone costs kube-scheduler."""

import asyncio
import socket
import sys
from http import HTTPStatus

import msgspec

from eventsched.web.http.posts import PostAnswer, PostedRequest, serve


class _Args(msgspec.Struct, rename="pascal"):
    node_names: msgspec.Raw = msgspec.Raw(b"null")


async def _agree(asked: PostedRequest) -> PostAnswer:
    body = b"[]"
    if asked.path == "/filter":
        names = msgspec.json.decode(asked.body, type=_Args).node_names
        body = b'{"NodeNames":%b}' % bytes(names)
    return PostAnswer(HTTPStatus.OK, body, is_json=True)


async def main() -> None:
    """Answers until it is ended."""
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listening:
        async with serve(listening, None, _agree):
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
