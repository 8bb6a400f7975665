"""ElasticQuotas and the usage of their namespaces.

Part of SchedulerState. Usage follows each pod that is booked on a node or leaves it. It is derived,
not stored, so that a restart and a replay compute the same. The rules are those of
sigs.k8s.io/scheduler-plugins, pkg/capacityscheduling/elasticquota.go. There, a pod that was on a
node before its quota was created is counted only after a restart; here it always is.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from eventsched.domain.int64 import INT64_MAX, wrapped
from eventsched.domain.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    Pod,
    PodSpec,
    Resources,
    is_scalar,
)
from eventsched.domain.objects.pod_requests import of_containers
from eventsched.domain.objects.registry import ElasticQuota, Registry
from eventsched.domain.state.pod_state import PodState

STANDARD = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""Resources that are always compared: a limit that does not name one of them allows none of it."""
_UNLIMITED = dict.fromkeys(STANDARD, INT64_MAX)
_NO_RESOURCES: Resources = {}


def request(spec: PodSpec) -> Resources:
    """A pod's request of its quota (upstream: computePodResourceRequest). Computed once for each
    spec."""
    cached: Resources | None = spec.__dict__.get("_quota_request")
    if cached is None:
        total = of_containers(spec)
        cached = {name: total[name] for name in total if name in STANDARD or is_scalar(name)}
        spec.__dict__["_quota_request"] = cached
    return cached


def _add(total: Resources, more: Mapping[str, int], sign: int = 1) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + sign * amount


def is_over(
    scalars: Iterable[str], amount: Callable[[str], int], limit: Mapping[str, int], unnamed: int
) -> bool:
    """Whether an amount is above its limit, for cpu, memory, ephemeral storage and ``scalars``.
    ``unnamed`` is the limit of scalars that ``limit`` does not name (upstream: cmp2). Sums wrap at
    64 bits, as upstream."""
    for name in STANDARD:
        if wrapped(amount(name)) > limit.get(name, 0):
            return True
    return any(
        wrapped(amount(name)) > limit.get(name, unnamed) for name in scalars if name not in STANDARD
    )


class NamespaceUsage:
    """A namespace's pods on nodes: what they use (without zeros), the pods by uid, and how many
    there are of each priority."""

    __slots__ = ("members", "priorities", "used")

    def __init__(self) -> None:
        self.used: Resources = {}
        self.members: dict[str, PodState] = {}
        self.priorities: Counter[int] = Counter()


