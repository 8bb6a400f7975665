"""``eventsched run`` as a process beside a control plane, and what its log contains.

    def test_something(plane, schedulers):
        scheduler = schedulers.start()
        …
        scheduler.kill()
        scheduler.start()

After the test every process still running has to end cleanly on request; then every log has to pass
``eventsched verify`` and ``eventsched replay --verify``, and ``eventsched explain`` has to explain
its pods.
"""

import json
import ssl
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from http.client import HTTPException
from io import StringIO
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.error import HTTPError

import yaml
from prometheus_client.parser import text_string_to_metric_families

from eventsched.cli.main import main
from eventsched.domain.errors import InputError
from eventsched.domain.records import PodAdded, PodDecided, PodUpdated, Record
from eventsched.eventlog.postgres.reader import Reader
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import SCHEDULER
from tests.cluster.harness.plane import ControlPlane, free_ports
from tests.waiting import LIMIT

STREAM = "scheduler"
START = 180.0
"""Seconds for the start of a process: most of it are its imports."""
ROOT = Path(__file__).resolve().parents[3]
MOST_EXPLAINED = 10
"""Pods that ``explain`` is asked about after a test."""
AnyRecord = TypeVar("AnyRecord", bound=Record)


class Log:
    """All that a stream says by now."""

    def __init__(self, reader: Reader) -> None:
        self.stored = list(reader.read())
        self.records: list[Record] = [each.record for each in self.stored]

    def of(self, kind: type[AnyRecord]) -> list[AnyRecord]:
        """The records of a kind."""
        return [each for each in self.records if isinstance(each, kind)]

    @property
    def names(self) -> dict[str, str]:
        """Uid → ``namespace/name`` of every pod that was seen."""
        seen = (each.pod for each in self.records if isinstance(each, PodAdded | PodUpdated))
        return {pod.uid: pod.full_name for pod in seen}

    def decisions(self, uid: str) -> list[PodDecided]:
        """The attempts to place a pod."""
        return [each for each in self.of(PodDecided) if each.uid == uid]


class Scheduler:
    """One replica: started, killed, started again, always with the same configuration."""

    def __init__(
        self,
        plane: ControlPlane,
        database: str,
        *,
        name: str = "eventsched",
        config: Object | None = None,
        settings: Object | None = None,
        kubeconfig: Path | None = None,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        command: str = "run",
    ) -> None:
        """``config`` is a KubeSchedulerConfiguration, by default one profile ``eventsched`` and no
        election; ``settings`` is the second document, with ports of its own and JSON lines; if
        it names the database, no option does; ``command`` may be ``extender``."""
        self.database = database
        self.plugins = [each for each in arguments if each.startswith("--plugin=")]
        self.secure, self.plain = free_ports(2)
        first = {"profiles": [{"schedulerName": SCHEDULER}], **(config or {})}
        second = settings or {}
        serving = {"port": self.secure, "plainHealthPort": self.plain, "authorization": "off"}
        second = {**second, "serving": {**serving, **second.get("serving", {})}}
        self.stream = str(second.setdefault("stream", STREAM))
        self.config = plane.folder / f"{name}.yaml"
        self.config.write_text(configuration(first, second))
        named = [] if "database" in second else [f"--database={database}"]
        line = [
            sys.executable, "-m", "eventsched", command, f"--config={self.config}", *named,
            f"--kubeconfig={kubeconfig or plane.kubeconfig}", *arguments,
        ]  # fmt: skip
        self.server = plane.server(name, line, {"PYTHONPATH": str(ROOT), **(environment or {})})

    def start(self, within: float = START) -> Self:
        """Starts it, and waits until it makes attempts. Raises TimeoutError."""
        self.server.start()
        return self.leads(within)

    def leads(self, within: float = START) -> Self:
        """Waits until it makes attempts. Raises TimeoutError."""
        self.server.until(self._is_leading, "leading", within)
        return self

    def kill(self) -> None:
        """kill -9."""
        self.server.kill()

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self.server.stop()

    def ask(self, path: str) -> tuple[int, str]:
        """Status and text of a page."""
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        url = f"https://127.0.0.1:{self.secure}{path}"
        try:
            with urllib.request.urlopen(url, timeout=30, context=trusting) as response:
                return response.status, response.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        text = self.ask("/metrics")[1]
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def lines(self) -> list[dict[str, Any]]:
        """Its own lines, of all its lives."""
        found = []
        for line in self.server.log.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def reader(self) -> Reader:
        """Reads its log. Raises InputError where that was never begun."""
        return Reader(self.database, self.stream)

    def log(self) -> Log:
        """What the log says by now. Raises InputError where it was never begun."""
        return Log(self.reader())

    def wait_log(self, kind: type[AnyRecord], within: float = LIMIT) -> list[AnyRecord]:
        """The records of a kind, once there are any. Raises TimeoutError."""
        return wait_for(lambda: self.log().of(kind), f"{kind.__name__} in the log", within)

    def _is_leading(self) -> bool:
        with suppress(OSError, HTTPException):
            return self.metric("eventsched_takeover_duration_seconds_count") > 0
        return False


class Schedulers:
    """The replicas of a test."""

    def __init__(self, plane: ControlPlane, database: str) -> None:
        self.plane, self.database = plane, database
        self.made: list[Scheduler] = []

    def make(self, **options: Any) -> Scheduler:
        """One that is not started yet; ``options`` are those of ``Scheduler``."""
        options = {"name": f"eventsched-{len(self.made)}", **options}
        scheduler = Scheduler(self.plane, self.database, **options)
        self.made.append(scheduler)
        return scheduler

    def start(self, **options: Any) -> Scheduler:
        """One that leads."""
        return self.make(**options).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends those that run, and looks at their logs. Raises AssertionError."""
        codes = {}
        for each in self.made:
            if each.server.running:
                codes[each.server.name] = each.stop()
        said = {each.server.name: each.server.tail() for each in self.made}
        for each in self.made:
            self.plane.discard(each.server)
            each.server.log.unlink(missing_ok=True)
        wrong = {name: code for name, code in codes.items() if code}
        assert not wrong, "\n".join([str(wrong), *(said[name] for name in wrong)])
        for stream in dict.fromkeys(each.stream for each in self.made):
            check(self.database, stream, [arg for each in self.made for arg in each.plugins])


def check(database: str, stream: str, plugins: Sequence[str] = ()) -> None:
    """A log is whole, each of its decisions comes out again (with the same plugin files), and each
    can be explained. Raises AssertionError. Nothing without a log."""
    try:
        log = Log(Reader(database, stream))
    except InputError:
        return
    where = (f"--database={database}", f"--stream={stream}")
    run("verify", *where)
    run("replay", "--verify", *dict.fromkeys(plugins), *where)
    decided = list(dict.fromkeys(each.uid for each in log.of(PodDecided)))
    for uid in decided[:: max(1, len(decided) // MOST_EXPLAINED)]:
        assert log.names[uid] in run("explain", uid, *where)


def run(*arguments: str) -> str:
    """What a command prints. Raises AssertionError if it does not end with 0."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    assert code == 0, (
        f"eventsched {arguments[0]} ended with {code}\n{out.getvalue()}{err.getvalue()}"
    )
    return out.getvalue()


def configuration(first: Object, second: Object) -> str:
    """The text of a configuration file with both documents."""
    kube = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        **first,
    }
    own = {
        "apiVersion": "eventsched.io/v1alpha1",
        "kind": "EventschedConfiguration",
        "logging": {"format": "json"},
        **second,
    }
    text: str = yaml.safe_dump_all([kube, own])
    return text
