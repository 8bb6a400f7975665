"""Tasks on a Dask cluster: that of an address, or one of this machine for the time of a run.

Importing this module raises InputError if the package distributed is missing.
"""

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.runtime.executors.task_executor import (
    MOST_TRIES,
    TaskOutcome,
    WorkerLostError,
    attempted,
)

try:
    from dask import config
    from distributed import Client, KilledWorker, LocalCluster, as_completed
except ImportError as missing:
    raise InputError(
        "--executor dask", "the package distributed is missing", "install 'eventsched[dask]'"
    ) from missing

_CONNECT_SECONDS = 10
_LOGGER = "distributed"
"""Reports the deaths of workers, which are an outcome here."""


class DaskExecutor:
    """The TaskExecutor port over Dask. A worker that ends without a result is replaced by its
    nanny, and the cluster's scheduler gives its tasks to other workers, as often as the setting
    ``distributed.scheduler.allowed-failures`` says."""

    def __init__(self, address: str = "", workers: int | None = None) -> None:
        """``address`` is HOST:PORT of the cluster's scheduler; without one, a cluster of
        ``workers`` processes (by default one for each usable core) is started for each run."""
        self._address = address
        self._workers = workers or len(os.sched_getaffinity(0))

    def run(self, work: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[TaskOutcome]:
        """See the port."""
        if not arguments:
            return
        logger = logging.getLogger(_LOGGER)
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        try:
            with self._client() as client:
                yield from self._outcomes(client, work, arguments)
        finally:
            logger.setLevel(level)

    @contextmanager
    def _client(self) -> Iterator[Any]:
        if not self._address:
            with (
                config.set({"distributed.scheduler.allowed-failures": MOST_TRIES - 1}),
                LocalCluster(
                    n_workers=self._workers, threads_per_worker=1, dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                ) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):  # fmt: skip
                yield client
            return
        address = f"tcp://{self._address}"
        try:
            client = Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as problem:
            raise InputError(
                f"--executor dask://{self._address}",
                f"does not answer as a Dask scheduler ({' '.join(str(problem).split())})",
                "check the address, and that Dask has the same version there",
            ) from problem
        with client:
            yield client

    def _outcomes(
        self, client: Any, work: Callable[[Any], Any], arguments: Sequence[Any]
    ) -> Iterator[TaskOutcome]:
        futures = {
            client.submit(attempted, work, argument, pure=False): number
            for number, argument in enumerate(arguments)
        }
        suspects = []
        for future in as_completed(list(futures), loop=client.loop):
            outcome = self._outcome(futures.pop(future), future)
            if isinstance(outcome.problem, WorkerLostError):
                suspects.append(outcome.number)
            else:
                yield outcome
        # Dask blames all tasks that a lost worker had or was about to have. Alone, a task shows
        # whether it is the one that ends its worker.
        for number in suspects:
            again = client.submit(attempted, work, arguments[number], pure=False)
            yield self._outcome(number, again)

    def _outcome(self, number: int, future: Any) -> TaskOutcome:
        try:
            value, problem = future.result()
        except KilledWorker:
            return TaskOutcome(number, problem=WorkerLostError())
        except CancelledError as ended:
            raise UnavailableError(
                f"--executor dask://{self._address}", "the cluster has ended", "start it again"
            ) from ended
        except Exception as raised:  # noqa: BLE001 - such as a worker without this package
            return TaskOutcome(number, problem=raised)
        return TaskOutcome(number, value, problem)
