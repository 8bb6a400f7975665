"""Names for completion, as the API server lists them with the user's rights.

Nothing is sent to the scheduler, except for the names of its streams. Only names are fetched: whole
pods are a hundred times as large.
"""

from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from eventsched import __version__
from eventsched.cli.object_names.typed_workloads import typed_workloads
from eventsched.cluster.kube.http.access import connect, known_contexts, namespace_in_use
from eventsched.cluster.kube.http.api import JSON, ApiClient, path
from eventsched.domain.workload_kinds import POD_GROUP
from eventsched.kubectl_plugin.scheduler_access import SchedulerOptions, scheduler_access
from eventsched.kubectl_plugin.service_proxy import LABEL
from eventsched.scheduling.framework.pod_groups import NAMES

_NAMES_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = "1000"
_SECONDS = 2.0
_RESOURCES = {
    "Pod": ("api", "v1", "pods"),
    "Job": ("apis", "batch", "v1", "jobs"),
    "Deployment": ("apis", "apps", "v1", "deployments"),
    "ReplicaSet": ("apis", "apps", "v1", "replicasets"),
    "StatefulSet": ("apis", "apps", "v1", "statefulsets"),
    "DaemonSet": ("apis", "apps", "v1", "daemonsets"),
}
"""The collections of pods and workloads."""


class CompletionOptions(SchedulerOptions):
    """The options of a command line that is being typed."""

    namespace: str | None


class _NamedMetadata(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None

    @property
    def group(self) -> str | None:
        """The pod group that a pod names."""
        stated = {**(self.annotations or {}), **(self.labels or {})}
        return next((group for name in NAMES if (group := stated.get(name))), None)


class _Named(msgspec.Struct, frozen=True):
    metadata: _NamedMetadata


class _Continuation(msgspec.Struct, frozen=True, rename="camel"):
    continue_: str = msgspec.field(name="continue", default="")


class _NamePage(msgspec.Struct, frozen=True):
    items: tuple[_Named, ...]
    metadata: _Continuation = _Continuation()


class _Stream(msgspec.Struct, frozen=True):
    name: str


class _Streams(msgspec.Struct, frozen=True):
    streams: tuple[_Stream, ...]


async def cluster_names(kind: str, word: str, options: CompletionOptions) -> Sequence[str]:
    """The names of a kind that begin with a word; none if the user may not list them. Raises
    InputError, UnavailableError and UnansweredError."""
    if kind == "contexts":
        return [name for name in known_contexts(options.kubeconfig) if name.startswith(word)]
    namespace = options.namespace or namespace_in_use(options.kubeconfig, options.context)
    if kind == "streams":
        async with scheduler_access(options, namespace) as scheduler:
            answer = await scheduler.ask("/streams", {}, JSON)
        found = [each.name for each in msgspec.json.decode(answer, type=_Streams).streams]
        return [name for name in found if name.startswith(word)]
    agent = f"kubectl-eventsched/{__version__}"
    api = await connect(
        options.kubeconfig, options.context, user_agent=agent, timeout=_SECONDS, patience=0,
        reads_only=True,
    )  # fmt: skip
    try:
        listed = _listed(api, kind, word, options.namespace, namespace)
        return sorted({name async for name in listed if name.startswith(word)})
    finally:
        await api.close()


async def _listed(
    api: ApiClient, kind: str, word: str, given: str | None, namespace: str
) -> AsyncIterator[str]:
    """All names of a kind; of pods those of a namespace: that of ``word``, as in ``shop/web``, or
    else the one that is in use."""
    if kind in ("nodes", "namespaces"):
        async for each in _metadata(api, path("api", "v1", kind)):
            yield each.name
    elif kind == "services":
        async for each in _metadata(api, "/api/v1/services", labelSelector=LABEL):
            yield f"{each.namespace}/{each.name}"
    elif kind == "targets":
        async for name in _targets(api, word, given, namespace):
            yield name
    elif kind in ("pods", "serviceaccounts"):
        within, is_qualified, _ = word.partition("/")
        qualified = bool(is_qualified) and given is None and kind == "pods"
        place = path("api", "v1", "namespaces", within if qualified else namespace, kind)
        async for each in _metadata(api, place):
            yield f"{within}/{each.name}" if qualified else each.name


async def _targets(
    api: ApiClient, word: str, given: str | None, namespace: str
) -> AsyncIterator[str]:
    """Pods, and the workloads that a word may become. A kind that is typed leaves the rest out.
    Pod groups are those that pods name: clusters need no objects for them."""
    workloads = typed_workloads(word)
    if not any(word.startswith(each.prefix) for each in workloads):
        async for name in _listed(api, "pods", word, given, namespace):
            yield name
    for workload in workloads:
        within = workload.namespace or namespace
        if workload.kind == POD_GROUP:
            async for each in _metadata(api, path("api", "v1", "namespaces", within, "pods")):
                if each.group is not None:
                    yield f"{workload.prefix}{each.group}"
        if (resource := _RESOURCES.get(workload.kind)) is None:
            continue
        async for each in _metadata(api, path(*resource[:-1], "namespaces", within, resource[-1])):
            yield f"{workload.prefix}{each.name}"


async def _metadata(api: ApiClient, place: str, **more: str) -> AsyncIterator[_NamedMetadata]:
    params = {"limit": _PAGE, **more}
    while True:
        answer = await api.call("GET", place, params=params, headers={"Accept": _NAMES_ONLY})
        if answer.status != 200:
            return
        page = msgspec.json.decode(answer.body, type=_NamePage)
        for item in page.items:
            yield item.metadata
        if not page.metadata.continue_:
            return
        params["continue"] = page.metadata.continue_
