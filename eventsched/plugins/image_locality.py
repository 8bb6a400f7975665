"""ImageLocality: nodes that already have a pod's large images score higher.

Upstream: plugins/imagelocality/image_locality.go.
"""

import numpy as np

from eventsched.domain.int64 import from_floats, percents
from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, NodeView, signed_by_spec

_MB = 1024 * 1024
_SMALLEST = 23 * _MB
_LARGEST = 1000 * _MB


class ImageLocality:
    """Score by the bytes of the pod's images on the node, scaled by the share of nodes that have
    each image."""

    name = "ImageLocality"
    depends_on = DependsOn.NODE | DependsOn.IMAGES

    sign = staticmethod(signed_by_spec)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """0 below 23 MiB, 100 from 1000 MiB per container on."""
        containers = pod.spec.init_containers + pod.spec.containers
        total = np.zeros(len(nodes), dtype=np.int64)
        for image in [c.image for c in containers] + list(pod.spec.image_volumes):
            sizes, holders = nodes.image_sizes(_normalized(image))
            if holders:
                spread = holders / nodes.total_nodes
                total += from_floats(sizes.astype(np.float64) * spread)
        largest = _LARGEST * len(containers)
        # Not np.clip: without containers the upper bound is 0, and the lower bound must win.
        clipped = np.where(total < _SMALLEST, _SMALLEST, np.minimum(total, largest))
        return percents(clipped - _SMALLEST, largest - _SMALLEST)


def _normalized(name: str) -> str:
    """The name, with ``:latest`` if it has neither tag nor digest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
