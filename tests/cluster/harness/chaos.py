"""Faults by seed, one after the other, on the ways to the API server and to the database."""

import threading
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Self

from tests.cluster.harness.faults import Delay, Fault, Hang, Lose, Refuse, Rule, Swallow
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.postgres_proxy import PostgresProxy
from tests.cluster.harness.tcp_proxy import TcpProxy
from tests.waiting import joined

WRITES = (("POST", "/binding$"), ("DELETE", "/pods/"), ("POST", "/events$"), ("PATCH", "/status"))
READS = (("GET", "/pods/"), ("GET", "limit="))
REFUSALS = (Refuse(429, 1), Refuse(503, 1), Refuse(503), Refuse(500))


class Chaos:
    """Something happens now and then, while the block lasts; afterwards nothing is wrong any more.
    ``happened`` says what."""

    def __init__(self, kube: KubeProxy, postgres: PostgresProxy, seed: int) -> None:
        self.happened: list[str] = []
        self._kube, self._postgres, self._random = kube, postgres, Random(seed)
        self._rules: list[Rule] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos", daemon=True)
        self._deeds: tuple[Callable[[], str], ...] = (
            self._disturb_request,
            self._disturb_request,
            self._disturb_request,
            self._disturb_statement,
            self._disturb_statement,
            self._cut_watches,
            self._stall_watches,
            self._leave_the_api,
            self._leave_the_database,
            self._stall_the_database,
            self._cut_the_database,
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        joined(self._thread)
        self._kube.clear()
        self._postgres.clear()

    def _run(self) -> None:
        while not self._over.wait(self._random.uniform(0.1, 1.0)):
            with suppress(OSError):
                self.happened.append(self._random.choice(self._deeds)())

    def _disturb_request(self) -> str:
        method, path = self._random.choice((*WRITES, *WRITES, *READS))
        fault: Fault = self._random.choice(
            (Lose(), Swallow(), Hang(), Delay(self._random.uniform(0.1, 3.0)), *REFUSALS)
        )
        times = self._random.randint(1, 4)
        self._rules.append(self._kube.on(method, path, fault, times=times))
        return f"{times} {method} {path}: {fault}"

    def _disturb_statement(self) -> str:
        fault: Fault = self._random.choice(
            (Lose(), Swallow(), Hang(), Delay(self._random.uniform(0.1, 3.0)))
        )
        self._rules.append(self._postgres.on("eventsched_log", fault, times=1))
        return f"a statement: {fault}"

    def _cut_watches(self) -> str:
        return f"{self._kube.cut('watch=')} watches are cut"

    def _stall_watches(self) -> str:
        self._kube.stall_watches()
        self._wait(3.0)
        self._kube.resume_watches()
        return "watches have stalled"

    def _leave_the_api(self) -> str:
        self._interrupt(self._kube)
        return "the API server was down"

    def _leave_the_database(self) -> str:
        self._interrupt(self._postgres)
        return "the database was down"

    def _stall_the_database(self) -> str:
        self._postgres.stall()
        self._wait(3.0)
        self._postgres.resume()
        return "the database has stalled"

    def _cut_the_database(self) -> str:
        self._postgres.cut()
        return "the connection to the database was cut"

    def _interrupt(self, proxy: KubeProxy | TcpProxy) -> None:
        proxy.go_down()
        self._wait(2.0)
        proxy.come_back()

    def _wait(self, most: float) -> None:
        self._over.wait(self._random.uniform(0.0, most))
