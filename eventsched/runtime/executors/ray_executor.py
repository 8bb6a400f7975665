"""Tasks on a Ray cluster: that of an address, or one of this machine for the time of a run.

Importing this module raises InputError if the package ray is missing.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.runtime.executors.task_executor import (
    MOST_TRIES,
    TaskOutcome,
    WorkerLostError,
    attempted,
)

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else Ray reports its use to its makers
try:
    import ray
    from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError
except ImportError as missing:
    raise InputError(
        "--executor ray", "the package ray is missing", "install 'eventsched[ray]'"
    ) from missing

_STORE_BYTES = 256 * 2**20
"""Room for results that wait, in a cluster of its own."""
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}


class RayExecutor:
    """The TaskExecutor port over Ray, which gives a task whose worker ended without a result to
    another one."""

    def __init__(self, address: str = "", workers: int | None = None) -> None:
        """``address`` is HOST:PORT of the cluster's server of Ray Client; without one, a cluster
        of ``workers`` processes (by default one for each usable core) is started for each run."""
        self._address = address
        self._workers = workers or len(os.sched_getaffinity(0))

    def run(self, work: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[TaskOutcome]:
        """See the port."""
        if not arguments:
            return
        with self._connected():
            task = ray.remote(max_retries=MOST_TRIES - 1)(attempted)
            waiting = {
                task.remote(work, argument): number for number, argument in enumerate(arguments)
            }
            while waiting:
                [ready], _ = ray.wait(list(waiting), num_returns=1)
                yield _outcome(waiting.pop(ready), ready)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Ray takes over SIGTERM when it connects, which this undoes."""
        is_main = threading.current_thread() is threading.main_thread()
        handler = signal.getsignal(signal.SIGTERM)
        # Ray leaves its logs behind, so they go into a folder of the run. Its sockets are there,
        # too, and a socket's path has at most 107 bytes.
        with TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
            try:
                self._connect(folder)
                if is_main:
                    signal.signal(signal.SIGTERM, handler)
                yield
            finally:
                ray.shutdown()

    def _connect(self, folder: str) -> None:
        if not self._address:
            ray.init(
                address="local", num_cpus=self._workers, include_dashboard=False,
                object_store_memory=_STORE_BYTES, _temp_dir=folder, **_QUIET,
            )  # fmt: skip
            return
        try:
            ray.init(f"ray://{self._address}", **_QUIET)
        except (ConnectionError, RuntimeError, ValueError) as problem:
            raise InputError(
                f"--executor ray://{self._address}",
                f"does not answer as a Ray Client server ({' '.join(str(problem).split())})",
                "check the address, and that Ray and Python have the same version there",
            ) from problem


def _outcome(number: int, ready: Any) -> TaskOutcome:
    try:
        value, problem = ray.get(ready)
    except (WorkerCrashedError, NodeDiedError, OutOfMemoryError):
        return TaskOutcome(number, problem=WorkerLostError())
    except Exception as raised:  # noqa: BLE001 - such as a worker without this package
        return TaskOutcome(number, problem=raised)
    return TaskOutcome(number, value, problem)
