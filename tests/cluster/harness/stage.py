"""A scheduler between two proxies, and who watches its pods."""

from contextlib import ExitStack
from typing import Any

from eventsched.domain.records import PodBound
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.load import PROFILES, Load, strayed, turnstile
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.postgres_proxy import PostgresProxy
from tests.cluster.harness.scheduler import Log, Scheduler, Schedulers


class Stage:
    """A scheduler that is not started yet, with a proxy on each side. ``running`` is what has to be
    ended: use it as a context."""

    def __init__(self, plane: ControlPlane, database: str, namespace: str, **options: Any) -> None:
        """``options`` are the scheduler's."""
        self.plane, self.pods, self.database = plane, Pods(plane.admin, namespace), database
        self.running = ExitStack()
        enter = self.running.enter_context
        self.kube = enter(KubeProxy(plane))
        self.postgres = enter(PostgresProxy(database))
        self.observer = enter(Observer(plane, namespace))
        self.schedulers = enter(Schedulers(plane, database))
        self.schedulers.database = self.postgres.url
        self.scheduler = self.another(kubeconfig=self.kube.kubeconfig(), **options)
        self.scheduler.database = self.schedulers.database = database

    def another(self, **options: Any) -> Scheduler:
        """One more with the same configuration, without proxies; not started yet."""
        plugin = f"--plugin={turnstile(self.plane)}"
        return self.schedulers.make(config={"profiles": PROFILES}, arguments=[plugin], **options)

    def placed(self, *names: str) -> None:
        """Creates pods and waits until they are on nodes."""
        for name in names:
            self.pods.create(pod(name))
        for name in names:
            self.pods.node(name, 60.0)

    def settled(self) -> Log:
        """The log, once every pod has a node and every outcome is reported; the log is checked."""
        self.observer.wait_placed()

        def is_logged() -> bool:
            bound = {each.uid for each in self.scheduler.log().of(PodBound)}
            return set(self.observer.pods) <= bound

        wait_for(is_logged, "all binds are in the log", 60.0, 0.5)
        log = self.scheduler.log()
        self.observer.check(log)
        assert strayed(log) == {}
        return log

    def calm(self, pods: Load) -> Log:
        """The same, after a load."""
        pods.come_to_rest(self.observer)
        return self.settled()

    def bindings(self, name: str = "") -> list[int]:
        """The API server's answers to binds of this pod, or of all."""
        end = f"/{name}/binding" if name else "/binding"
        return [each.status for each in self.kube.passed if each.path.endswith(end)]

    def no_more_bindings(self) -> int:
        """How many binds there were, once there are no more. Raises TimeoutError."""
        counts = [-1]

        def is_over() -> bool:
            counts.append(len(self.bindings()))
            return counts[-1] == counts[-2]

        wait_for(is_over, "no more binds", 60.0, every=1.5)
        return counts[-1]

    def unready(self) -> str:
        """What readiness complains of, "" if it does not."""
        status, text = self.scheduler.ask("/readyz")
        return "" if status == 200 else text
