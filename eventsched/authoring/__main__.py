"""The subprocess of a check: reads a CheckJob from stdin and writes the result to the job's file.

See checkup.py for the parent process.
"""

import sys
from pathlib import Path

import msgspec

from eventsched.authoring.purity_monitor import PurityMonitor


def main() -> int:
    """Installs the monitor first, then imports everything else, and the plugin last."""
    monitor = PurityMonitor()
    monitor.install()
    from eventsched.authoring.job import CheckJob, JobRefusal, run_job
    from eventsched.domain.errors import InputError

    job = msgspec.json.decode(sys.stdin.buffer.read(), type=CheckJob)
    out = Path(job.out)
    try:
        out.write_bytes(msgspec.json.encode(run_job(job, monitor)))
    except InputError as problem:
        refusal = JobRefusal(problem.where, problem.problem, problem.remedy)
        out.write_bytes(msgspec.json.encode(refusal))
    return 0


sys.exit(main())
