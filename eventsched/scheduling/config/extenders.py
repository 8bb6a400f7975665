"""The extenders of a configuration, as decisions depend on them.

Upstream: pkg/scheduler/scheduler.go buildExtenders.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from eventsched.domain.errors import InputError
from eventsched.scheduling.config import sections
from eventsched.scheduling.framework.extender import Extender

HEAVIEST = 2**31 - 1
"""A weight with which sums of scores stay exact (upstream lets them overflow)."""


def in_order(configured: Sequence[sections.ExtenderSection]) -> list[sections.ExtenderSection]:
    """The extenders in the order in which they are asked: ignorable ones last."""
    return sorted(configured, key=lambda each: each.ignorable)


def extenders_of(configured: Sequence[sections.ExtenderSection]) -> tuple[Extender, ...]:
    """All extenders, in the order in which they are asked."""
    return tuple(
        Extender(
            index=index,
            name=each.url_prefix,
            filters=bool(each.filter_verb),
            prioritizes=bool(each.prioritize_verb),
            preempts=bool(each.preempt_verb),
            binds=bool(each.bind_verb),
            weight=each.weight,
            ignorable=each.ignorable,
            resources=frozenset(resource.name for resource in each.managed_resources),
        )
        for index, each in enumerate(in_order(configured))
    )


def ignored_resources(configured: Sequence[sections.ExtenderSection]) -> tuple[str, ...]:
    """The resources that extenders look after and NodeResourcesFit does not count."""
    managed = (resource for each in configured for resource in each.managed_resources)
    return tuple(resource.name for resource in managed if resource.ignored_by_scheduler)


def problems(configured: Sequence[sections.ExtenderSection]) -> Iterator[InputError]:
    """What keeps extenders from ever being asked, though upstream takes the file; and what the log,
    which holds the configuration, should not know."""
    for number, each in enumerate(configured):
        where = f"extenders[{number}]"
        try:
            parts = urlsplit(each.url_prefix)
            known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            known = False
        if not known:
            yield InputError(
                f"{where}.urlPrefix",
                f"{each.url_prefix!r} is no URL of a server",
                "write it with scheme and host, such as http://127.0.0.1:8888/scheduler",
            )
        elif parts.username or parts.password:
            yield InputError(
                f"{where}.urlPrefix",
                "has a user or password in it, and the log holds the configuration",
                "take them out; tlsConfig.certFile and keyFile prove who asks",
            )
        if each.weight > HEAVIEST:
            yield InputError(
                f"{where}.weight", f"{each.weight} is out of range", f"use 1 to {HEAVIEST}"
            )
        if each.tls_config is not None and each.tls_config.key_data:
            yield InputError(
                f"{where}.tlsConfig.keyData",
                "is a private key, and the log holds the configuration",
                "write the key into a file and name it as keyFile",
            )
