"""TLS of the connection to an extender: verifying its certificate and presenting our own.

Upstream: pkg/scheduler/extender.go makeTransport. As there, enableHTTPS without an authority (CA)
means that the server's certificate is not verified.
"""

import os
import ssl
import tempfile
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.scheduling.config.sections import ExtenderSection, ExtenderTLS


def context(extender: ExtenderSection, where: str) -> ssl.SSLContext | None:
    """The TLS context; None if nothing is configured, so that the system's authorities are used.

    ``where`` is the extender's place in the configuration file. Raises InputError if a file cannot
    be read or if settings contradict each other.
    """
    settings = extender.tls_config or ExtenderTLS()
    has_authority = bool(settings.ca_file or settings.ca_data)
    if extender.tls_config is None and not extender.enable_https:
        return None
    if settings.insecure and has_authority:
        raise InputError(
            f"{where}.tlsConfig", "insecure and an authority exclude each other", "remove one"
        )
    tls = ssl.create_default_context()
    if settings.insecure or (extender.enable_https and not has_authority):
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        if has_authority:
            tls = ssl.create_default_context(
                cafile=None if settings.ca_data else settings.ca_file,
                cadata=settings.ca_data.decode() if settings.ca_data else None,
            )
            tls.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go does not check strictly
        if settings.cert_file or settings.cert_data:
            _load_certificate(tls, settings)
    except (OSError, ValueError) as problem:
        attributes = (getattr(problem, name, None) for name in ("strerror", "reason"))
        reason = next(filter(None, attributes), "")
        raise InputError(
            f"{where}.tlsConfig",
            f"authority, certificate or key cannot be used: {reason}",
            "check that the files are there, are PEM, and that key and certificate fit together",
        ) from None
    return tls


def _load_certificate(tls: ssl.SSLContext, settings: ExtenderTLS) -> None:
    """Loads our certificate. OpenSSL only reads files: inline data goes through a temporary one."""
    if not settings.cert_data:
        # Without a password OpenSSL would ask for one on the terminal.
        tls.load_cert_chain(settings.cert_file, settings.key_file or None, password="")
        return
    handle, name = tempfile.mkstemp(prefix="eventsched-", suffix=".pem")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(settings.cert_data)
        tls.load_cert_chain(name, settings.key_file or None, password="")
    finally:
        Path(name).unlink(missing_ok=True)
