"""Kubernetes objects as values: only the fields that scheduling reads, frozen.

Start with ``pod`` and ``node``, then ``registry`` (all other objects). Quantities are integers: cpu
in millicores, memory and storage in bytes. Every package may import this one; it imports only
``eventsched.domain``. Plugin authors import the names below from the package itself.
"""

from eventsched.domain.objects.frozen import Frozen as Frozen
from eventsched.domain.objects.frozen import canonical as canonical
from eventsched.domain.objects.node import Image as Image
from eventsched.domain.objects.node import Node as Node
from eventsched.domain.objects.node import Taint as Taint
from eventsched.domain.objects.placement_terms import AffinityTerm as AffinityTerm
from eventsched.domain.objects.placement_terms import NodeSelectorTerm as NodeSelectorTerm
from eventsched.domain.objects.placement_terms import PreferredTerm as PreferredTerm
from eventsched.domain.objects.placement_terms import Requirement as Requirement
from eventsched.domain.objects.placement_terms import Selector as Selector
from eventsched.domain.objects.placement_terms import SpreadConstraint as SpreadConstraint
from eventsched.domain.objects.placement_terms import Toleration as Toleration
from eventsched.domain.objects.placement_terms import WeightedAffinityTerm as WeightedAffinityTerm
from eventsched.domain.objects.pod import Owner as Owner
from eventsched.domain.objects.pod import Pod as Pod
from eventsched.domain.objects.pod import PodVolume as PodVolume
from eventsched.domain.objects.pod_spec import Container as Container
from eventsched.domain.objects.pod_spec import HostPort as HostPort
from eventsched.domain.objects.pod_spec import PodSpec as PodSpec
from eventsched.domain.objects.pod_spec import intern as intern
from eventsched.domain.objects.resource_names import CPU as CPU
from eventsched.domain.objects.resource_names import EPHEMERAL_STORAGE as EPHEMERAL_STORAGE
from eventsched.domain.objects.resource_names import MEMORY as MEMORY
from eventsched.domain.objects.resource_names import PODS as PODS
from eventsched.domain.objects.resource_names import Resources as Resources
from eventsched.domain.objects.resource_names import is_extended as is_extended
from eventsched.domain.objects.resource_names import is_scalar as is_scalar
