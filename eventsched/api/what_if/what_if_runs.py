"""Runs what-ifs, each in a process of its own: at most two at a time, for two minutes at most. A
process ends when its result is there, its time is over, or its client has left."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from eventsched.api.following import Places
from eventsched.api.what_if.worker_messages import WhatIfAdvanced, WhatIfDone, WhatIfJob, decoder
from eventsched.domain.errors import InputError

MOST_AT_A_TIME = 2
MOST_SECONDS = 120
_GRACE = 10
"""Seconds after which a process ends itself if the server has not ended it."""
_MOST_ANSWER = 32 << 20
"""Bytes of a result at most."""
_COMMAND = (sys.executable, "-P", "-m", "eventsched.api.what_if.what_if_worker")

Progress = Callable[[int, int], None]
"""Called with the records that were decided again, and how many there are."""


class WhatIfRuns:
    """The what-ifs of one server. Used from one event loop."""

    def __init__(self, seconds: int = MOST_SECONDS) -> None:
        """A what-if may take ``seconds``."""
        self._seconds = seconds
        self._places = Places(MOST_AT_A_TIME)

    def require_free(self) -> None:
        """Raises TooManyError if as many are under way as may be."""
        self._places.require_free()

    async def run(self, job: WhatIfJob, progress: Progress) -> dict[str, Any]:
        """The result of a job. If this is cancelled, its process is killed. Raises TooManyError,
        and InputError for what takes too long; UnavailableError and CorruptLogError."""
        with self._places.taken():
            try:
                async with asyncio.timeout(self._seconds):
                    return await _result(job, progress, self._seconds + _GRACE)
            except TimeoutError:
                problem = f"takes more than {self._seconds} seconds to decide again"
                remedy = "choose a shorter one, or use the command eventsched replay --what-if"
                raise InputError("the range", problem, remedy) from None


async def _result(job: WhatIfJob, progress: Progress, seconds: int) -> dict[str, Any]:
    # A session of its own: Ctrl-C in a terminal ends the server, which then ends its processes.
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, stdin=PIPE, stdout=PIPE, limit=_MOST_ANSWER, start_new_session=True
    )
    try:
        await _give(process, msgspec.structs.replace(job, seconds=seconds))
        return await _answer(process, progress)
    finally:
        await asyncio.shield(_ended(process))


async def _give(process: Process, job: WhatIfJob) -> None:
    """Sends the job. The addresses in it may have passwords, so it has them not as arguments."""
    assert process.stdin is not None
    with suppress(ConnectionError):  # it has ended: then it gives no answer
        process.stdin.write(msgspec.json.encode(job))
        await process.stdin.drain()
    process.stdin.close()


async def _answer(process: Process, progress: Progress) -> dict[str, Any]:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        match decoder.decode(line):
            case WhatIfAdvanced(done, total):
                progress(done, total)
            case WhatIfDone(document):
                return document
            case problem:
                raise problem.error()
    raise RuntimeError(f"the process of a what-if ended without an answer ({await process.wait()})")


async def _ended(process: Process) -> None:
    """Kills the process, unless it has ended, and waits for its end and that of its output."""
    with suppress(ProcessLookupError):
        process.kill()
    assert process.stdout is not None
    await process.stdout.read()
    await process.wait()
