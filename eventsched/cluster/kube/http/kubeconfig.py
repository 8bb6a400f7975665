"""What a kubeconfig has to look like, beyond what the ``kubernetes`` package looks at.

That package takes most values as they are, and what is wrong with them shows only when a request is
made. So they are checked when they are read. No message quotes a value that could be a secret.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from kubernetes.aio.client import Configuration
from kubernetes.aio.config.kube_config import KubeConfigMerger

from eventsched.domain.errors import InputError

_SERVER, _USER = "clusters.cluster", "users.user"


class Entries(NamedTuple):
    """What a kubeconfig says of the cluster and the user of a context, as it stands there."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def runs_program(self) -> bool:
        """Whether the user gets credentials from an exec plugin."""
        return "exec" in self.user


def entries(files: str, loader: Any) -> Entries:
    """Those of a kubeconfig that was loaded from these files."""
    config = KubeConfigMerger(files).config
    context = loader.current_context["context"]
    cluster = config["clusters"].get_with_name(context["cluster"])["cluster"]
    users = config.safe_get("users") or ()
    user = next((each["user"] for each in users if each["name"] == context.get("user")), None)
    return Entries(cluster.value, user or {})


def require_usable(settings: Configuration, where: str, found: Entries | None = None) -> None:
    """Raises InputError where a request by these settings could not even be made, or would be made
    otherwise than was meant; ``where`` names the file."""
    if found is not None:
        insecure = found.cluster.get("insecure-skip-tls-verify", False)
        if not isinstance(insecure, bool):
            raise InputError(
                f"{where}: {_SERVER}.insecure-skip-tls-verify",
                "is neither true nor false",
                "write one of them, without quotes",
            )
    for problem in _problems(settings):
        raise problem.within(where)


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
            yield InputError(field, "is no text of one line", "check it, and quote it")


def _url_problems(field: str, text: Any, schemes: tuple[str, ...]) -> Iterator[InputError]:
    remedy = "write it as https://HOST:PORT"
    if not _is_line(text) or not text.isascii() or " " in text:
        yield InputError(field, "is no URL", remedy)
    elif (parts := _parts(text)) is None or parts.scheme not in schemes or not parts.hostname:
        yield InputError(field, "is no URL of a server", remedy)
    elif parts.query or parts.fragment:
        yield InputError(field, "has a query or a fragment", remedy)


def _parts(text: str) -> SplitResult | None:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises for what is no number
    except ValueError:
        return None
    return parts


def _has_secret(server: Any) -> bool:
    parts = _parts(server) if isinstance(server, str) else None
    return parts is not None and "@" in parts.netloc


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and value.isprintable()
