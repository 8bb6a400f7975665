"""Tasks in processes of this machine: a new one for each task, as many at a time as there are
cores."""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from eventsched.runtime.executors.task_executor import MOST_TRIES, WorkerLostError


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

    def run(
        self, work: Callable[[Any], Any], arguments: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
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
                    is_raised, answer = self._answer(receiver, task)
                    if is_raised is None:
                        if task.tries == MOST_TRIES:
                            raise WorkerLostError(task.number)
                        waiting.append((task.number, task.tries + 1))
                    elif is_raised:
                        raise answer
                    else:
                        yield task.number, answer
        finally:
            for task in running.values():
                task.process.kill()
                task.process.join()

    def _start(self, work: Callable[[Any], Any], argument: Any) -> tuple[Connection, Any]:
        receiver, sender = self._context.Pipe(duplex=False)
        process = self._context.Process(target=_work, args=(sender, work, argument), daemon=True)
        process.start()
        sender.close()  # the worker has the only one: its end is an end of file here
        return receiver, process

    def _answer(self, receiver: Connection, task: _Running) -> tuple[bool | None, Any]:
        """Whether the task has raised what is the second value; (None, None) if its worker ended
        without an answer."""
        try:
            answer: tuple[bool, Any] = receiver.recv()
        except EOFError:
            return None, None
        finally:
            receiver.close()
            task.process.join()
        return answer


def _work(sender: Connection, work: Callable[[Any], Any], argument: Any) -> None:
    try:
        answer = False, work(argument)
    except Exception as problem:  # noqa: BLE001 - raised again where the result is awaited
        answer = True, problem
    sender.send(answer)
    sender.close()
