"""Sources of runs in which important pods displace others: small nodes, many pods, budgets."""

import random
from typing import Any

from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.sources.load import Source
from eventsched.domain.objects import Requirement
from eventsched.domain.objects.registry import PodDisruptionBudget
from eventsched.scheduling.framework import Wait
from tests.builders import GIB, SECOND, make_node, make_pod

APPS = "abc"


class Hesitant:
    """Every third pod waits at Permit for an answer that never comes: it may be sent back before
    that is over."""

    name = "Hesitant"
    wakes_on = ()

    def permit(self, cycle: Any, pod: Any, node: str) -> Wait | None:
        return Wait(3) if pod.name.startswith("p-") and int(pod.name[2:]) % 3 == 1 else None


def budget(app: str, allowed: int = 1, *, disrupted: tuple[str, ...] = ()) -> PodDisruptionBudget:
    """A budget of the pods with a label app."""
    selector = (Requirement(key="app", operator="In", values=(app,)),)
    return PodDisruptionBudget(
        name=app, namespace="default", selector=selector, allowed=allowed, disrupted=disrupted
    )


def crowded(seed: int, *, nodes: int = 3, pods: int = 30) -> Source:
    """Pods of four priorities that come one after the other, run for a while or forever, and ask
    for more than there is; some want a host port, some must not displace others."""
    chance = random.Random(seed)
    arrivals = []
    for number in range(pods):
        pod = make_pod(
            f"p-{number}",
            cpu=chance.choice((500, 1000, 1500, 2500)),
            memory=GIB,
            ports=(80,) if chance.random() < 0.2 else (),
            priority=chance.choice((-5, 0, 0, 5, 10)),
            labels={"app": chance.choice(APPS)},
            preemption_policy="Never" if chance.random() < 0.1 else "",
        )
        runs_for = chance.choice((None, 2 * SECOND, 9 * SECOND))
        arrivals.append(TracePod(pod, number // 5 * SECOND // 2, runs_for))
    made = [make_node(f"n{number}", cpu=chance.choice((2000, 4000))) for number in range(nodes)]
    bound = [make_pod(f"b-{number}", node_name=f"n{number}", priority=1, started_at=SECOND,
                      deleting=number == 1) for number in range(2)]  # fmt: skip
    return Source(made, arrivals, bound, objects=(budget("a", 1), budget("b", 0)))
