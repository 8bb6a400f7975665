"""The address of an API server and the credentials for it, from a kubeconfig or from the service
account of the pod that the process runs in.

The ``kubernetes`` package reads kubeconfigs, and runs exec plugins. Tokens and certificates may be
replaced while a scheduler runs, so they are read again every minute and after a 401. Open
connections stay as they are; new ones use the new files.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import structlog

from eventsched.cluster.kube.http import credential_expiry, kubeconfig, service_account
from eventsched.cluster.kube.http.api import (
    REQUEST_TIMEOUT,
    RETRY_SECONDS,
    ApiClient,
    HttpAnswer,
    ReadingClient,
    UnansweredError,
)
from eventsched.cluster.kube.http.connection_settings import ConnectionSettings
from eventsched.cluster.kube.http.kubeconfig import (
    context_names,
    context_namespace,
    require_package,
)
from eventsched.cluster.kube.http.refusals import words
from eventsched.domain.errors import InputError, UnavailableError

REFRESH_SECONDS = 60.0
"""Seconds between two reads of files and tokens, as for token files in client-go."""
_EXPIRY_MARGIN = 300.0
"""Seconds before its expiry at which a token of an exec plugin is replaced."""
REREAD_TIMEOUT = 10.0
"""Seconds that a request waits for credentials to be read again: an exec plugin may hang."""
_REREAD_PAUSE = 5.0
"""Seconds after a 401 in which another one does not make the credentials be read again."""
_HOME = Path(".kube") / "config"

logger = structlog.get_logger()


class Credentials(NamedTuple):
    """Loaded credentials. They must be read again before ``expires`` (s since 1970). Reading
    ``costly`` ones runs a program, so they are read earlier only after a 401."""

    configuration: ConnectionSettings
    expires: float | None = None
    costly: bool = False


LoadCredentials = Callable[[], Awaitable[Credentials]]


class KubeAccess:
    """An ``Access`` (see ``api.py``) that reads its credentials again from time to time."""

    def __init__(self, load: LoadCredentials, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._clock = clock
        self._next = 0.0
        self._patient_until = 0.0
        self._reading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._files: tuple[object, ...] | None = None
        self.server = ""
        self.authorization: str | None = None
        self.tls: ssl.SSLContext | None = None
        self.server_name: str | None = None
        self.proxy: str | None = None

    def due(self) -> bool:
        """Whether a minute has passed since the last read."""
        return self._clock() >= self._next

    async def open(self) -> None:
        """Reads the credentials for the first time. Raises InputError."""
        self._take(await self._load())

    async def refresh(self, refused: str | None = None) -> None:
        """Reads the credentials again if they are due. If that fails or takes too long, the old
        ones stay in use; a late result still replaces them. Reads never overlap."""
        async with self._reading:
            if not self.due() and not self._is_pressing(refused):
                return  # another task has read them meanwhile
            self._next = self._clock() + REFRESH_SECONDS
            known = self._credentials
            if known.costly and refused is None and not _ends_soon(known.expires):
                return
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._read())
                await asyncio.wait((self._task,), timeout=REREAD_TIMEOUT)
            if not self._task.done():
                logger.warning("credentials cannot be read again", reason="that takes too long")

    async def _read(self) -> None:
        try:
            self._take(await self._load())
        except InputError as error:
            logger.warning("credentials cannot be read again", reason=str(error))

    def _is_pressing(self, refused: str | None) -> bool:
        """Whether a refusal is a reason to read credentials now. Rate-limited, because reading may
        run a program."""
        if refused != (self.authorization or "") or self._clock() < self._patient_until:
            return False
        self._patient_until = self._clock() + _REREAD_PAUSE
        return True

    def expired(self) -> str:
        """A sentence if the client's certificate or token is known to have expired, otherwise
        ""."""
        settings = self._credentials.configuration
        return credential_expiry.of_certificate(settings.cert_file) or credential_expiry.of_token(
            self.authorization
        )

    def _take(self, credentials: Credentials) -> None:
        settings = credentials.configuration
        self.server = settings.host.rstrip("/")
        self.server_name = settings.tls_server_name
        self.proxy = settings.proxy or _system_proxy(self.server)
        files = tuple(
            _content(file) for file in (settings.ssl_ca_cert, settings.cert_file, settings.key_file)
        )
        if self.server.startswith("https:") and files != self._files:
            self.tls = _tls(settings)
            self._files = files
        self.authorization = settings.authorization
        self._credentials = credentials
        self._next = self._clock() + REFRESH_SECONDS


def in_cluster(
    environ: Mapping[str, str] = os.environ,
    token: str = service_account.TOKEN_FILE,
    authority: str = service_account.AUTHORITY_FILE,
) -> LoadCredentials:
    """The credentials of a pod: its service account's token and the cluster's authority."""

    async def load() -> Credentials:
        try:
            settings = service_account.read(environ, token, authority)
        except (OSError, ValueError) as error:
            raise InputError(
                "the pod's service account",
                f"cannot be used: {error}",
                "leave automountServiceAccountToken on, or name a kubeconfig",
            ) from error
        kubeconfig.require_usable(settings, "the pod's service account")
        return Credentials(settings)

    return load


def from_kubeconfig(files: str, context: str | None = None) -> LoadCredentials:
    """The credentials of a kubeconfig: ``files`` are separated as in KUBECONFIG; without
    ``context`` the current one is used."""

    async def load() -> Credentials:
        loaded = await kubeconfig.load(files, context)
        return Credentials(loaded.settings, loaded.expires, loaded.entries.runs_program)

    return load


async def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    user_agent: str = "eventsched",
    timeout: float = REQUEST_TIMEOUT,
    patience: float = RETRY_SECONDS,
    environ: Mapping[str, str] = os.environ,
    reads_only: bool = False,
) -> ApiClient:
    """Connects to an API server and checks that it answers. The first of these is used:
    ``kubeconfig``, KUBECONFIG, the pod's service account, ``~/.kube/config``. ``timeout`` and
    ``patience`` (s) are those of ``ApiClient``. With ``reads_only`` it is a ``ReadingClient``.

    Raises InputError if there is no usable configuration or the server refuses the credentials,
    UnavailableError if it does not answer.
    """
    access = KubeAccess(_chosen(kubeconfig, context, environ))
    await access.open()
    client_type = ReadingClient if reads_only else ApiClient
    api = client_type(access, user_agent=user_agent, timeout=timeout, patience=patience)
    try:
        await _greet(api, access)
    except BaseException:
        await api.close()
        raise
    return api


def require_files(
    kubeconfig: Path | None, environ: Mapping[str, str], context: str | None = None
) -> None:
    """Raises InputError if the kubeconfig, or the one in $KUBECONFIG, does not exist or lacks the
    context, or if the package that reads it is not installed."""
    if kubeconfig is not None and not kubeconfig.exists():
        raise InputError(
            f"kubeconfig {kubeconfig}", "does not exist", "check --kubeconfig, or omit it"
        )
    named = environ.get("KUBECONFIG", "")
    if kubeconfig is None and named and not any(map(os.path.exists, named.split(os.pathsep))):
        raise InputError(f"$KUBECONFIG: {named}", "does not exist", "name a file that does")
    files = str(kubeconfig or named or _home_file(environ))
    if kubeconfig is not None or named:
        require_package(files)
    if context is not None and (names := context_names(files)) and context not in names:
        remedy = f"choose one of: {', '.join(names)}"
        raise InputError(f"kubeconfig {files}", f"has no context {context}", remedy)


def require_known(
    kubeconfig: Path | None, environ: Mapping[str, str], context: str | None = None
) -> None:
    """Raises InputError as ``require_files``, and if nothing says which API server to use."""
    _chosen(kubeconfig, context, environ)


def namespace_in_use(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str] = os.environ
) -> str:
    """The namespace of the kubeconfig's context that ``connect`` uses; ``default`` if it names
    none. Raises InputError."""
    return context_namespace(_files(kubeconfig, environ), context) or "default"


def known_contexts(kubeconfig: Path | None, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The contexts of the kubeconfig that ``connect`` uses; none if it cannot be read. Raises
    InputError."""
    return context_names(_files(kubeconfig, environ))


