"""The sections of a KubeSchedulerConfiguration, field by field, as kubescheduler.config.k8s.io/v1
has them (upstream: kube-scheduler/config/v1/types.go). configuration.py has the rules beyond the
types.
"""

from typing import Annotated, Any

import msgspec

from eventsched.domain.units import nanoseconds

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Duration = Annotated[str, msgspec.Meta(extra={"null": "refused"})]
"""In Go's notation. A null is refused: upstream reads it as a text that is not a duration."""


class Section(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename="camel"
):
    """Base of all parts of the file. Durations stay in Go's notation; see units.nanoseconds."""


class PluginEntry(Section, frozen=True):
    """A plugin in an enabled or disabled list. The weight counts only at score. An entry without a
    name disables nothing and cannot be enabled."""

    name: str = ""
    weight: Int32 | None = None


class PluginSet(Section, frozen=True):
    """The plugins that are enabled at a point in addition to the defaults, and the disabled
    defaults."""

    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


class Plugins(Section, frozen=True):
    """A profile's plugin sets by extension point."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()

    def by_point(self) -> dict[str, PluginSet]:
        """The sets by upstream's camelCase names, without ``multiPoint``."""
        fields = msgspec.structs.fields(self)
        return {
            field.encode_name: getattr(self, field.name)
            for field in fields
            if field.name != "multi_point"
        }


class PluginConfig(Section, frozen=True):
    """Arguments of a plugin, not yet checked against the plugin's type."""

    name: str = ""
    args: Any = None


class ProfileConfig(Section, frozen=True):
    """A profile as written. The name is empty only if one of several profiles has none, which
    ``problems`` reports."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ManagedResource(Section, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLS(Section, frozen=True):
    """TLS settings for an extender; the data fields are base64 in the file."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class ExtenderSection(Section, frozen=True):
    """A scheduler extender. A timeout of zero means upstream's five seconds."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLS | None = None
    http_timeout: Duration = msgspec.field(name="httpTimeout", default="0s")
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False

    def __post_init__(self) -> None:
        nanoseconds(self.http_timeout, "httpTimeout")


ELECTION_DURATIONS = {
    "lease_duration": "leaseDuration",
    "renew_deadline": "renewDeadline",
    "retry_period": "retryPeriod",
}


class LeaderElection(Section, frozen=True):
    """Leader election by Lease (component-base LeaderElectionConfiguration)."""

    leader_elect: bool = True
    lease_duration: Duration = "15s"
    renew_deadline: Duration = "10s"
    retry_period: Duration = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"

    def __post_init__(self) -> None:
        for attribute, field in ELECTION_DURATIONS.items():
            nanoseconds(getattr(self, attribute), field)


class ClientConnection(Section, frozen=True):
    """The API client. The default content type is JSON; upstream's is protobuf."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/json"
    qps: float = 50.0
    burst: Int32 = 100


class Document(Section, frozen=True):
    """The fields of the file, without apiVersion and kind."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[ProfileConfig, ...] = ()
    extenders: tuple[ExtenderSection, ...] = ()
    delay_cache_until_active: bool = False


class Configuration(Document, frozen=True):
    """A valid configuration with all defaults, and warnings for its user."""

    warnings: tuple[str, ...] = ()
