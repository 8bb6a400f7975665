"""Tasks in processes of this machine: a new one for each task, as many at a time as there are
cores."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from eventsched.runtime.executors.task_executor import (
    MOST_TRIES,
    TaskOutcome,
    WorkerLostError,
    attempted,
)


class _Running(NamedTuple):
    number: int
    process: Any
    tries: int


class ProcessExecutor:
    """The TaskExecutor port over processes."""

    def __init__(self, workers: int | None = None) -> None:
        """``workers`` is how many tasks run at a time: by default one for each usable core."""
        self._workers = workers or len(os.sched_getaffinity(0))
        self._context = get_context("spawn")

    def run(self, work: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[TaskOutcome]:
        """See the port."""
        waiting = deque((number, 1) for number in range(len(arguments)))
        running: dict[Connection, _Running] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._workers:
                    number, tries = waiting.popleft()
                    receiver, process = self._start(work, arguments[number])
                    running[receiver] = _Running(number, process, tries)
                ready = set(wait(list(running)))
                for receiver in [each for each in running if each in ready]:
                    task = running.pop(receiver)
                    outcome = _outcome(receiver, task)
                    if isinstance(outcome.problem, WorkerLostError) and task.tries < MOST_TRIES:
                        waiting.append((task.number, task.tries + 1))
                    else:
                        yield outcome
        finally:
            for receiver, task in running.items():
                task.process.kill()
                task.process.join()
                receiver.close()

    def _start(self, work: Callable[[Any], Any], argument: Any) -> tuple[Connection, Any]:
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(sender, work, argument), daemon=True)
        process.start()
        sender.close()  # the worker has the only one: its end is an end of file here
        return receiver, process


def _outcome(receiver: Connection, task: _Running) -> TaskOutcome:
    """How a task ended whose worker has answered, or ended."""
    try:
        value, problem = receiver.recv()
    except EOFError:
        return TaskOutcome(task.number, problem=WorkerLostError())
    finally:
        receiver.close()
        task.process.join()
    return TaskOutcome(task.number, value, problem)


def _work(sender: Connection, work: Callable[[Any], Any], argument: Any) -> None:
    sender.send(attempted(work, argument))
    sender.close()
