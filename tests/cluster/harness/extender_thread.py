"""An extender beside a test: it answers from a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from tests.extenders.server import Handler, serving


class Answering(Protocol):
    """An object with handlers by path."""

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """All of its paths."""


@contextmanager
def running(sample: Answering) -> Iterator[str]:
    """Serves an extender from a thread; its URL."""
    loop, there, urls = asyncio.new_event_loop(), threading.Event(), []
    ended = asyncio.Event()

    async def serve() -> None:
        async with serving(sample.handlers) as url:
            urls.append(url)
            there.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert there.wait(20)
    try:
        yield urls[0]
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(20)
        loop.close()
