"""A plugin checked: asked in two processes that have nothing in common but what it is given.

They differ in Python's hash seed, so in the order of sets and in what ``hash`` of a text is. What
a plugin answers must not: a replay on another day, in another process, has to decide the same.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from eventsched.authoring.findings import Finding, PluginRun, gravest_first
from eventsched.authoring.job import CheckJob, JobRefusal
from eventsched.authoring.synthetic_history import NAME
from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided
from eventsched.eventlog.port import StoredLog

DEADLINE = 5.0
"""Seconds that a call may take."""
PATIENCE = 600.0
"""Seconds that a whole process may take."""


class Checkup(NamedTuple):
    """What is to be checked: a file, a folder or a plugin's name; with the arguments that a
    configuration has for it; over so many attempts at most."""

    target: str
    config: Path | None = None
    attempts: int = 500
    seconds: float = DEADLINE


def check(wanted: Checkup, log: StoredLog | None) -> list[PluginRun]:
    """What was found of each plugin, over a log's history or a generated one. Raises InputError for
    what is no plugin, CorruptLogError for a log that cannot be read."""
    with tempfile.TemporaryDirectory(prefix="eventsched-check-") as folder:
        job = CheckJob(
            target=wanted.target,
            out=str(Path(folder) / "trials.json"),
            attempts=wanted.attempts,
            seconds=wanted.seconds,
            config="" if wanted.config is None else str(wanted.config),
        )
        if log is not None:
            job.named = f"stream {getattr(log, 'stream', '')}"
            job.history = str(_written(log, Path(folder) / "history", wanted.attempts))
        first, second = (_asked(job, seed) for seed in (1, 2))
    for one, other in zip(first, second, strict=True):
        _compare(one, other)
    return first


def _written(log: StoredLog, file: Path, attempts: int) -> Path:
    """The part of a log that is asked about, in a file that other processes can read."""
    left = attempts
    with file.open("wb") as lines:
        for stored in log.read():
            left -= stored.kind == PodDecided.__name__
            if left < 0:
                break
            line = (stored.position, stored.at, msgspec.Raw(stored.body))
            lines.write(msgspec.json.encode(line) + b"\n")
    return file


def _asked(job: CheckJob, seed: int) -> list[PluginRun]:
    """The trials of one process."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    # Where ``python -m`` would look for the package, whatever folder this is.
    paths = [str(Path(__file__).parents[2]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "eventsched.authoring"],
            input=msgspec.json.encode(job),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        said = f"the check does not come to an end within {PATIENCE:g} s"
        raise InputError(job.target, said, "ask about fewer --attempts") from late
    out = Path(job.out)
    if ended.returncode or not out.exists():
        last = ended.stderr.decode(errors="replace").strip().splitlines()[-1:]
        said = f"the process that asks it has ended with {ended.returncode}: {' '.join(last)}"
        raise InputError(job.target, said, "fix the plugin")
    found = msgspec.json.decode(out.read_bytes(), type=list[PluginRun] | JobRefusal)
    out.unlink()
    if isinstance(found, JobRefusal):
        raise InputError(found.where, found.problem, found.remedy)
    return found


def _compare(one: PluginRun, other: PluginRun) -> None:
    """Adds to the first trial what only the second one shows."""
    known = {(each.kind, each.point) for each in one.findings}
    one.findings += [each for each in other.findings if (each.kind, each.point) not in known]
    for mine, theirs in zip(one.transcript, other.transcript, strict=False):
        if mine != theirs:
            what = f"answers differently about {mine.pod} in another process: it is no function of "
            what += "what it is given (the order of a set, hash() of a text, what it kept?)"
            if ("unstable", mine.point) not in known:
                where = f"position {mine.position}"
                one.findings.append(Finding("unstable", mine.point, what, where))
            break
    one.findings = gravest_first(one.findings)


__all__ = ["DEADLINE", "NAME", "Checkup", "check"]
