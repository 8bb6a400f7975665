"""What a kubeconfig or a service account says about the connection to an API server."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Values as they were found, unchecked: ``kubeconfig.require_usable`` checks them."""

    host: str
    """The server's URL."""
    authorization: str | None = None
    """The value of the Authorization header."""
    ssl_ca_cert: str | None = None
    """The file of the authorities (PEM) that the server's certificate is checked with."""
    ca_cert_data: str | bytes | None = None
    """The same authorities as PEM text or DER bytes."""
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