def _files(kubeconfig: Path | None, environ: Mapping[str, str]) -> str:
    return str(kubeconfig or environ.get("KUBECONFIG") or _home_file(environ))


def _home_file(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or Path.home()) / _HOME


def _chosen(
    kubeconfig: Path | None, context: str | None, environ: Mapping[str, str]
) -> LoadCredentials:
    require_files(kubeconfig, environ, context)
    if kubeconfig is not None:
        return from_kubeconfig(str(kubeconfig), context)
    if environ.get("KUBECONFIG"):
        return from_kubeconfig(environ["KUBECONFIG"], context)
    if context is None and environ.get(service_account.HOST_VARIABLE):
        return in_cluster(environ)
    home = _home_file(environ)
    if home.exists():
        return from_kubeconfig(str(home), context)
    raise InputError(
        "the API server",
        f"is not known: no --kubeconfig, no KUBECONFIG, no {home}, and this is not a pod",
        "name a kubeconfig with --kubeconfig FILE",
    )


async def _greet(api: ApiClient, access: KubeAccess) -> None:
    """Requests the server's version, which every authenticated client may read, and raises an error
    if the answer is not that of an API server."""
    where = f"API server {_shown(access.server)}"
    try:
        answer = await api.call("GET", "/version")
    except UnansweredError as error:
        if fault := _tls_fault(error):
            raise InputError(
                where,
                f"its certificate is not accepted: {_reason(fault)}",
                "check certificate-authority-data, server and tls-server-name in the kubeconfig",
            ) from error
        raise UnavailableError(
            where, f"does not answer: {error.reason}", "check that it runs and can be reached"
        ) from error
    if answer.status == 401:
        why = access.expired() or words(answer)
        raise InputError(
            where,
            f"does not know who we are: {why}",
            "log in again, or check the user in the kubeconfig",
        )
    if answer.status >= 500 or answer.status == 429:
        raise UnavailableError(where, f"is not ready: {words(answer)}", "try again later")
    if not _is_version(answer):
        raise InputError(
            where,
            f"does not answer as one: HTTP {answer.status}",
            "check the URL under clusters.cluster.server",
        )


