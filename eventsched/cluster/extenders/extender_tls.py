"""How an extender's server is known, and who we are to it.

Upstream: pkg/scheduler/extender.go makeTransport: without an authority, enableHTTPS means that the
server's certificate is not looked at.
"""

import os
import ssl
import tempfile
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.scheduling.config.sections import ExtenderSection, ExtenderTLS


def context(extender: ExtenderSection, where: str) -> ssl.SSLContext | None:
    """None where nothing is configured: the system's authorities count. Raises InputError for what
    cannot be read or does not fit together; ``where`` is the extender's place in the file."""
    settings = extender.tls_config or ExtenderTLS()
    has_authority = bool(settings.ca_file or settings.ca_data)
    if extender.tls_config is None and not extender.enable_https:
        return None
    if settings.insecure and has_authority:
        raise InputError(
            f"{where}.tlsConfig", "insecure and an authority exclude each other", "remove one"
        )
    made = ssl.create_default_context()
    if settings.insecure or (extender.enable_https and not has_authority):
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    try:
        if has_authority:
            made = ssl.create_default_context(
                cafile=None if settings.ca_data else settings.ca_file,
                cadata=settings.ca_data.decode() if settings.ca_data else None,
            )
            made.verify_flags &= ~ssl.VERIFY_X509_STRICT  # Go does not ask for that
        if settings.cert_file or settings.cert_data:
            _prove(made, settings)
    except (OSError, ValueError) as problem:
        said = next(
            filter(None, (getattr(problem, name, None) for name in ("strerror", "reason"))), ""
        )
        raise InputError(
            f"{where}.tlsConfig",
            f"authority, certificate or key cannot be used: {said}",
            "check that the files are there, are PEM, and that key and certificate fit together",
        ) from None
    return made


def _prove(made: ssl.SSLContext, settings: ExtenderTLS) -> None:
    """Loads our certificate. OpenSSL reads files only: data goes through one, for a moment."""
    if not settings.cert_data:
        # Without a password OpenSSL would ask for one on the terminal.
        made.load_cert_chain(settings.cert_file, settings.key_file or None, password="")
        return
    handle, name = tempfile.mkstemp(prefix="eventsched-", suffix=".pem")  # mode 0600
    try:
        with os.fdopen(handle, "wb") as written:
            written.write(settings.cert_data)
        made.load_cert_chain(name, settings.key_file or None, password="")
    finally:
        Path(name).unlink(missing_ok=True)
