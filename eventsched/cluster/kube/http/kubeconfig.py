"""Checks a kubeconfig beyond what the ``kubernetes`` package checks.

That package accepts most values unchecked, so a wrong one would fail only at the first request.
These checks run on loading. No message quotes a value that could be a secret.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from kubernetes.aio.client import Configuration
from kubernetes.aio.config.kube_config import KubeConfigMerger

from eventsched.domain.errors import InputError

_SERVER, _USER = "clusters.cluster", "users.user"


class ContextEntries(NamedTuple):
    """The cluster and the user of a kubeconfig's context, as written in the file."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def runs_program(self) -> bool:
        """Whether the user's credentials come from an exec plugin."""
        return "exec" in self.user


def entries(files: str, loader: Any) -> ContextEntries:
    """The entries of the current context; ``loader`` has loaded the kubeconfig ``files``."""
    config = KubeConfigMerger(files).config
    context = loader.current_context["context"]
    cluster = config["clusters"].get_with_name(context["cluster"])["cluster"]
    users = config.safe_get("users") or ()
    user = next((user["user"] for user in users if user["name"] == context.get("user")), None)
    return ContextEntries(cluster.value, user or {})


def require_usable(
    settings: Configuration, source: str, entries: ContextEntries | None = None
) -> None:
    """Raises InputError if no request can be sent with these settings, or not as intended.
    ``source`` names the settings' origin in messages, such as the file."""
    if entries is not None:
        insecure = entries.cluster.get("insecure-skip-tls-verify", False)
        if not isinstance(insecure, bool):
            raise InputError(
                f"{source}: {_SERVER}.insecure-skip-tls-verify",
                "is neither true nor false",
                "write one of them, without quotes",
            )
    for problem in _problems(settings):
        raise problem.within(source)


def _problems(settings: Configuration) -> Iterator[InputError]:
    server = settings.host
    yield from _url_problems(f"{_SERVER}.server", server, ("https", "http"))
    if _has_secret(server):
        yield InputError(
            f"{_SERVER}.server",
            "holds a user and a password",
            f"take them out of the URL, and name them as {_USER}.username and .password",
        )
    if settings.proxy is not None:
        yield from _url_problems(f"{_SERVER}.proxy-url", settings.proxy, ("http", "https"))
    texts: Mapping[str, Any] = {
        f"{_SERVER}.tls-server-name": settings.tls_server_name,
        f"{_SERVER}.certificate-authority": settings.ssl_ca_cert,
        f"{_USER}.client-certificate": settings.cert_file,
        f"{_USER}.client-key": settings.key_file,
        f"{_USER}.token": settings.api_key.get("BearerToken"),
    }
    for field, value in texts.items():
        if value is not None and not _is_line(value):
            yield InputError(field, "is not a single line of text", "check it, and quote it")


def _url_problems(field: str, text: Any, schemes: tuple[str, ...]) -> Iterator[InputError]:
    remedy = "write it as https://HOST:PORT"
    if not _is_line(text) or not text.isascii() or " " in text:
        yield InputError(field, "is not a URL", remedy)
    elif (parts := _parts(text)) is None or parts.scheme not in schemes or not parts.hostname:
        yield InputError(field, "is not the URL of a server", remedy)
    elif parts.query or parts.fragment:
        yield InputError(field, "has a query or a fragment", remedy)


def _parts(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError if it is not a valid number
    except ValueError:
        return None
    return parts


def _has_secret(server: Any) -> bool:
    parts = _parts(server) if isinstance(server, str) else None
    return parts is not None and "@" in parts.netloc


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()
