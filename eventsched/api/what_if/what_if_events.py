"""A what-if as server-sent events: how far it is, then the result or a problem."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from eventsched.api.what_if.what_if_runs import Progress

_EVERY = 0.5
"""Seconds between two events about progress, so that proxies keep the connection."""


class WhatIfProgress(msgspec.Struct, frozen=True):
    """``done`` of ``total`` records were decided again; both are 0 until the state at the beginning
    of the range is there."""

    done: int
    total: int


async def what_if_events(
    run: Callable[[Progress], Awaitable[dict[str, Any]]],
    failure: Callable[[Exception], bytes],
    stops: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """The events of ``run``, which ends with them. ``failure`` is the JSON of an error. They end
    without a result once the server ``stops``: a run would keep it from that."""
    at = WhatIfProgress(0, 0)

    def progress(done: int, total: int) -> None:
        nonlocal at
        at = WhatIfProgress(done, total)

    task = asyncio.ensure_future(run(progress))
    task.add_done_callback(_seen)
    try:
        while not task.done():
            yield _event(b"progress", msgspec.json.encode(at))
            await asyncio.wait((task,), timeout=_EVERY)
            if stops():
                return
        yield _event(b"result", msgspec.json.encode(task.result()))
    except Exception as error:  # noqa: BLE001 - the response has begun
        yield _event(b"problem", failure(error))
    finally:
        task.cancel()
        await asyncio.wait((task,))  # its process ends before the event loop does


def _seen(task: asyncio.Future[Any]) -> None:
    """An error is of no interest once the client has left."""
    if not task.cancelled():
        task.exception()


def _event(kind: bytes, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind, data)
