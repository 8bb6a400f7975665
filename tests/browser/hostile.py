"""A history whose names are markup, in every field that a cluster's users can write."""

from eventsched.domain import records
from eventsched.domain.objects import Taint
from eventsched.domain.objects.pod import Owner
from eventsched.domain.records import FORMAT
from eventsched.scheduling.framework.pod_groups import MINIMUM
from eventsched.scheduling.framework.pod_groups import NAMES as GROUP_LABELS
from tests.builders import make_node, make_pod
from tests.postgres.histories import World

HOSTILE = "<b>hostile</b>"
NAME = "\"'><img src=x onerror=alert(1)>{{7*7}}<script>alert(2)<!--"
"""For names: a slash would end a segment of a path, and Kubernetes takes none in a name."""
MARKUP = f"{NAME}</script><script>alert(3)</script>"


def hostile(address: str) -> None:
    """Writes a stream with a node that is full, a pod that waits for it, and a pod group that lacks
    a member."""
    world = World()
    world.see(records.StreamStarted(format=FORMAT, engine="test", seed=MARKUP), 0)
    taint = Taint(key=MARKUP, value=MARKUP, effect="NoSchedule")
    world.see(records.NodeAdded(node=make_node(f"node {MARKUP}", cpu=1000)), 0)
    world.see(
        records.NodeAdded(node=make_node(f"tainted {MARKUP}", cpu=16_000, taints=(taint,))), 0
    )
    group = {GROUP_LABELS[0]: NAME, MINIMUM: "3"}
    for number, cpu in enumerate((500, 9000, 400)):
        pod = make_pod(
            f"pod{number} {NAME}", uid=f"hostile-{number}", namespace=NAME, cpu=cpu,
            owner=Owner(kind=MARKUP, name=MARKUP, uid="owner"),
            labels={MARKUP: MARKUP, **(group if number != 1 else {})},
        )  # fmt: skip
        world.see(records.PodAdded(pod=pod), 1 + number)
    world.attempt()
    world.write(address, HOSTILE)