class Quotas:
    """All quotas, one a namespace: of several in a namespace, the one whose name sorts first."""

    def __init__(self, registry: Registry, pods: Mapping[str, PodState]) -> None:
        self._registry, self._pods = registry, pods
        self._by_namespace: dict[str, NamespaceUsage] | None = None
        """None until there is a quota."""
        self._version: tuple[int, ...] = ()
        self._quotas: dict[str, ElasticQuota] = {}
        self._used: Resources = {}
        self._min: Resources = {}

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def place(self, pod_state: PodState, sign: int) -> None:
        """Takes a pod that is booked on a node (``sign`` 1) or leaves it (-1)."""
        if self._by_namespace is None:
            return
        self._book(self._by_namespace, pod_state, sign)
        if pod_state.pod.namespace in self._quotas:
            _follow(self._used, request(pod_state.pod.spec), sign)

    def _book(
        self, by_namespace: dict[str, NamespaceUsage], pod_state: PodState, sign: int
    ) -> None:
        pod = pod_state.pod
        usage = by_namespace.get(pod.namespace)
        if usage is None:
            usage = by_namespace[pod.namespace] = NamespaceUsage()
        _follow(usage.used, request(pod.spec), sign)
        usage.priorities[pod.priority] += sign
        if not usage.priorities[pod.priority]:
            del usage.priorities[pod.priority]
        if sign > 0:
            usage.members[pod.uid] = pod_state
        else:
            del usage.members[pod.uid]
            if not usage.members:
                del by_namespace[pod.namespace]

    # --- questions ------------------------------------------------------------------------

    def of(self, namespace: str) -> ElasticQuota | None:
        """A namespace's quota."""
        self._refresh()
        return self._quotas.get(namespace)

    def used(self, namespace: str) -> Mapping[str, int]:
        """What a namespace's pods use, if there is any quota."""
        return self.usage_of(namespace).used

    def usage_of(self, namespace: str) -> NamespaceUsage:
        """A namespace's pods; read only."""
        self._refresh()
        usage = None if self._by_namespace is None else self._by_namespace.get(namespace)
        return NamespaceUsage() if usage is None else usage

    def usage(self) -> "HypotheticalUsage":
        """The usage now, for hypothetical changes."""
        self._refresh()
        return HypotheticalUsage(self)

    def namespaces(self) -> Collection[str]:
        """The namespaces that have a quota."""
        self._refresh()
        return self._quotas

    @property
    def total(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """The usage and the guarantees of all namespaces with a quota together."""
        self._refresh()
        return self._used, self._min

    def _refresh(self) -> None:
        version = self._registry.version(ElasticQuota)
        if version == self._version:
            return
        self._version = version
        self._quotas = {}
        for quota in self._registry.all(ElasticQuota).values():
            first = self._quotas.get(quota.namespace)
            if first is None or quota.name < first.name:
                self._quotas[quota.namespace] = quota
        if self._quotas and self._by_namespace is None:
            self._by_namespace = {}
            for state in self._pods.values():
                if state.booked_node:
                    self._book(self._by_namespace, state, 1)
        self._used, self._min = {}, {}
        for namespace, quota in self._quotas.items():
            _add(self._min, quota.min or _NO_RESOURCES)
            for name, amount in self.used(namespace).items():
                self._used[name] = self._used.get(name, 0) + amount


def _follow(used: Resources, amounts: Mapping[str, int], sign: int) -> None:
    for name, amount in amounts.items():
        now = used.get(name, 0) + sign * amount
        if now:
            used[name] = now
        else:
            used.pop(name, None)


class HypotheticalUsage:
    """The usage without some pods, compared with the present quotas."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._limited = quotas.namespaces()
        self._less: dict[str, Resources] = {}
        self._less_in_all: Resources = {}

    def remove(self, pod: Pod) -> None:
        """Leaves out a pod."""
        self._change(pod, 1)

    def put_back(self, pod: Pod) -> None:
        """Includes a removed pod again."""
        self._change(pod, -1)

    def is_over_min(self, namespace: str) -> bool:
        """Whether a namespace with a quota borrows (upstream: usedOverMin)."""
        quota = self._quotas.of(namespace)
        assert quota is not None
        used, less = self._of(namespace)
        return is_over(
            used, lambda name: used.get(name, 0) - less.get(name, 0), quota.min or _NO_RESOURCES, 0
        )

    def is_over_min_with(self, namespace: str, more: Mapping[str, int]) -> bool:
        """Whether it would borrow with an additional request. Of extended resources only those
        requested count (upstream: usedOverMinWith)."""
        quota = self._quotas.of(namespace)
        assert quota is not None
        return self._is_over_with(namespace, more, quota.min or _NO_RESOURCES, 0)

    def is_over_max_with(self, namespace: str, more: Mapping[str, int]) -> bool:
        """Whether it would use more than its maximum (upstream: usedOverMaxWith)."""
        quota = self._quotas.of(namespace)
        assert quota is not None
        limit = _UNLIMITED if quota.max is None else quota.max
        return self._is_over_with(namespace, more, limit, INT64_MAX)

    def is_over_all_with(self, more: Mapping[str, int]) -> bool:
        """Whether all namespaces with quotas together would use more than all their guarantees
        (upstream: aggregatedUsedOverMinWith)."""
        (used, limit), less = self._quotas.total, self._less_in_all

        def amount(name: str) -> int:
            return used.get(name, 0) - less.get(name, 0) + more.get(name, 0)

        return is_over(more, amount, limit, 0) or is_over(used, amount, limit, 0)

    def _is_over_with(
        self, namespace: str, more: Mapping[str, int], limit: Mapping[str, int], unnamed: int
    ) -> bool:
        used, less = self._of(namespace)

        def amount(name: str) -> int:
            return used.get(name, 0) - less.get(name, 0) + more.get(name, 0)

        return is_over(more, amount, limit, unnamed)

    def _change(self, pod: Pod, sign: int) -> None:
        if pod.namespace not in self._limited:
            return
        amounts = request(pod.spec)
        _add(self._less.setdefault(pod.namespace, {}), amounts, sign)
        _add(self._less_in_all, amounts, sign)

    def _of(self, namespace: str) -> tuple[Mapping[str, int], Mapping[str, int]]:
        return self._quotas.used(namespace), self._less.get(namespace, _NO_RESOURCES)
