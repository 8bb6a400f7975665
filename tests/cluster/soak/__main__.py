"""``python -m tests.cluster.soak --minutes 60 --seed 1``: two replicas under load and random faults
on a control plane of their own; then the history is written and judged.

Prints the faults, the operations and the violations. Exits with 1 on a violation, and keeps the
history, the audit log and the logs of the servers.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.schema import migrations
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.load import PERMIT, turnstile
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.own_postgres import OwnPostgres
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.postgres_proxy import PostgresProxy
from tests.cluster.harness.scheduler import STREAM, Scheduler, run
from tests.cluster.harness.wall_clock import WallClock
from tests.cluster.soak import judge
from tests.cluster.soak.disturbances import SETTINGS, Disturbances, Replica, Servers
from tests.cluster.soak.history import StoreWatch, audit_flags, from_audit_log, from_database
from tests.cluster.soak.pod_stream import PodStream, begin
from tests.cluster.soak.resources import SmallDisk

USERS = ("replica-0", "replica-1")
ELECTION = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
SETTLING = 300.0
"""Seconds in which every pod gets a node, once the faults are over."""


class Soak:
    """The servers, the replicas between their proxies, and what watches them."""

    def __init__(self, out: Path, stack: ExitStack) -> None:
        self.out = out
        enter = stack.enter_context
        users = dict.fromkeys(USERS, ("system:masters",))
        self.plane = enter(ControlPlane(flags=audit_flags(out), users=users))
        stack.callback(self._keep_logs)
        self.watch = enter(StoreWatch(self.plane.etcd_url))
        self.namespace = enter(self.plane.namespace("soak"))
        self.servers = enter(_servers(self.plane))
        begin(self.plane)
        self.replicas = [self._replica(user, stack) for user in USERS]

    def _replica(self, user: str, stack: ExitStack) -> Replica:
        kube = stack.enter_context(KubeProxy(self.plane))
        postgres = stack.enter_context(PostgresProxy(self.servers.postgres.url))
        clock = WallClock(self.plane.folder / f"clock-{user}")
        clock.jump(0)
        token = {"token": self.plane.token(user)}
        where = {"resourceName": "soak", "resourceNamespace": self.namespace}
        scheduler = Scheduler(
            self.plane,
            postgres.url,
            name=user,
            config={
                "profiles": [{"schedulerName": "eventsched", "plugins": PERMIT}],
                "leaderElection": {"leaderElect": True, **where, **ELECTION},
            },
            settings={"snapshot": {"records": 2000}},
            kubeconfig=self.plane.write_kubeconfig(user, token, kube.url),
            arguments=[f"--plugin={turnstile(self.plane)}"],
            environment=clock.environment,
        )
        stack.callback(scheduler.kill)
        return Replica(scheduler, kube, postgres, clock)

    def settle(self, stream: PodStream) -> bool:
        """Ends the load and waits until every pod has a node; whether that was so in time."""
        stream.stop()
        stream.leave_room()
        admin, numbers = self.plane.admin, iter(range(1000))

        def all_placed() -> bool:
            found = admin.list("Pod", self.namespace)
            waiting = [each for each in found if "nodeName" not in each["spec"]]
            if waiting and len(found) < 45:  # it lets those through that wait at Permit
                admin.create(pod(f"next-{next(numbers)}", "10m"), self.namespace)
            return not waiting

        try:
            wait_for(all_placed, "all pods have nodes", SETTLING, 3.0)
        except TimeoutError as late:
            print(late, flush=True)
            return False
        return True

    def write_history(self) -> Path:
        """Writes all operations into a file, once the replicas have ended."""
        settled = {"kind": "settled", "revision": self.plane.revision()}
        end = f"{self.namespace}/the-end"
        self.plane.admin.create(pod("the-end", scheduler="none"), self.namespace)
        wait_for(lambda: end in self.watch.uids or self.watch.failure, "the end in etcd", 60.0)
        if self.watch.failure is not None:
            raise self.watch.failure
        file = self.out / "history.jsonl"
        with (
            (self.out / "audit.log").open(encoding="utf-8", errors="replace") as audit,
            file.open("w", encoding="utf-8") as to,
        ):
            for line in from_database(self.servers.postgres.url, STREAM):
                to.write(json.dumps(line) + "\n")
            for line in from_audit_log(audit, self.watch.uids):
                to.write(json.dumps(line) + "\n")
            for line in [*self.watch.lines, settled]:
                to.write(json.dumps(line) + "\n")
        return file

    def check_log(self) -> bool:
        """Whether the log is whole, and replays to the same decisions."""
        where = (f"--database={self.servers.postgres.url}", f"--stream={STREAM}")
        try:
            run("verify", *where)
            run("replay", "--verify", f"--plugin={turnstile(self.plane)}", *where)
        except AssertionError as wrong:
            print(wrong, flush=True)
            return False
        return True

    def _keep_logs(self) -> None:
        for log in self.plane.folder.glob("*.log"):
            shutil.copy(log, self.out)


@contextmanager
def _servers(plane: ControlPlane) -> Iterator[Servers]:
    disk = SmallDisk()
    try:
        folder = disk.folder / "server"
        with EmbeddedPostgres(folder, settings=SETTINGS).open() as postgres:
            migrations.upgrade(postgres.superuser_url)
            yield Servers(plane, OwnPostgres(folder, postgres.superuser_url), folder, disk)
        EmbeddedPostgres(folder).stop_unused()
    finally:
        disk.close()


def soak(out: Path, seconds: float, seed: int) -> int:
    """One run; the exit code."""
    with ExitStack() as stack:
        made = Soak(out, stack)
        for replica in made.replicas:
            replica.scheduler.server.start()
        disturbances = Disturbances(made.replicas, made.servers, seed)
        stream = stack.enter_context(PodStream(made.plane, made.namespace, seed))
        began = time.monotonic()

        def tell(text: str) -> None:
            print(f"{time.monotonic() - began:6.0f} s: {text}", flush=True)

        disturbances.disturb(seconds, tell)
        disturbances.revive()
        settled = made.settle(stream)
        codes = [replica.scheduler.stop() for replica in made.replicas]
        file = made.write_history()
        for name, count in sorted(disturbances.happened.items()):
            print(f"{count:5} {name}")
        print(f"replicas that ended by themselves: {dict(disturbances.ended)}")
        print(f"pods: {stream.done}; all placed in the end: {settled}; exit codes: {codes}")
        command = [sys.executable, "-I", str(judge.__file__), str(file)]
        judged = subprocess.run(command, check=False, timeout=900).returncode
        is_whole = made.check_log()
        print(f"the log verifies and replays: {is_whole}", flush=True)
    return 0 if settled and not judged and is_whole and not any(codes) else 1


def main() -> int:
    """Runs the soak with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the history of any run")
    options = parser.parse_args()
    out = options.keep or Path(tempfile.mkdtemp(prefix="eventsched-soak-"))
    out.mkdir(exist_ok=True)
    code = 1
    try:
        code = soak(out.resolve(), options.minutes * 60, options.seed)
    finally:
        if code or options.keep:
            print(f"the history is in {out}")
        else:
            shutil.rmtree(out)
    return code


if __name__ == "__main__":
    sys.exit(main())
