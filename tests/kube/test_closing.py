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
    port, count = urlsplit(url).port, 0
    for obj in gc.get_objects():
        if isinstance(obj, socket.socket) and obj.family == socket.AF_INET:
            with suppress(OSError):  # closed, or not connected yet
                count += obj.getpeername()[1] == port
    return count


async def is_cancelled_after(path: Path, steps: int) -> bool:
    """Starts a request and cancels it after some steps of the loop. Returns whether it was still
    running then."""
    api = await opened(path, Clock())
    request = asyncio.create_task(api.call("GET", "/version"))
    for _ in range(steps):
        await asyncio.sleep(0)
    cancelled = request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    await api.close()
    return cancelled


def test_a_request_cancelled_at_any_step_leaves_no_connection(tmp_path: Path) -> None:
    server = Guarded(tmp_path)

    async def body() -> None:
        outcomes = []
        for steps in range(STEPS):
            outcomes.append(await is_cancelled_after(server.kubeconfig({"token": SECRET}), steps))
            assert open_to(server.url) == 0, steps
        assert set(outcomes) == {True, False}

    run(server.run(body))
