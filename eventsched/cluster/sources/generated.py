"""Generated loads, for ``--generate``, the demo and the benchmarks.

A load is a function of its text (``nodes=1000,pods=5000,shape=mixed,seed=1``): its numbers are
keyed hashes, so it is the same on every machine and Python version. The shapes:

- ``plain``: all nodes are alike (32 cpu, 128 GiB, 110 pods), and so are all pods (100m, 256 MiB):
  up to 110 pods fit on a node.
- ``mixed``: 150 kinds of pods with node selectors, node affinity, tolerations, host ports and GPU
  requests, on nodes of three sizes in three zones, with GPUs, taints and images. With three nodes
  or more, every pod has a node that satisfies its constraints.
- ``tight``: the pods request about twice what the nodes have, and they end: with about four pods a
  node or more, pods wait, back off and are placed when others end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b

from eventsched.cluster.sources.arrivals import GeneratedPods, TracePod
from eventsched.cluster.sources.node_churn import NodeChurn
from eventsched.cluster.sources.recurrence import Recurrence
from eventsched.cluster.sources.rollouts import Rollouts
from eventsched.cluster.translate.manifest import pod_uid
from eventsched.domain.errors import InputError
from eventsched.domain.objects import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    Container,
    HostPort,
    Image,
    Node,
    NodeSelectorTerm,
    Owner,
    Pod,
    PodSpec,
    PreferredTerm,
    Requirement,
    Taint,
    Toleration,
)

GPU = "example.com/gpu"
ZONE = "topology.kubernetes.io/zone"
DISK = "example.com/disk"
MIXED_SHAPES = 150
TIGHT_RUNTIME_SECONDS = 120
TIGHT_ARRIVAL_SECONDS = 60
"""All pods of a tight load without a rate arrive within this time, before most of them end."""

_WHERE = "--generate"
_REMEDY = (
    "write nodes=N,pods=N[,shape=plain|mixed|tight][,seed=N][,rate=PODS_PER_SECOND]"
    "[,runtime=SECONDS][,node-life=TIME][,churn=TIME][,flaps=TIME][,rollouts=TIME][,waves=TIME]"
)
_DURATIONS = ("node-life", "churn", "flaps", "rollouts", "waves")
_NAMES = ("nodes", "pods", "shape", "seed", "rate", "runtime", *_DURATIONS)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LARGEST = 1_000_000
_MIB = 1024 * 1024
_GIB = 1024 * _MIB
_ZONES = ("zone-a", "zone-b", "zone-c")
_MIXED_CPU = (50, 100, 100, 200, 250, 500, 500, 1000, 2000)
_MIXED_MEMORY_MIB = (64, 128, 256, 256, 512, 1024, 2048, 4096)
_TIGHT_CPU = (250, 500, 1000, 2000)
_TIGHT_MEAN_CPU = sum(_TIGHT_CPU) // len(_TIGHT_CPU)


@dataclass(frozen=True)
class Load:
    """A load to generate. ``rate`` is in pods per second (None: all arrive at 0), ``runtime`` in
    seconds (None: pods do not end). In shape plain all pods run for ``runtime``, in the others for
    0.5 to 1.5 times as long. ``node_life`` is how long a node lives before another takes its place,
    ``churn`` the time between two changes of a node's labels and taints, ``flaps`` between two
    times when a node is not ready, ``rollouts`` between two rollouts of a Deployment, all in
    seconds (None: never), until the last pod has arrived and has run. ``waves`` is the period of
    the arrivals in seconds: in its first half three times as many pods arrive as in its second."""

    node_count: int
    pod_count: int
    shape: str = "plain"
    seed: int = 1
    rate: Decimal | None = None
    runtime: Decimal | None = None
    node_life: Decimal | None = None
    churn: Decimal | None = None
    flaps: Decimal | None = None
    rollouts: Decimal | None = None
    waves: Decimal | None = None

    def __str__(self) -> str:
        """The text that ``parse`` reads, in canonical form. It identifies the load."""
        text = f"nodes={self.node_count},pods={self.pod_count},shape={self.shape},seed={self.seed}"
        for name, value in (
            ("rate", self.rate), ("runtime", self.runtime), ("node-life", self.node_life),
            ("churn", self.churn), ("flaps", self.flaps), ("rollouts", self.rollouts),
            ("waves", self.waves),
        ):  # fmt: skip
            if value is not None:
                text += f",{name}={value.normalize():f}"
        return text

    def nodes(self) -> list[Node]:
        """The nodes, each with its hostname as a label."""
        make = _NODES[self.shape](self)
        return [make(index) for index in range(self.node_count)]

    def pods(self) -> GeneratedPods:
        """The pods in the order of their arrival; those of one template share one PodSpec."""
        specs = _SPECS[self.shape](self)
        workloads = [_workload(index) for index in range(len(specs))]
        runtime = None if self.runtime is None else int(self.runtime * 1_000_000)
        rollouts = self.pod_rollouts()
        templates: dict[int, tuple[int, Pod]] = {}
        """The newest template of each shape, with its revision."""

        def template(shape: int, at: int) -> Pod:
            revision = 0 if rollouts is None else rollouts.revision(shape, at)
            if shape not in templates or templates[shape][0] != revision:
                labels, owner = workloads[shape]
                pod = Pod(uid="", name="", labels=labels, owner=owner, spec=specs[shape])
                pod = pod if rollouts is None else rollouts.pod(pod, at)
                templates[shape] = revision, pod
            return templates[shape][1]

        def make(index: int) -> TracePod:
            shape = self.number("shape", index) % len(specs) if len(specs) > 1 else 0
            name, at = f"pod-{index:06d}", self._arrives_at(index)
            pod = template(shape, at)
            pod = Pod(
                uid=pod_uid("default", name),
                name=name,
                labels=pod.labels,
                owner=pod.owner,
                created_at=at,
                spec=pod.spec,
            )
            return TracePod(pod, at, self._runs_for(runtime, index))

        return GeneratedPods(self.pod_count, make)

    def node_churn(self) -> NodeChurn | None:
        """How the nodes are replaced and changed; None if they stay as they are."""
        if self.node_life is None and self.churn is None and self.flaps is None:
            return None
        return NodeChurn(
            self.nodes(), self.number, _micros(self.node_life), _micros(self.churn),
            self._until(), _micros(self.flaps),
        )  # fmt: skip

    def pod_rollouts(self) -> Rollouts | None:
        """When the Deployments are rolled; None for never."""
        if self.rollouts is None:
            return None
        indices = {f"app-{index}": index for index in range(len(_SPECS[self.shape](self)))}
        recurrence = Recurrence("rollout", self.number, _micros(self.rollouts), self._until())
        return Rollouts(indices, recurrence)

    def _until(self) -> int:
        """When (µs) the last pod has arrived and has run."""
        end = 0 if self.rate is None else self.pod_count / self.rate
        end += 0 if self.runtime is None else self.runtime * 3 / 2
        return int(end * 1_000_000)

    def _arrives_at(self, index: int) -> int:
        at = 0 if self.rate is None else int(index * 1_000_000 / self.rate)
        period = _micros(self.waves)
        if period is None:
            return at
        begin, since = at // period * period, at % period
        if since * 4 < period * 3:
            return begin + since * 2 // 3
        return begin + max(period // 2, since * 2 - period)

    def number(self, what: str, index: int) -> int:
        """A number in [0, 2**64) that depends on the seed and the arguments alone."""
        key = str(self.seed).encode()
        text = f"{what}\0{index}".encode()
        return int.from_bytes(blake2b(text, digest_size=8, key=key).digest(), "big")

    def _runs_for(self, runtime: int | None, index: int) -> int | None:
        if runtime is None or self.shape == "plain":
            return runtime
        return runtime // 2 + self.number("runtime", index) % (runtime + 1)


def parse(text: str) -> Load:
    """The load that a text such as ``nodes=1000,pods=5000,shape=plain,seed=1`` names.

    ``nodes`` and ``pods`` are required. The default shape is plain, the default seed 1. Tight loads
    have default rates and runtimes. Raises InputError for any other text.
    """
    settings: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise InputError(_WHERE, f"{part.strip()!r} is not of the form name=value", _REMEDY)
        if name not in _NAMES:
            raise InputError(_WHERE, f"{name!r} is not known", _REMEDY)
        if name in settings:
            raise InputError(_WHERE, f"{name} is given twice", _REMEDY)
        settings[name] = value
    for name in ("nodes", "pods"):
        if name not in settings:
            raise InputError(_WHERE, f"{name} is missing", _REMEDY)
    shape = settings.get("shape", "plain")
    if shape not in _SPECS:
        raise InputError(_WHERE, f"shape={shape} is not known", f"use one of {', '.join(_SPECS)}")
    pods = _count("pods", settings["pods"], lowest=0)
    rate, runtime = (
        _positive(name, settings[name]) if name in settings else None
        for name in ("rate", "runtime")
    )
    if shape == "tight":
        rate = rate or Decimal(max(1, pods)) / TIGHT_ARRIVAL_SECONDS
        runtime = runtime or Decimal(TIGHT_RUNTIME_SECONDS)
    if "waves" in settings and rate is None:
        raise InputError(_WHERE, "waves is given without a rate", "add rate=PODS_PER_SECOND")
    return Load(
        node_count=_count("nodes", settings["nodes"], lowest=1),
        pod_count=pods,
        shape=shape,
        seed=_count("seed", settings.get("seed", "1"), lowest=0, highest=2**63 - 1),
        rate=rate,
        runtime=runtime,
        **{name.replace("-", "_"): _duration(name, settings) for name in _DURATIONS},
    )


def _count(name: str, text: str, *, lowest: int, highest: int = _LARGEST) -> int:
    if not (text.isascii() and text.isdigit()) or not lowest <= int(text[:20]) <= highest:
        raise InputError(
            _WHERE,
            f"{name}={text} is not a whole number from {lowest} to {highest}",
            _REMEDY,
        )
    return int(text)


def _positive(name: str, text: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite() or not Decimal("0.000001") <= number <= 10**9:
        raise InputError(
            _WHERE, f"{name}={text} is not a number from 0.000001 to 1000000000", _REMEDY
        )
    return number


def _duration(name: str, settings: dict[str, str]) -> Decimal | None:
    """Seconds; the text may have a unit."""
    text = settings.get(name)
    if text is None:
        return None
    factor = _UNITS.get(text[-1:], 0)
    return _positive(name, text[:-1]) * factor if factor else _positive(name, text)


def _micros(seconds: Decimal | None) -> int | None:
    return None if seconds is None else max(1, int(seconds * 1_000_000))


def _workload(index: int) -> tuple[dict[str, str], Owner]:
    app = f"app-{index}"
    return {"app": app}, Owner(kind="ReplicaSet", name=app, uid=f"replicaset-{app}")


def _image(shape: int) -> str:
    return f"registry.example.com/app-{shape}:v1"


def _plain_specs(load: Load) -> list[PodSpec]:
    requests = {CPU: 100, MEMORY: 256 * _MIB}
    return [PodSpec(containers=(Container(image=_image(0), requests=requests),))]


def _mixed_specs(load: Load) -> list[PodSpec]:
    return [_mixed_spec(load, shape) for shape in range(MIXED_SHAPES)]


def _mixed_spec(load: Load, shape: int) -> PodSpec:
    # Constraints depend on the shape's number, so every seed has all of them; sizes are random.
    cpu = _MIXED_CPU[load.number("cpu", shape) % len(_MIXED_CPU)]
    memory = _MIXED_MEMORY_MIB[load.number("memory", shape) % len(_MIXED_MEMORY_MIB)] * _MIB
    zone = _ZONES[load.number("zone", shape) % len(_ZONES)]
    requests = {CPU: cpu, MEMORY: memory}
    if shape % 30 == 4:
        requests[GPU] = 1
    if shape % 15 == 2:
        requests[EPHEMERAL_STORAGE] = _GIB
    ports = (HostPort(port=8000 + shape),) if shape % 50 == 7 else ()
    required = None
    if shape % 10 == 6:
        others = tuple(other for other in _ZONES if other != zone)
        required = (_expecting(ZONE, others),)
    preferred: tuple[PreferredTerm, ...] = ()
    if shape % 6 == 1:
        preferred = (
            PreferredTerm(weight=80, term=_expecting(ZONE, (zone,))),
            PreferredTerm(weight=20, term=_expecting(DISK, ("ssd",))),
        )
    tolerations: tuple[Toleration, ...] = ()
    if shape % 8 == 3:
        tolerations = (Toleration(key="dedicated", operator="Exists", effect="NoSchedule"),)
    return PodSpec(
        containers=(Container(image=_image(shape), requests=requests, ports=ports),),
        node_selector={DISK: "ssd"} if shape % 12 == 5 else {},
        required_node_terms=required,
        preferred_node_terms=preferred,
        tolerations=tolerations,
    )


def _expecting(label: str, values: tuple[str, ...]) -> NodeSelectorTerm:
    return NodeSelectorTerm(expressions=(Requirement(key=label, operator="In", values=values),))


def _tight_specs(load: Load) -> list[PodSpec]:
    # Each size without a zone, and with each zone that has a node.
    return [
        PodSpec(
            containers=(Container(requests={CPU: cpu, MEMORY: cpu * 2 * _MIB}),),
            node_selector={ZONE: zone} if zone else {},
        )
        for cpu in _TIGHT_CPU
        for zone in ("", *_ZONES[: load.node_count])
    ]


def _labels(index: int) -> dict[str, str]:
    return {"kubernetes.io/hostname": f"node-{index:05d}", ZONE: _ZONES[index % len(_ZONES)]}


def _plain_nodes(load: Load) -> Callable[[int], Node]:
    room = {CPU: 32_000, MEMORY: 128 * _GIB, PODS: 110}

    def make(index: int) -> Node:
        labels = _labels(index)
        return Node(name=labels["kubernetes.io/hostname"], labels=labels, allocatable=room)

    return make


def _mixed_nodes(load: Load) -> Callable[[int], Node]:
    images = [
        Image(names=(_image(shape),), size=(20 + load.number("image", shape) % 780) * _MIB)
        for shape in range(MIXED_SHAPES)
    ]

    def make(index: int) -> Node:
        labels = _labels(index)
        labels[DISK] = "ssd" if index % 2 == 0 else "hdd"
        cores = (16, 32, 64)[load.number("node", index) % 3]
        room = {CPU: cores * 1000, MEMORY: cores * 4 * _GIB, PODS: 110}
        room[EPHEMERAL_STORAGE] = 200 * _GIB
        if index % 4 == 1:
            room[GPU] = 8
        shapes = {load.number(f"held-{index}", slot) % MIXED_SHAPES for slot in range(10)}
        return Node(
            name=labels["kubernetes.io/hostname"],
            labels=labels,
            taints=_mixed_taints(index),
            allocatable=room,
            images=tuple(images[shape] for shape in sorted(shapes)),
        )

    return make


def _mixed_taints(index: int) -> tuple[Taint, ...]:
    if index % 20 == 7:
        return (Taint(key="dedicated", value="batch", effect="NoSchedule"),)
    if index % 20 == 14:
        return (Taint(key="example.com/old", effect="PreferNoSchedule"),)
    return ()


def _tight_nodes(load: Load) -> Callable[[int], Node]:
    # All nodes have half of what all pods request, and each has room for the largest pod.
    demand = load.pod_count * _TIGHT_MEAN_CPU
    cpu = max(max(_TIGHT_CPU), demand // (2 * load.node_count) // 500 * 500)
    room = {CPU: cpu, MEMORY: cpu * 4 * _MIB, PODS: 110}

    def make(index: int) -> Node:
        labels = _labels(index)
        return Node(name=labels["kubernetes.io/hostname"], labels=labels, allocatable=room)

    return make


_NODES = {"plain": _plain_nodes, "mixed": _mixed_nodes, "tight": _tight_nodes}
_SPECS = {"plain": _plain_specs, "mixed": _mixed_specs, "tight": _tight_specs}
