"""The process in which a plugin is asked: a job on stdin, trials into a file (see checkup.py)."""

import sys
from pathlib import Path

import msgspec

from eventsched.authoring.purity_monitor import Sentinels


def main() -> int:
    """Watches first, then imports everything else, the plugin last."""
    sentinels = Sentinels()
    sentinels.install()
    from eventsched.authoring.job import CheckJob, JobRefusal, tried
    from eventsched.domain.errors import InputError

    job = msgspec.json.decode(sys.stdin.buffer.read(), type=CheckJob)
    out = Path(job.out)
    try:
        out.write_bytes(msgspec.json.encode(tried(job, sentinels)))
    except InputError as problem:
        refusal = JobRefusal(problem.where, problem.problem, problem.remedy)
        out.write_bytes(msgspec.json.encode(refusal))
    return 0


sys.exit(main())
