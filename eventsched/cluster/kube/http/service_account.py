"""The service account of the pod that the process runs in, as kubelet mounts it.

These are the rules of client-go's ``rest.InClusterConfig``: the server is named by two environment
variables; token and authority are files.
"""

from collections.abc import Mapping
from pathlib import Path

from eventsched.cluster.kube.http.connection_settings import ConnectionSettings

HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE = "KUBERNETES_SERVICE_PORT"
_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_FILE = f"{_FOLDER}/token"
AUTHORITY_FILE = f"{_FOLDER}/ca.crt"
NAMESPACE_FILE = f"{_FOLDER}/namespace"


def read(environ: Mapping[str, str], token: str, authority: str) -> ConnectionSettings:
    """The settings by the environment and the files ``token`` and ``authority``. Raises OSError,
    UnicodeDecodeError, and ValueError if something is missing or empty."""
    host, port = environ.get(HOST_VARIABLE, ""), environ.get(PORT_VARIABLE, "")
    if not host or not port:
        raise ValueError(f"{HOST_VARIABLE} or {PORT_VARIABLE} is not set")
    bracketed = f"[{host}]" if ":" in host or "%" in host else host
    _text(authority)  # raises: OpenSSL's message for an empty file does not name the file
    return ConnectionSettings(
        host=f"https://{bracketed}:{port}",
        authorization=f"Bearer {_text(token)}",
        ssl_ca_cert=authority,
    )


def _text(file: str) -> str:
    """The content of a file without the line end. Raises ValueError if there is none."""
    text = Path(file).read_text().strip()
    if not text:
        raise ValueError(f"{file} is empty")
    return text
