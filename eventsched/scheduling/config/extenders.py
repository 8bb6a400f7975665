"""The extenders of a configuration as decisions depend on them.

Upstream: pkg/scheduler/scheduler.go buildExtenders.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from eventsched.domain.errors import InputError
from eventsched.scheduling.config import sections
from eventsched.scheduling.framework.extender import Extender

MAX_WEIGHT = 2**31 - 1
"""The largest weight with which sums of scores stay exact (upstream lets them overflow)."""


def in_order(configured: Sequence[sections.ExtenderSection]) -> list[sections.ExtenderSection]:
    """The extenders in the order in which they are asked: ignorable ones last."""
    return sorted(configured, key=lambda extender: extender.ignorable)


def extenders_of(configured: Sequence[sections.ExtenderSection]) -> tuple[Extender, ...]:
    """All extenders, in the order in which they are asked."""
    return tuple(
        Extender(
            index=index,
            name=section.url_prefix,
            filters=bool(section.filter_verb),
            prioritizes=bool(section.prioritize_verb),
            preempts=bool(section.preempt_verb),
            binds=bool(section.bind_verb),
            weight=section.weight,
            ignorable=section.ignorable,
            resources=frozenset(resource.name for resource in section.managed_resources),
        )
        for index, section in enumerate(in_order(configured))
    )


def ignored_resources(configured: Sequence[sections.ExtenderSection]) -> tuple[str, ...]:
    """The resources that extenders manage and NodeResourcesFit ignores."""
    managed = (resource for section in configured for resource in section.managed_resources)
    return tuple(resource.name for resource in managed if resource.ignored_by_scheduler)


def problems(configured: Sequence[sections.ExtenderSection]) -> Iterator[InputError]:
    """Problems that upstream does not report: extenders that can never be asked, and secrets in the
    configuration, which the log stores."""
    for index, section in enumerate(configured):
        where = f"extenders[{index}]"
        try:
            parts = urlsplit(section.url_prefix)
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            known = False
        if not known:
            yield InputError(
                f"{where}.urlPrefix",
                f"{section.url_prefix!r} is not the URL of a server",
                "write it with scheme and host, such as http://127.0.0.1:8888/scheduler",
            )
        elif parts.username or parts.password:
            yield InputError(
                f"{where}.urlPrefix",
                "has a user or password in it, and the log holds the configuration",
                "take them out; tlsConfig.certFile and keyFile prove who asks",
            )
        if section.weight > MAX_WEIGHT:
            yield InputError(
                f"{where}.weight", f"{section.weight} is out of range", f"use 1 to {MAX_WEIGHT}"
            )
        if section.tls_config is not None and section.tls_config.key_data:
            yield InputError(
                f"{where}.tlsConfig.keyData",
                "is a private key, and the log holds the configuration",
                "write the key into a file and name it as keyFile",
            )
