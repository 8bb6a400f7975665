"""A scheduler without a framework: binds each of its pods to a node at random, and logs it first.

EVENTSCHED_DATABASE=postgresql://… python scheduler.py      # pods say: schedulerName: random
"""

import asyncio
import os

from eventsched.cluster.messages import Listed, WatchEvent
from eventsched.eventlog.database import written
from eventsched.runtime.live.kube import Kube, reached
from eventsched.runtime.logbook import Logbook

NAME = "random"


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


if __name__ == "__main__":
    with written(os.environ["EVENTSCHED_DATABASE"], None) as url, Logbook(url, NAME) as book:
        asyncio.run(schedule(book))
