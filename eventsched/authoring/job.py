"""What a process of a check is to do, and how it does it."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import msgspec

from eventsched.authoring.findings import PluginRun
from eventsched.authoring.plugin_check import PluginCheck
from eventsched.authoring.purity_monitor import Sentinels
from eventsched.authoring.synthetic_history import NAME, rehearsed, words_of
from eventsched.authoring.targets import made, module_of, plugins_of
from eventsched.domain import records
from eventsched.domain.records.logged import Logged


class CheckJob(msgspec.Struct):
    """``history`` is a file with lines of stored records, "" for the generated one, and ``named``
    what it is called; ``out`` the file for the trials; ``seconds`` how long a call may take."""

    target: str
    out: str
    attempts: int
    seconds: float
    config: str = ""
    history: str = ""
    named: str = NAME


class JobRefusal(msgspec.Struct, tag=True):
    """Bad input, as InputError has it."""

    where: str
    problem: str
    remedy: str


class HistoryLine(msgspec.Struct, array_like=True):
    """A record of a history: position, time, and the record as it is stored."""

    position: int
    at: int
    body: msgspec.Raw


def tried(job: CheckJob, sentinels: Sentinels) -> list[PluginRun]:
    """A trial for each plugin of the target. Raises InputError for what is no plugin."""
    trials = []
    for plugin in plugins_of(job.target).values():
        file = inspect.getfile(plugin)
        sentinels.file = str(Path(file).parent) if Path(job.target).is_dir() else file
        sentinels.hits.clear()
        instance = made(plugin, Path(job.config) if job.config else None)
        trying = PluginCheck(instance, job.named, Path(file).name, sentinels, job.seconds)
        words = words_of(module_of(plugin))
        history = _read(Path(job.history)) if job.history else iter(rehearsed(words))
        trials.append(trying.run(history, job.attempts))
    return trials


def _read(path: Path) -> Iterator[Logged]:
    decoder = msgspec.json.Decoder(HistoryLine)
    with path.open("rb") as lines:
        for text in lines:
            line = decoder.decode(text)
            record = records.decode(bytes(line.body))
            yield Logged(line.position, line.at, line.position, record)