def _is_version(answer: HttpAnswer) -> bool:
    """Whether an API server sent this answer. A 403 counts too: rights are checked later."""
    return answer.status == 403 or (answer.status == 200 and b'"gitVersion"' in answer.body)


def _ends_soon(expires: float | None) -> bool:
    return expires is not None and time.time() >= expires - _EXPIRY_MARGIN


def _tls(settings: ConnectionSettings) -> ssl.SSLContext:
    """Raises InputError for files that are not certificates."""
    try:
        context = ssl.create_default_context(
            cafile=settings.ssl_ca_cert, cadata=settings.ca_cert_data
        )
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    except (ssl.SSLError, OSError) as error:
        raise InputError(
            "the kubeconfig's certificates",
            f"cannot be used: {_reason(error)}",
            "check certificate-authority, client-certificate and client-key",
        ) from error
    # Many clusters' CA certificates lack extensions that OpenSSL requires in strict mode and Go
    # does not.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _tls_fault(error: BaseException | None) -> ssl.SSLError | None:
    """The innermost TLS error among the causes of an error."""
    fault = None
    while error is not None:
        fault = error if isinstance(error, ssl.SSLError) else fault
        error = error.__cause__
    return fault


def _reason(error: BaseException) -> str:
    """The message without the line in OpenSSL's source and without paths of temporary files."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return error.reason if isinstance(error, ssl.SSLError) and error.reason else "not readable"


def _content(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _system_proxy(server: str) -> str | None:
    """The proxy that HTTPS_PROXY and NO_PROXY select for a server."""
    parts = urlsplit(server)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _shown(server: str) -> str:
    """A URL without user name and password."""
    parts = urlsplit(server)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
