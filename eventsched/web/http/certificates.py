"""The certificate that a new connection gets: from files, read again when they have changed, or a
self-signed one.

The source is checked when a TLS handshake begins. So there is no timer, and the next connection has
the new certificate. If the source cannot be read, the old certificate stays in use and a warning is
logged.
"""

import ipaddress
import os
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from eventsched.domain.errors import InputError

LIFETIME = timedelta(days=365)
"""Validity of a self-signed certificate. A new one is made after two thirds of it."""
_SKEW = timedelta(hours=1)

logger = structlog.stdlib.get_logger(__name__)


class Files:
    """A certificate (with its chain) and its key in two PEM files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate, self._key = certificate, key

    def pem(self) -> bytes:
        """The present content of both files. Raises OSError."""
        return self._certificate.read_bytes() + b"\n" + self._key.read_bytes()

    def refusal(self, error: OSError) -> InputError:
        """The error to report if the files cannot be used."""
        place = f"{self._certificate}, {self._key}"
        if isinstance(error, ssl.SSLError):
            reason = error.reason or str(error)
            remedy = "give a certificate and its key as PEM, without a passphrase"
            return InputError(place, f"cannot be used ({reason})", remedy)
        return InputError(
            str(error.filename or place),
            f"cannot be read ({error.strerror})",
            "name a file that is there and readable, or leave certFile and keyFile out",
        )


class SelfMade:
    """A self-signed certificate for given names, kept in memory. Clients cannot verify it;
    kubelets' probes do not try to."""

    def __init__(self, names: Iterable[str], clock: Callable[[], float] = time.time) -> None:
        self._names = list(names)
        self._clock = clock
        self._until = 0.0
        self._pem = b""

    def pem(self) -> bytes:
        """The certificate and its key; new ones if two thirds of the validity are over."""
        now = self._clock()
        if now >= self._until:
            self._pem = b"".join(self_signed(self._names, datetime.fromtimestamp(now, UTC)))
            self._until = now + LIFETIME.total_seconds() * 2 / 3
        return self._pem

    def refusal(self, error: OSError) -> InputError:
        """The error to report if no certificate can be made."""
        return InputError(
            "serving", f"no certificate could be made ({error})", "give certFile and keyFile"
        )


class Certificates:
    """The TLS context of a server, whose certificate follows its source."""

    def __init__(self, source: Files | SelfMade, clients: Path | None = None) -> None:
        """``clients`` is a file of authorities: clients need a certificate of one of them. Raises
        InputError if there is no usable certificate at the start."""
        self._source, self._clients = source, clients
        self._problem = ""
        try:
            self._authorities = self._read_authorities()
            self._pem = source.pem()
            self._current = _context(self._pem, clients)
        except OSError as error:  # ssl.SSLError is one
            raise source.refusal(error) from error
        self.context = _context(self._pem, clients)
        self.context.sni_callback = self._begins

    def _begins(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        """A handshake begins. OpenSSL calls this also if the client names no server."""
        try:
            self._follow()
        except OSError as error:
            self._warn(self._source.refusal(error))
        except InputError as problem:
            self._warn(problem)
        connection.context = self._current

    def _follow(self) -> None:
        """Takes up what has changed. Raises OSError, and InputError for the authorities."""
        authorities, pem = self._read_authorities(), self._source.pem()
        if (authorities, pem) == (self._authorities, self._pem):
            return
        self._current = _context(pem, self._clients)
        if pem != self._pem:
            logger.info("serving with a new certificate")
        if authorities != self._authorities:
            logger.info("clients need a certificate of other authorities")
        self._authorities, self._pem, self._problem = authorities, pem, ""

    def _read_authorities(self) -> bytes:
        """Raises InputError."""
        if self._clients is None:
            return b""
        try:
            return self._clients.read_bytes()
        except OSError as error:
            raise _unusable(self._clients, error) from error

    def _warn(self, problem: InputError) -> None:
        if str(problem) != self._problem:
            self._problem = str(problem)
            logger.warning("the certificate stays as it was", problem=str(problem))


def _context(pem: bytes, clients: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    with _file(pem) as path:
        # Without a password OpenSSL would ask for one on the terminal.
        context.load_cert_chain(path, password="")
    if clients is not None:
        _require(context, clients)
    return context


def _require(context: ssl.SSLContext, clients: Path) -> None:
    """Requires a certificate of every client."""
    try:
        context.load_verify_locations(clients)
    except OSError as error:  # ssl.SSLError is one
        raise _unusable(clients, error) from error
    context.verify_mode = ssl.CERT_REQUIRED


def _unusable(clients: Path, error: OSError) -> InputError:
    reason = getattr(error, "reason", "") or error.strerror
    return InputError(
        str(clients), f"cannot be used ({reason})", "give authorities' certificates as PEM"
    )


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A file with this content, because OpenSSL loads certificates only from files; on Linux it is
    in memory."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


def own_names(address: str) -> list[str]:
    """The names and addresses by which this process may be reached, for its own certificate;
    ``address`` is the one that it listens on. Asks no name server."""
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname(), address]
    names += [os.environ.get("POD_IP", ""), _outgoing()]
    unspecified = ("", "0.0.0.0", "::")
    return list(dict.fromkeys(name for name in names if name not in unspecified))


def _outgoing() -> str:
    """The source address of packets to other machines, in a pod the pod's; "" if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return ""
        name: tuple[str, int] = probe.getsockname()
        return name[0]


def self_signed(names: Iterable[str], now: datetime) -> tuple[bytes, bytes]:
    """A self-signed certificate for names and IP addresses, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "eventsched")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(pem), private


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
