"""``python -m tests.web.crowded PORT``: a process of 1,024 descriptors that serves three ports.

It prints their numbers. When it reads a line from standard input, it opens connections to PORT (as
to the API server and the database), sends a request to each of its own ports, and prints the
outcome. It ends when its input ends.
"""

import asyncio
import resource
import sys
from contextlib import AsyncExitStack

from eventsched.process_log import output
from eventsched.web.http import descriptors
from tests.web.ports import answer, leave, listening

LIMIT, OWN = 1024, 150
PORTS = ("pages over https", "pages over http", "extender over http")


async def main() -> None:
    """Serves, and tries its own connections."""
    output.configure("text", "error")
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    most = descriptors.shared(len(PORTS), 128).connections
    async with AsyncExitStack() as running:
        ports = [await running.enter_async_context(listening(kind, most)) for kind in PORTS]
        print(*(port.number for port in ports), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        other_port = int(sys.argv[1])
        own = [await asyncio.open_connection("127.0.0.1", other_port) for _ in range(OWN)]
        statuses = []
        for port in ports:
            streams = await port.connect()
            statuses.append((await answer(streams, port.whole)).decode())
            leave(streams)
        print(f"{len(own)} connections, answers", *statuses, flush=True)
        leave(*own)
        await asyncio.to_thread(sys.stdin.readline)


asyncio.run(main())
