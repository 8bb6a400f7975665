"""``python -m tests.web.crowded PORT``: a process of 1,024 descriptors that serves three ports.

It prints their numbers; for a line on its standard input it opens connections to PORT, as to the
API server and the database, asks each port itself, and prints what came of it. It ends with its
input.
"""

import asyncio
import resource
import sys
from contextlib import AsyncExitStack

from eventsched.logs import output
from eventsched.web.http import descriptors
from tests.web.ports import answer, leave, listening

LIMIT, OWN = 1024, 150
PORTS = ("pages over https", "pages over http", "extender over http")


async def main() -> None:
    """Serves, and tries."""
    output.configure("text", "error")
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    most = descriptors.shared(len(PORTS), 128).connections
    async with AsyncExitStack() as running:
        ports = [await running.enter_async_context(listening(each, most)) for each in PORTS]
        print(*(each.number for each in ports), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        theirs = int(sys.argv[1])
        own = [await asyncio.open_connection("127.0.0.1", theirs) for _ in range(OWN)]
        statuses = []
        for port in ports:
            streams = await port.connect()
            statuses.append((await answer(streams, port.whole)).decode())
            leave(streams)
        print(f"{len(own)} connections, answers", *statuses, flush=True)
        leave(*own)
        await asyncio.to_thread(sys.stdin.readline)


asyncio.run(main())
