"""Loads a kubeconfig by the ``kubernetes`` package, and checks what that package does not.

That package accepts most values unchecked, so a wrong one would fail only at the first request.
These checks run on loading. No message quotes a value that could be a secret.

The package is imported only when a kubeconfig is loaded: a pod with a service account does not need
it, and the image of deploy/Dockerfile does not have it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from eventsched.cluster.kube.http.connection_settings import ConnectionSettings
from eventsched.domain.errors import InputError
from eventsched.process_log.masking import masked

_SERVER, _USER = "clusters.cluster", "users.user"


class ContextEntries(NamedTuple):
    """The cluster and the user of a kubeconfig's context, as written in the file."""

    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    @property
    def runs_program(self) -> bool:
        """Whether the user's credentials come from an exec plugin."""
        return "exec" in self.user


class Loaded(NamedTuple):
    """A loaded kubeconfig. ``expires`` is when an exec plugin's credentials end (s since 1970)."""

    settings: ConnectionSettings
    entries: ContextEntries
    expires: float | None


def require_package(files: str) -> None:
    """Raises InputError if the ``kubernetes`` package is not installed."""
    try:
        import kubernetes.aio.config  # noqa: F401
    except ModuleNotFoundError as missing:
        raise InputError(
            f"kubeconfig {files}",
            f"cannot be read: the package {missing.name} is not installed",
            "install 'eventsched[cluster]', or use the pod's service account",
        ) from missing


async def load(files: str, context: str | None) -> Loaded:
    """Loads the kubeconfig ``files`` (separated as in KUBECONFIG) and checks it. Raises InputError
    if it cannot be used."""
    require_package(files)
    from kubernetes.aio.client import Configuration
    from kubernetes.aio.config import ConfigException, load_kube_config

    configuration = Configuration()
    try:
        loader = await load_kube_config(
            files, context, client_configuration=configuration, persist_config=False
        )
        found = _entries(files, loader)
        settings = _settings(configuration)
        require_usable(settings, f"kubeconfig {files}", found)
    except InputError:
        raise
    # The loader validates little, so a malformed file may raise anything. Messages that could
    # quote the file are not shown.
    except Exception as error:
        problem = str(error) if isinstance(error, ConfigException | OSError) else "malformed"
        problem = _without_content(files, problem)
        raise InputError(
            f"kubeconfig {files}",
            f"cannot be used: {masked(' '.join(problem.split()))}",
            "check it with kubectl --kubeconfig FILE config view",
        ) from error
    if found.runs_program and settings.authorization is None and not settings.cert_file:
        raise InputError(
            f"kubeconfig {files}",
            "its exec plugin gives no credentials",
            "run the command under users.user.exec by hand to see why",
        )
    moment = getattr(loader, "exec_plugin_expiry", None)
    return Loaded(settings, found, moment.timestamp() if moment else None)


def _without_content(files: str, problem: str) -> str:
    """The text of a ConfigException without the entry of the file that may follow the file's name:
    it may hold a secret."""
    sections = r"((?:/(?:clusters|contexts|users))?)\b"
    end = r"(?= (?:list|to be a list)\b|$)"
    return re.sub(rf"{re.escape(files)}{sections}.*?{end}", rf"{files}\1", problem, flags=re.DOTALL)


def context_names(files: str) -> list[str]:
    """The names of a kubeconfig's contexts; none if it cannot be read. Raises InputError."""
    require_package(files)
    from kubernetes.aio.config import list_kube_config_contexts

    try:
        found, _ = list_kube_config_contexts(files)
        return [str(context["name"]) for context in found]
    # A malformed file may raise anything; loading it reports the error.
    except Exception:  # noqa: BLE001
        return []


def context_namespace(files: str, context: str | None) -> str:
    """The namespace of a kubeconfig's context, of the current one without ``context``; "" if it
    names none or the file cannot be read. Raises InputError."""
    require_package(files)
    from kubernetes.aio.config import list_kube_config_contexts

    try:
        found, current = list_kube_config_contexts(files)
        chosen = current
        if context is not None:
            chosen = next(each for each in found if each["name"] == context)
        return str(chosen["context"].get("namespace") or "")
    # A malformed file may raise anything; loading it reports the error.
    except Exception:  # noqa: BLE001
        return ""


def _settings(configuration: Any) -> ConnectionSettings:
    """The values of a ``kubernetes.aio.client.Configuration``."""
    return ConnectionSettings(
        host=configuration.host,
        authorization=configuration.api_key.get("BearerToken"),
        ssl_ca_cert=configuration.ssl_ca_cert,
        ca_cert_data=configuration.ca_cert_data,
        cert_file=configuration.cert_file,
        key_file=configuration.key_file,
        verify_ssl=configuration.verify_ssl,
        tls_server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


def _entries(files: str, loader: Any) -> ContextEntries:
    """The entries of the current context; ``loader`` has loaded the kubeconfig ``files``."""
    from kubernetes.aio.config.kube_config import KubeConfigMerger

    config = KubeConfigMerger(files).config
    context = loader.current_context["context"]
    cluster = config["clusters"].get_with_name(context["cluster"])["cluster"]
    users = config.safe_get("users") or ()
    user = next((user["user"] for user in users if user["name"] == context.get("user")), None)
    return ContextEntries(cluster.value, user or {})


def require_usable(
    settings: ConnectionSettings, source: str, entries: ContextEntries | None = None
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


def _problems(settings: ConnectionSettings) -> Iterator[InputError]:
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
        f"{_USER}.token": settings.authorization,
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
