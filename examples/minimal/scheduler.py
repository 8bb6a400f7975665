"""A scheduler without the framework: logs a random node for each of its pods, then binds the pod.

EVENTSCHED_DATABASE=postgresql://… python scheduler.py      # for pods with schedulerName: random
"""

import asyncio
import os
import sys

from eventsched.cluster.messages import Listed, WatchEvent
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.addresses import libpq_url
from eventsched.eventlog.log_errors import ConflictError, FencedError
from eventsched.process.kubernetes import Kube, reached
from eventsched.runtime.logbook import Logbook

NAME = "random"
DATABASE = "EVENTSCHED_DATABASE"
BAD_INPUT, UNAVAILABLE = 2, 3


async def schedule(book: Logbook) -> None:
    kube = Kube(await reached(None, None, timeout=10), host=NAME, concurrency=8)
    events = asyncio.Queue[Listed | WatchEvent]()
    try:
        await kube.start()
        while await kube.list_cluster(events.put_nowait):
            await asyncio.sleep(1)
        while True:
            book.saw(await events.get())
            nodes = [node for node in book.nodes if not node.unschedulable]
            for pod in book.waiting if nodes else ():
                book.decide(pod, nodes[book.draw(pod) % len(nodes)], ties=len(nodes))
            while promise := book.promise:
                if not book.answered(await kube.carry_out(promise)):
                    await asyncio.sleep(1)
    finally:
        await kube.close()


def main() -> int:
    """Schedules until an error ends it; prints the error in one line, and returns the exit code."""
    try:
        address = libpq_url(os.environ.get(DATABASE, ""))
    except InputError as error:
        remedy = "write postgresql://USER@HOST:PORT/DATABASE"
        return report(BAD_INPUT, f"{DATABASE} {error.problem}; {remedy}")
    try:
        with Logbook(address, NAME) as book:
            asyncio.run(schedule(book))
    except InputError as error:
        return report(BAD_INPUT, str(error))
    except UnavailableError as error:
        return report(UNAVAILABLE, str(error))
    except (FencedError, ConflictError) as error:
        return report(UNAVAILABLE, f"{error}; run only one scheduler on a stream")
    return 0


def report(code: int, message: str) -> int:
    print(f"{NAME}: {message}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
