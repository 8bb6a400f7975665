"""A client that is closed leaves no connection open, whenever its requests were given up."""

import asyncio
import gc
import socket
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.kube.guarded import SECRET, Clock, Guarded, opened
from tests.kube.watched import run

STEPS = 30
"""Of the event loop; a request over a new connection takes a dozen."""


def open_to(url: str) -> int:
    """How many sockets of this process are connected to a server."""
    port, found = urlsplit(url).port, 0
    for each in gc.get_objects():
        if isinstance(each, socket.socket) and each.family == socket.AF_INET:
            with suppress(OSError):  # closed, or nobody's yet
                found += each.getpeername()[1] == port
    return found


async def given_up(path: Path, steps: int) -> bool:
    """Whether a request was under way still after so many steps of the loop, and given up."""
    api = await opened(path, Clock())
    request = asyncio.create_task(api.call("GET", "/version"))
    for _ in range(steps):
        await asyncio.sleep(0)
    under_way = request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    await api.close()
    return under_way


def test_requests_are_given_up_at_every_step(tmp_path: Path) -> None:
    server = Guarded(tmp_path)

    async def body() -> None:
        outcomes = []
        for steps in range(STEPS):
            outcomes.append(await given_up(server.kubeconfig({"token": SECRET}), steps))
            assert open_to(server.url) == 0, steps
        assert set(outcomes) == {True, False}

    run(server.run(body))
