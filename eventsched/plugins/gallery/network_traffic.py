"""NetworkTraffic: prefers nodes that have received little over the network.

The rule of the plugin of that name in CylonChau/customScheduler: 100 - bytes * 100 / largest. That
plugin queries Prometheus for each node in each cycle; here the samples are in the log.
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

MAX_SAMPLE = 2**53
"""Larger samples count as this, so that scores stay exact when they are multiplied."""
_JOIN_NODE_NAME = " * on (instance) group_left (nodename) node_uname_info)"
_RECEIVED = 'node_network_receive_bytes_total{device="$device"}[${range}s]'
_QUERIES = {
    "rate": f"sum by (nodename) (rate({_RECEIVED}){_JOIN_NODE_NAME}",
    "document": f"sum by (nodename) (sum_over_time({_RECEIVED}){_JOIN_NODE_NAME}",
}
"""``rate``: bytes per second. ``document``: the original's sum of the counter's values."""
_LABEL = re.compile("[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
"""A label name of Prometheus (its docs/concepts/data_model)."""


class NetworkTrafficArgs(Arguments, frozen=True):
    """Bytes received by ``device_name`` over ``time_range`` seconds, from the Prometheus server at
    ``prometheus_address`` (alias ``ip``).

    ``query`` is ``rate``, ``document``, or PromQL with the placeholders ``$device`` and ``$range``;
    its results name their node in ``node_label``. The query runs every ``interval``; a result is
    valid for ``max_age``. ``source`` is the name of the samples in the log."""

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
        """A wrong address, a missing value, or a value out of range."""
        if self.prometheus_address and self.ip:
            yield InputError("ip", "is set as well as prometheusAddress", "keep one of them")
        field = "ip" if self.ip else "prometheusAddress"
        yield from _address_problems(field, self.address)
        if not self.device_name and (self.query in _QUERIES or "$device" in self.query):
            yield InputError("deviceName", "is empty", "name the network device, such as eth0")
        yield from outside("timeRange", self.time_range, 1)
        yield from _query_problems(self.query)
        if not _LABEL.fullmatch(self.node_label):
            problem = f"{self.node_label!r} is not a label of a metric"
            yield InputError("nodeLabel", problem, "name one such as nodename")
        second = 1_000_000_000
        if nanoseconds(self.interval, "interval") < second:
            yield out_of_range("interval", self.interval, "1s or more")
        if nanoseconds(self.max_age, "maxAge") <= nanoseconds(self.interval, "interval"):
            yield out_of_range("maxAge", self.max_age, "more than the interval")
        if not self.source:
            yield InputError("source", "is empty", "give the samples a name")

    @property
    def address(self) -> str:
        """The URL of Prometheus."""
        return self.prometheus_address or self.ip

    @property
    def promql(self) -> str:
        """The query with its placeholders replaced."""
        device = self.device_name.replace("\\", "\\\\").replace('"', '\\"')
        template = Template(_QUERIES.get(self.query, self.query))
        return template.substitute(device=device, range=self.time_range)


class NetworkTraffic:
    """Score by samples: 100 for no traffic, 0 for the most among the feasible nodes. A node without
    a sample counts as the busiest, so that a new or unobserved node does not attract all pods.
    Without any sample all nodes score 100."""

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
        """The same for all pods."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """int64[n]: the samples as integers."""
        source = self.samples.source
        busiest = nodes.table.samples.largest(source)
        values = np.nan_to_num(nodes.sampled(source), nan=busiest)
        return np.clip(values, 0, MAX_SAMPLE).astype(np.int64)


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
        # The message does not quote the address: it may hold a password.
        yield InputError(field, "is not an http or https address", example)
    elif parts.username or parts.password:
        problem = "has a user name or a password, which would be stored in the log"
        yield InputError(field, problem, "use an address that needs none")
    elif parts.query or parts.fragment:
        yield InputError(field, "has a query or a fragment", example)


def _query_problems(query: str) -> Iterator[InputError]:
    if not query.strip():
        yield InputError("query", "is empty", "write rate, document, or PromQL")
        return
    template = Template(_QUERIES.get(query, query))
    if not template.is_valid():
        yield InputError("query", "has a $ without a name", "write $$ for a dollar sign")
    elif unknown := set(template.get_identifiers()) - {"device", "range"}:
        problem = f"${min(unknown)} is not known"
        yield InputError("query", problem, "use $device and $range, and $$ for a dollar sign")
