"""``python -m benchmarks.hostile.patching``: clients that patch pods as fast as they can.

A separate process, so that the measuring process is not slowed by it. Server and token come by the
environment; ends when its standard input does, and prints how many patches were answered.
"""

import asyncio
import json
import os
import ssl
import sys
import threading

from benchmarks.cluster.client import Client, RefusedError, collection

SERVER, TOKEN, CA = "PATCHING_SERVER", "PATCHING_TOKEN", "PATCHING_CA"


def main() -> int:
    """Patches until standard input ends; arguments: ``status`` or ``labels``, namespace, pods."""
    what, namespace, *pods = sys.argv[1:]
    over = threading.Event()
    threading.Thread(target=_read, args=(over,), daemon=True).start()
    print(json.dumps(asyncio.run(_patch_all(what, namespace, pods, over))))
    return 0


def _read(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


async def _patch_all(what: str, namespace: str, pods: list[str], over: threading.Event) -> int:
    tls = ssl.create_default_context(cafile=os.environ[CA])
    client = Client(os.environ[SERVER], os.environ[TOKEN], tls, connections=len(pods))
    try:
        counts = await asyncio.gather(
            *(_patch(client, what, f"{collection('Pod', namespace)}/{pod}", over) for pod in pods)
        )
        return sum(counts)
    finally:
        await client.close()


async def _patch(client: Client, what: str, path: str, over: threading.Event) -> int:
    count = 0
    while not over.is_set():
        if what == "status":
            condition = {"type": "example.com/Patched", "status": "True", "message": str(count)}
            body: dict[str, object] = {"status": {"conditions": [condition]}}
            where = f"{path}/status"
        else:
            body, where = {"metadata": {"labels": {"patched": str(count)}}}, path
        try:
            await client.patch(where, body)
        except RefusedError:  # too many requests: the server's own fairness
            await asyncio.sleep(0.05)
            continue
        count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
