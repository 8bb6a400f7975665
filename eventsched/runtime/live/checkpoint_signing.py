"""Signs a leader's checkpoints, from what it has committed and not from what the database says.

Each checkpoint is a log line, so that the cluster's log collection has a copy that the owner of the
database cannot change. If a folder is given, a file there has the newest ones. An observer receives
each one as well. See docs/verification.md.
"""

import asyncio
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import structlog

from eventsched.eventlog.chain import Head
from eventsched.eventlog.checkpoints import Signer, replace_notes

_MAX_KEPT = 1_000
"""Checkpoints that a file keeps at most: a week of them at one every ten minutes."""
_NOTE = re.compile(r"(?:[^\n]+\n)+\n(?:— [^\n]+\n)+")

logger = structlog.get_logger()


class CheckpointObserver(Protocol):
    """Receives checkpoints."""

    def checkpoint_signed(self, note: str) -> None:
        """A checkpoint was signed; ``note`` is its text."""

    def checkpoint_unwritten(self) -> None:
        """A checkpoint could not be written to the file."""


class Checkpointer:
    """Signs the head of a stream when a batch is committed, at most once per interval. An idle
    stream gets no new checkpoint."""

    def __init__(
        self,
        signer: Signer,
        stream: str,
        *,
        every: float,
        folder: Path | None = None,
        observer: CheckpointObserver | None = None,
        clock: Callable[[], int] = lambda: time.time_ns() // 1000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``every`` is the interval (s); ``clock`` returns the wall clock's time (µs)."""
        self._signer, self._stream = signer, stream
        self._every, self._folder, self._clock, self._monotonic = every, folder, clock, monotonic
        self._observer = observer
        self._due = 0.0
        self._writing: asyncio.Task[None] | None = None

    def committed(self, head: Head) -> None:
        """The log is durable up to ``head``. Never waits and never fails: a checkpoint that cannot
        be written is logged."""
        now = self._monotonic()
        if now < self._due:
            return
        self._due = now + self._every
        checkpoint = self._signer.sign(self._stream, head, self._clock())
        logger.info("checkpoint", checkpoint=checkpoint)
        if self._observer is not None:
            self._observer.checkpoint_signed(checkpoint)
        if self._folder is not None and (self._writing is None or self._writing.done()):
            path = self._folder / f"{re.sub(r'[^A-Za-z0-9_.-]', '_', self._stream)}.checkpoints"
            self._writing = asyncio.create_task(self._write(path, checkpoint))

    async def _write(self, path: Path, checkpoint: str) -> None:
        problem = await asyncio.to_thread(_append, path, checkpoint)
        if problem is None:
            return
        reason = problem.strerror or str(problem)
        logger.warning("a checkpoint cannot be written", file=str(path), reason=reason)
        if self._observer is not None:
            self._observer.checkpoint_unwritten()

    async def close(self) -> None:
        """Waits until the file is written."""
        if self._writing is not None:
            await self._writing


def _append(path: Path, checkpoint: str) -> OSError | None:
    """Adds a checkpoint to a file, which keeps the newest ones, and returns the problem if that
    fails."""
    try:
        earlier = path.read_text("utf-8", errors="replace") if path.exists() else ""
        notes = [*_NOTE.findall(earlier), checkpoint][-_MAX_KEPT:]
        replace_notes(path, "".join(notes).encode())
    except OSError as problem:
        return problem
    return None
