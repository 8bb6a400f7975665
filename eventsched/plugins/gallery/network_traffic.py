"""NetworkTraffic: the less a node has received over the network lately, the better.

The rule of the plugin of that name in CylonChau/customScheduler: 100 - bytes * 100 / largest. There
Prometheus is asked for each node in each cycle; here the samples are in the log.
"""

import re
from collections.abc import Hashable, Iterator
from string import Template
from urllib.parse import urlsplit

import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.pluginargs import Arguments, out_of_range, outside
from eventsched.scheduling.config.sections import Int32
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, NodeView, Normalization
from eventsched.scheduling.framework.sampling import Sampling

LARGEST = 2**53
"""A score has to stay exact where it is multiplied."""
_NAMED = " * on (instance) group_left (nodename) node_uname_info)"
_RECEIVED = 'node_network_receive_bytes_total{device="$device"}[${range}s]'
_QUERIES = {
    "rate": f"sum by (nodename) (rate({_RECEIVED}){_NAMED}",
    "document": f"sum by (nodename) (sum_over_time({_RECEIVED}){_NAMED}",
}
"""Bytes a second; and the original's sum of what the counter showed."""
_LABEL = re.compile("[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
"""A label's name, as Prometheus has it (docs/concepts/data_model)."""


class NetworkTrafficArgs(Arguments, frozen=True):
    """Bytes received by ``device_name`` over ``time_range`` seconds, as the Prometheus server at
    ``prometheus_address`` (or ``ip``, its other name) has them.

    ``query`` is ``rate``, ``document``, or PromQL in which ``$device`` and ``$range`` are filled
    in; its results name their node in ``node_label``. It is asked every ``interval``, and an answer
    holds for ``max_age``. ``source`` is the name that the samples have in the log."""

    prometheus_address: str = ""
    ip: str = ""
    device_name: str = ""
    time_range: Int32 = 60
    query: str = "rate"
    node_label: str = "nodename"
    interval: str = "30s"
    max_age: str = "5m"
    source: str = "NetworkTraffic"

    def problems(self) -> Iterator[InputError]:
        """An address that is none, what is missing, and what is out of range."""
        if self.prometheus_address and self.ip:
            yield InputError("ip", "stands beside prometheusAddress", "keep one of them")
        field = "ip" if self.ip else "prometheusAddress"
        yield from _address_problems(field, self.address)
        if not self.device_name and (self.query in _QUERIES or "$device" in self.query):
            yield InputError("deviceName", "is empty", "name the network device, such as eth0")
        yield from outside("timeRange", self.time_range, 1)
        yield from _query_problems(self.query)
        if not _LABEL.fullmatch(self.node_label):
            problem = f"{self.node_label!r} is no label of a metric"
            yield InputError("nodeLabel", problem, "name one such as nodename")
        shortest = 1_000_000_000
        if nanoseconds(self.interval, "interval") < shortest:
            yield out_of_range("interval", self.interval, "1s or more")
        if nanoseconds(self.max_age, "maxAge") <= nanoseconds(self.interval, "interval"):
            yield out_of_range("maxAge", self.max_age, "more than the interval")
        if not self.source:
            yield InputError("source", "is empty", "give the samples a name")

    @property
    def address(self) -> str:
        """Where Prometheus is."""
        return self.prometheus_address or self.ip

    @property
    def promql(self) -> str:
        """The query, filled in."""
        device = self.device_name.replace("\\", "\\\\").replace('"', '\\"')
        template = Template(_QUERIES.get(self.query, self.query))
        return template.substitute(device=device, range=self.time_range)


class NetworkTraffic:
    """Score by samples: 100 for none received, 0 for the largest number among the nodes that can
    take the pod. A node without a sample counts as the busiest of all: whoever cannot be seen, or
    has just come, is not to draw all pods. Without any sample all nodes score 100."""

    name = "NetworkTraffic"
    depends_on = DependsOn.NODE | DependsOn.SAMPLES
    normalization = Normalization.REVERSED
    wakes_on = ()
    Args = NetworkTrafficArgs

    def __init__(self, args: NetworkTrafficArgs) -> None:
        self.samples = Sampling(
            source=args.source,
            address=args.address.rstrip("/"),
            query=args.promql,
            label=args.node_label,
            interval=nanoseconds(args.interval) / 1e9,
            max_age=nanoseconds(args.max_age) / 1e9,
        )

    def sign(self, pod: Pod) -> Hashable:
        """Nothing of the pod matters."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The samples as whole numbers."""
        source = self.samples.source
        busiest = nodes.table.samples.largest(source)
        values = np.nan_to_num(nodes.sampled(source), nan=busiest)
        return np.clip(values, 0, LARGEST).astype(np.int64)


def _address_problems(field: str, address: str) -> Iterator[InputError]:
    example = "write it with its scheme, such as http://prometheus.monitoring:9090"
    if not address:
        yield InputError(field, "is empty", example)
        return
    try:
        parts = urlsplit(address)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        known = known and not re.search(r"\s", address)
    except ValueError:
        known = False
    if not known:
        # It may hold a password.
        yield InputError(field, "is no http or https address", example)
    elif parts.username or parts.password:
        problem = "holds a user name or a password, which would stand in the log"
        yield InputError(field, problem, "use an address that needs none")
    elif parts.query or parts.fragment:
        yield InputError(field, "has more than a path", example)


def _query_problems(query: str) -> Iterator[InputError]:
    if not query.strip():
        yield InputError("query", "is empty", "write rate, document, or PromQL")
        return
    template = Template(_QUERIES.get(query, query))
    if not template.is_valid():
        yield InputError("query", "has a $ that begins no name", "write $$ for a dollar sign")
    elif unknown := set(template.get_identifiers()) - {"device", "range"}:
        problem = f"${min(unknown)} is not known"
        yield InputError("query", problem, "use $device and $range, and $$ for a dollar sign")
