"""A scheduler without a framework: binds each of its pods to a node at random, and logs it first.

EVENTSCHED_DATABASE=postgresql://… python scheduler.py      # pods say: schedulerName: random
"""

import asyncio
import os
import sys

from eventsched.cluster.messages import Listed, WatchEvent
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.addresses import libpq_url
from eventsched.process.kubernetes import Kube, reached
from eventsched.runtime.logbook import Logbook

NAME = "random"
DATABASE = "EVENTSCHED_DATABASE"
BAD_INPUT, AWAY = 2, 3


async def schedule(book: Logbook) -> None:
    kube = Kube(await reached(None, None, timeout=10), host=NAME, concurrency=8)
    news = asyncio.Queue[Listed | WatchEvent]()
    try:
        await kube.start()
        while await kube.list_cluster(news.put_nowait):
            await asyncio.sleep(1)
        while True:
            book.saw(await news.get())
            nodes = [node for node in book.nodes if not node.unschedulable]
            for pod in book.waiting if nodes else ():
                book.decide(pod, nodes[book.draw(pod) % len(nodes)], of=len(nodes))
            while promise := book.promise:
                if not book.answered(await kube.carry_out(promise)):
                    await asyncio.sleep(1)
    finally:
        await kube.close()


def main() -> int:
    """Schedules until something is wrong; says what in one line, and returns the exit code."""
    try:
        address = libpq_url(os.environ.get(DATABASE, ""))
    except InputError as wrong:
        remedy = "write postgresql://USER@HOST:PORT/DATABASE"
        return ended(BAD_INPUT, f"{DATABASE} {wrong.problem}; {remedy}")
    try:
        with Logbook(address, NAME) as book:
            asyncio.run(schedule(book))
    except InputError as wrong:
        return ended(BAD_INPUT, str(wrong))
    except UnavailableError as away:
        return ended(AWAY, str(away))
    return 0


def ended(code: int, why: str) -> int:
    print(f"{NAME}: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
