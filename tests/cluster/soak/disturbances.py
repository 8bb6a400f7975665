"""Faults by seed, one or two at a time, in two replicas, their ways to the servers, and the servers
themselves."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import psycopg

from eventsched.eventlog.embedded.postmaster import Postmaster
from tests.cluster.harness.faults import Hold
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.own_postgres import OwnPostgres
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.postgres_proxy import PostgresProxy
from tests.cluster.harness.scheduler import Scheduler
from tests.cluster.harness.wall_clock import WallClock
from tests.cluster.soak.resources import SmallDisk, memory_can_be_limited, out_of_memory
from tests.waiting import until

SETTINGS = {"track_commit_timestamp": "on", "commit_siblings": "0"}
"""Of Postgres: the times of commits, and ``commit_delay`` for every one of them."""
HOUR = 3600
_OUT_OF_MEMORY = "a replica is out of memory"


class Replica(NamedTuple):
    """A scheduler, its ways to the servers, and its clock."""

    scheduler: Scheduler
    kube: KubeProxy
    postgres: PostgresProxy
    clock: WallClock


class Servers(NamedTuple):
    """What the replicas depend on."""

    plane: ControlPlane
    postgres: OwnPostgres
    folder: Path
    """Of the Postgres server."""
    disk: SmallDisk


class Deed(NamedTuple):
    """A fault; ``begins`` does it, and undoes it when it goes on. Two with one ``target`` do not
    happen together."""

    name: str
    target: str
    begins: Callable[[], Iterator[None]]


class Disturbances:
    """``happened`` counts the faults by name, ``ended`` the replicas that ended by themselves, by
    exit code."""

    def __init__(self, replicas: list[Replica], servers: Servers, seed: int) -> None:
        self._replicas, self._servers = replicas, servers
        self._random = Random(seed)
        self._deeds = [deed for number in range(len(replicas)) for deed in self._of_replica(number)]
        self._deeds += [*self._of_postgres(), *self._of_api_server()]
        self.happened = Counter({deed.name: 0 for deed in self._deeds})
        self.ended: Counter[str] = Counter()
        self._turns: list[Deed] = []

    def disturb(self, seconds: float, tell: Callable[[str], None]) -> None:
        """For this time; then everything works again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.revive()
            tell(self._round())
            time.sleep(self._random.uniform(0.5, 5.0))

    def _round(self) -> str:
        if not self._turns:  # each has its turn before one comes again
            self._turns = self._random.sample(self._deeds, len(self._deeds))
        chosen = [self._turns.pop()]
        if self._random.random() < 0.3:
            others = [deed for deed in self._deeds if deed.target != chosen[0].target]
            chosen.append(self._random.choice(others))
        with ExitStack() as stack:
            for deed in chosen:
                stack.enter_context(contextmanager(deed.begins)())
                self.happened[deed.name] += 1
            time.sleep(self._random.uniform(0.2, 12.0))
        return ", ".join(f"{deed.name} ({deed.target})" for deed in chosen)

    def revive(self) -> None:
        """Starts replicas that have ended, as a kubelet does."""
        for number, replica in enumerate(self._replicas):
            server = replica.scheduler.server
            if not server.running:
                self.ended[f"replica {number} with {server.wait(1.0)}"] += 1
                server.start()

    # --- a replica ------------------------------------------------------------------------

    def _of_replica(self, number: int) -> list[Deed]:
        replica = self._replicas[number]
        deeds = {
            "kill -9 of a replica": self._kill,
            "SIGSTOP of a replica": self._stop,
            "API server unreachable: refused": self._cut_off_api,
            "API server unreachable: silent": self._silence_api,
            "Postgres unreachable: refused": self._cut_off_database,
            "Postgres unreachable: silent": self._silence_database,
            "slow answers of Postgres": self._slow_answers,
            "the clock of a replica steps": self._clock,
        }
        if memory_can_be_limited():
            deeds[_OUT_OF_MEMORY] = self._out_of_memory
        return [
            Deed(name, f"replica {number}", partial(deed, replica)) for name, deed in deeds.items()
        ]

    def _kill(self, replica: Replica) -> Iterator[None]:
        replica.scheduler.kill()
        yield
        replica.scheduler.server.start()

    def _stop(self, replica: Replica) -> Iterator[None]:
        replica.scheduler.server.pause()
        yield
        replica.scheduler.server.go_on()

    def _out_of_memory(self, replica: Replica) -> Iterator[None]:
        server = replica.scheduler.server
        with out_of_memory(server.pid):
            with suppress(TimeoutError):
                until(lambda: not server.running, "killed", 20.0, every=0.05)
            if server.running:
                self.happened["a replica was not out of memory in 20 s: kill -9"] += 1
                self.happened[_OUT_OF_MEMORY] -= 1  # the round counts it
            server.kill()
        yield
        server.start()

    def _cut_off_api(self, replica: Replica) -> Iterator[None]:
        replica.kube.go_down()
        yield
        replica.kube.come_back()

    def _silence_api(self, replica: Replica) -> Iterator[None]:
        replica.kube.stall_watches()
        rule = replica.kube.on(".*", "", Hold())
        yield
        rule.release()
        replica.kube.clear()

    def _cut_off_database(self, replica: Replica) -> Iterator[None]:
        replica.postgres.go_down()
        yield
        replica.postgres.come_back()

    def _silence_database(self, replica: Replica) -> Iterator[None]:
        replica.postgres.stall()
        yield
        replica.postgres.resume()

    def _slow_answers(self, replica: Replica) -> Iterator[None]:
        replica.postgres.delay = self._random.uniform(0.02, 0.5)
        yield
        replica.postgres.delay = 0.0

    def _clock(self, replica: Replica) -> Iterator[None]:
        replica.clock.jump(self._random.choice((-1, 1)) * self._random.randint(1, HOUR))
        yield
        if self._random.random() < 0.5:
            replica.clock.jump(0)

    # --- servers --------------------------------------------------------------------------

    def _of_postgres(self) -> list[Deed]:
        deeds = {
            "kill -9 of Postgres": self._kill_postgres,
            "SIGSTOP of Postgres": self._stop_postgres,
            "slow disk of Postgres": self._slow_disk,
        }
        if self._servers.disk.can_be_full:
            deeds["full disk of Postgres"] = self._full_disk
        # Twice, as those of the replicas.
        return 2 * [Deed(name, "Postgres", deed) for name, deed in deeds.items()]

    def _of_api_server(self) -> list[Deed]:
        return [
            Deed("kill -9 of the API server", "API server", self._kill_api),
            Deed("SIGSTOP of the API server", "API server", self._stop_api),
        ]

    def _kill_postgres(self) -> Iterator[None]:
        self._servers.postgres.stop("killed")
        yield
        self._servers.postgres.start(SETTINGS)

    def _stop_postgres(self) -> Iterator[None]:
        running = Postmaster(self._servers.folder).running()
        assert running is not None
        stopped = [running.pid, *_children(running.pid)]
        _signal(stopped, signal.SIGSTOP)
        yield
        _signal(stopped, signal.SIGCONT)

    def _slow_disk(self) -> Iterator[None]:
        self._delay_commits(self._random.randint(10_000, 100_000))
        yield
        self._delay_commits(0)

    def _full_disk(self) -> Iterator[None]:
        self._servers.disk.fill()
        yield
        self._servers.disk.empty()
        if Postmaster(self._servers.folder).running() is None:
            self._servers.postgres.start(SETTINGS)

    def _delay_commits(self, microseconds: int) -> None:
        """Every commit waits for this time between its record and its flush."""
        with suppress(psycopg.OperationalError):  # another fault has Postgres
            self._servers.postgres.execute(f"alter system set commit_delay = {microseconds}")
            self._servers.postgres.execute("select pg_reload_conf()")

    def _kill_api(self) -> Iterator[None]:
        self._servers.plane.apiserver.kill()
        yield
        self._servers.plane.apiserver.start()
        self._servers.plane.wait_ready()

    def _stop_api(self) -> Iterator[None]:
        self._servers.plane.apiserver.pause()
        yield
        self._servers.plane.apiserver.go_on()


def _children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found.append(int(folder.name))
    return found


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
