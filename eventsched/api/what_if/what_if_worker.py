"""The process of one what-if: reads a job from stdin, and writes messages to stdout.

It gives way to the server: it runs at a lower priority, and is the first that the kernel ends when
memory is short. It ends itself if the server cannot end it: by an alarm, and because the next
message has no reader.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from eventsched.api.what_if.worker_messages import (
    LogDamaged,
    Message,
    WhatIfAdvanced,
    WhatIfDone,
    WhatIfJob,
    WhatIfRefused,
    WhatIfUnavailable,
)
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.questions.what_ifs.what_if_answer import what_if_answer

_EVERY = 0.25
"""Seconds between two messages about progress at least."""
_NICENESS = 10
_FIRST_TO_END = "1000"
"""The highest oom_score_adj."""


def main() -> int:
    """Answers one job."""
    with suppress(OSError):  # not every kernel lets a process say it
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END, encoding="ascii")
    os.nice(_NICENESS)
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=WhatIfJob)
    signal.alarm(job.seconds)
    # What plugins print must not get among the messages.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        _send(out, _result(job, out))
    return 0


def _result(job: WhatIfJob, out: IO[bytes]) -> Message:
    told = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        if (now := time.monotonic()) - told >= _EVERY:
            told = now
            _send(out, WhatIfAdvanced(done, total))

    plugins = [Path(name) for name in job.plugins]
    try:
        return WhatIfDone(
            what_if_answer(job.address, job.question, plugins, job.store_in, progress)
        )
    except InputError as error:
        return WhatIfRefused(error.where, error.problem, error.remedy)
    except UnavailableError as error:
        return WhatIfUnavailable(error.where, error.problem, error.remedy)
    except CorruptLogError as error:
        return LogDamaged(error.position, error.problem)


def _send(out: IO[bytes], message: Message) -> None:
    out.write(msgspec.json.encode(message) + b"\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main())
