"""Checks a plugin by running it in two separate processes and comparing its answers.

The processes have different hash seeds, so the iteration order of sets and ``hash`` of a text
differ. A plugin's answers must not differ: a replay in another process, on another day, has to
reach the same decisions.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from eventsched.authoring.findings import Finding, PluginRun, by_severity
from eventsched.authoring.job import CheckJob, JobRefusal
from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided
from eventsched.eventlog.port import StoredLog

CALL_DEADLINE = 5.0
"""Seconds that one call of the plugin may take."""
PROCESS_DEADLINE = 600.0
"""Seconds that one process of a check may take."""


class CheckRequest(NamedTuple):
    """What to check. ``target`` is a file, a package's folder or a plugin's name; ``config`` holds
    the plugin's arguments; ``attempts`` limits the scheduling attempts; ``seconds`` is the deadline
    of one call."""

    target: str
    config: Path | None = None
    attempts: int = 500
    seconds: float = CALL_DEADLINE


def check(request: CheckRequest, log: StoredLog | None) -> list[PluginRun]:
    """The findings for each plugin of the target, over the history in ``log`` or a generated one.
    Raises InputError if the target holds no plugin, CorruptLogError if the log cannot be read."""
    with tempfile.TemporaryDirectory(prefix="eventsched-check-") as folder:
        job = CheckJob(
            target=request.target,
            out=str(Path(folder) / "result.json"),
            attempts=request.attempts,
            seconds=request.seconds,
            config="" if request.config is None else str(request.config),
        )
        if log is not None:
            job.history_name = f"stream {getattr(log, 'stream', '')}"
            job.history = str(_export(log, Path(folder) / "history", request.attempts))
        first, second = (_run_process(job, hash_seed) for hash_seed in (1, 2))
    for run, repetition in zip(first, second, strict=True):
        _merge(run, repetition)
    return first


def _export(log: StoredLog, file: Path, attempts: int) -> Path:
    """Writes the part of a log that the check needs to a file that the subprocesses can read."""
    left = attempts
    with file.open("wb") as lines:
        for stored in log.read():
            left -= stored.kind == PodDecided.__name__
            if left < 0:
                break
            line = (stored.position, stored.at, msgspec.Raw(stored.body))
            lines.write(msgspec.json.encode(line) + b"\n")
    return file


def _run_process(job: CheckJob, hash_seed: int) -> list[PluginRun]:
    """Runs the job in a new process. Raises InputError if it fails or exceeds its deadline."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    # The subprocess must find this package whatever its working directory is.
    paths = [str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    try:
        process = subprocess.run(
            [sys.executable, "-m", "eventsched.authoring"],
            input=msgspec.json.encode(job),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=PROCESS_DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired as timeout:
        problem = f"the check did not finish within {PROCESS_DEADLINE:g} s"
        raise InputError(job.target, problem, "lower --attempts") from timeout
    out = Path(job.out)
    if process.returncode or not out.exists():
        last = process.stderr.decode(errors="replace").strip().splitlines()[-1:]
        problem = f"the check's process ended with exit code {process.returncode}: {' '.join(last)}"
        raise InputError(job.target, problem, "fix the plugin")
    result = msgspec.json.decode(out.read_bytes(), type=list[PluginRun] | JobRefusal)
    out.unlink()
    if isinstance(result, JobRefusal):
        raise InputError(result.where, result.problem, result.remedy)
    return result


def _merge(run: PluginRun, repetition: PluginRun) -> None:
    """Adds to the first run what only the second process shows."""
    known = {(finding.kind, finding.point) for finding in run.findings}
    run.findings += [
        finding for finding in repetition.findings if (finding.kind, finding.point) not in known
    ]
    for entry, repeated in zip(run.transcript, repetition.transcript, strict=False):
        if entry != repeated:
            if ("unstable", entry.point) not in known:
                text = (
                    f"answers differently about {entry.pod} in another process, so it depends on "
                    "more than its arguments (the order of a set, hash() of a text, its own "
                    "attributes?)"
                )
                where = f"position {entry.position}"
                run.findings.append(Finding("unstable", entry.point, text, where))
            break
    run.findings = by_severity(run.findings)
