"""Keys and certificates of a control plane: its own authority, the server's certificate, and client
certificates for any user, whenever a test wants one."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LONG = 86_400
"""Seconds; no run of the tests takes longer."""


class Authority:
    """Signs certificates; its own is in ``certificate``."""

    def __init__(self, folder: Path) -> None:
        """A new one; files go to the folder."""
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("control plane", [])
        made = _builder(self._name, self._key.public_key(), _LONG)
        made = made.issuer_name(self._name)
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        signs = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        made = made.add_extension(signs, critical=True)
        self.certificate = folder / "ca.crt"
        self._write(self.certificate, made.sign(self._key, hashes.SHA256()))

    def serving(
        self, name: str = "server", also: Sequence[str] = (), names: Sequence[str] = ()
    ) -> tuple[Path, Path]:
        """Certificate and key for a server on loopback, and of more addresses and names."""
        known: list[x509.GeneralName] = [
            *[x509.DNSName(each) for each in ("localhost", "kubernetes.default.svc", *names)],
            *[x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", *also)],
        ]
        return self._issue(
            name,
            _name(name, []),
            ExtendedKeyUsageOID.SERVER_AUTH,
            _LONG,
            x509.SubjectAlternativeName(known),
        )

    def client(
        self, user: str, groups: Sequence[str] = (), seconds: int = 3600, name: str | None = None
    ) -> tuple[Path, Path]:
        """Certificate and key of a user, valid for ``seconds`` from now (expired when negative)."""
        return self._issue(
            name or user.replace(":", "-"),
            _name(user, groups),
            ExtendedKeyUsageOID.CLIENT_AUTH,
            seconds,
        )

    def key(self, name: str) -> tuple[Path, Path]:
        """A key without certificate: its private and its public half."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self._folder / f"{name}.pub"
        public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        return self._write_key(name, key), public

    def _issue(
        self,
        file: str,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        seconds: int,
        alternative: x509.SubjectAlternativeName | None = None,
    ) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(subject, key.public_key(), seconds).issuer_name(self._name)
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternative is not None:
            made = made.add_extension(alternative, critical=False)
        path = self._folder / f"{file}.crt"
        self._write(path, made.sign(self._key, hashes.SHA256()))
        return path, self._write_key(file, key)

    def _write(self, path: Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self._folder / f"{name}.key"
        path.touch(0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return path


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    # Kubernetes reads the user from the common name, its groups from the organisations.
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, seconds: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=2))
        .not_valid_after(now + datetime.timedelta(seconds=seconds))
    )
