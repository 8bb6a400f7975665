"""The job of a check's subprocess, and its execution."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import msgspec

from eventsched.authoring.findings import PluginRun
from eventsched.authoring.plugin_check import PluginCheck
from eventsched.authoring.purity_monitor import PurityMonitor
from eventsched.authoring.synthetic_history import NAME, generated_history, label_words
from eventsched.authoring.targets import instantiated, module_of, plugins_of
from eventsched.domain import records
from eventsched.domain.records.log_entry import LogEntry


class CheckJob(msgspec.Struct):
    """``history`` is a file of HistoryLines, "" for the generated history; ``history_name`` is
    what reports call it. ``out`` is the file for the result. ``seconds`` is the deadline of one
    call."""

    target: str
    out: str
    attempts: int
    seconds: float
    config: str = ""
    history: str = ""
    history_name: str = NAME


class JobRefusal(msgspec.Struct, tag=True):
    """An InputError, for the parent process."""

    where: str
    problem: str
    remedy: str


class HistoryLine(msgspec.Struct, array_like=True):
    """A record of a history: position, time (µs), and the record as it is stored."""

    position: int
    at: int
    body: msgspec.Raw


def run_job(job: CheckJob, monitor: PurityMonitor) -> list[PluginRun]:
    """Checks each plugin of the target. Raises InputError if the target holds no plugin."""
    runs = []
    for plugin in plugins_of(job.target).values():
        file = inspect.getfile(plugin)
        monitor.file = str(Path(file).parent) if Path(job.target).is_dir() else file
        monitor.hits.clear()
        instance = instantiated(plugin, Path(job.config) if job.config else None)
        check = PluginCheck(instance, job.history_name, Path(file).name, monitor, job.seconds)
        if job.history:
            history = _read(Path(job.history))
        else:
            history = iter(generated_history(label_words(module_of(plugin))))
        runs.append(check.run(history, job.attempts))
    return runs


def _read(path: Path) -> Iterator[LogEntry]:
    decoder = msgspec.json.Decoder(HistoryLine)
    with path.open("rb") as lines:
        for text in lines:
            line = decoder.decode(text)
            record = records.decode(bytes(line.body))
            yield LogEntry(line.position, line.at, line.position, record)
