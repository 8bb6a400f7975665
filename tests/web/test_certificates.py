"""Certificates in real handshakes: rotation, mistakes in it, and those of our own."""

import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from eventsched.domain.errors import InputError
from eventsched.web.http import certificates
from eventsched.web.http.certificates import Certificates, Files, SelfMade
from tests.web.facts import trusting, verifying

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def write(folder: Path, name: str) -> Files:
    """A certificate for a name, in the folder's two files."""
    certificate, key = certificates.self_signed([name], datetime.now(UTC))
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    return Files(folder / "tls.crt", folder / "tls.key")


def shown(of: Certificates) -> list[str]:
    """The names in the certificate that the next client (which names no server) is shown."""
    client, server = _shake(of, trusting())
    assert server.version() in ("TLSv1.2", "TLSv1.3")
    found = client.getpeercert(binary_form=True)
    assert found is not None
    names = x509.load_der_x509_certificate(found).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return [str(each.value) for each in names.value]


def _shake(
    of: Certificates, client_side: ssl.SSLContext, name: str | None = None
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """A whole handshake in memory."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(to_client, to_server, server_hostname=name)
    server = of.context.wrap_bio(to_server, to_client, server_side=True)
    done = {client: False, server: False}
    for _ in range(10):
        for side in done:
            try:
                side.do_handshake()
                done[side] = True
            except ssl.SSLWantReadError:
                continue
    assert all(done.values())
    return client, server


def test_a_new_certificate_is_taken_by_the_next_connection(tmp_path: Path) -> None:
    held = Certificates(write(tmp_path, "one.example"))
    assert shown(held) == ["one.example"]
    write(tmp_path, "two.example")
    assert shown(held) == ["two.example"]


def test_files_behind_a_link_are_followed(tmp_path: Path) -> None:
    """A secret in a pod: ``..data`` points to a folder, and is replaced."""
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        write(tmp_path / version, f"{version}.example")
    (tmp_path / "..data").symlink_to("1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    held = Certificates(Files(tmp_path / "tls.crt", tmp_path / "tls.key"))
    assert shown(held) == ["1.example"]
    (tmp_path / "..new").symlink_to("2")
    os.replace(tmp_path / "..new", tmp_path / "..data")
    assert shown(held) == ["2.example"]


def test_a_certificate_and_key_that_do_not_match_leave_the_old_ones_in_use(tmp_path: Path) -> None:
    held = Certificates(write(tmp_path, "one.example"))
    key = (tmp_path / "tls.key").read_bytes()
    write(tmp_path, "two.example")
    later = (tmp_path / "tls.key").read_bytes()
    (tmp_path / "tls.key").write_bytes(key)
    assert shown(held) == ["one.example"]
    (tmp_path / "tls.crt").unlink()
    assert shown(held) == ["one.example"]
    write(tmp_path, "three.example")
    (tmp_path / "tls.key").write_bytes(later)
    assert shown(held) == ["one.example"]
    write(tmp_path, "three.example")
    assert shown(held) == ["three.example"]


def test_bad_files_at_the_start_are_reported(tmp_path: Path) -> None:
    absent = tmp_path / "absent.crt"
    with pytest.raises(InputError, match=f"{absent}: cannot be read"):
        Certificates(Files(absent, absent))
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nothing")
    with pytest.raises(InputError, match=r"cannot be used .*; give a certificate and its key"):
        Certificates(Files(nonsense, nonsense))


def test_a_key_with_a_passphrase_is_refused_without_a_prompt(tmp_path: Path) -> None:
    files = write(tmp_path, "one.example")
    key = serialization.load_pem_private_key((tmp_path / "tls.key").read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    (tmp_path / "tls.key").write_bytes(locked)
    with pytest.raises(InputError, match="without a passphrase"):
        Certificates(files)


def test_a_self_signed_certificate_has_the_host_names() -> None:
    names = certificates.own_names("0.0.0.0")
    assert {"localhost", "127.0.0.1", "::1"} < set(names)
    assert "0.0.0.0" not in names
    assert shown(Certificates(SelfMade(names))) == names


def test_a_self_signed_certificate_can_be_verified_with_itself() -> None:
    held = Certificates(SelfMade(["localhost", "127.0.0.1"]))
    client, _ = _shake(held, trusting())
    found = client.getpeercert(binary_form=True)
    assert found is not None
    trusted = verifying(ssl.DER_cert_to_PEM_cert(found))
    _shake(held, trusted, "localhost")
    _shake(held, trusted, "127.0.0.1")


def test_a_self_signed_certificate_is_replaced_before_it_expires() -> None:
    now = [NOW.timestamp()]
    held = Certificates(SelfMade(["a"], lambda: now[0]))

    def number() -> int:
        found = _shake(held, trusting())[0].getpeercert(binary_form=True)
        assert found is not None
        return x509.load_der_x509_certificate(found).serial_number

    first = number()
    assert number() == first
    now[0] += certificates.LIFETIME.total_seconds() * 2 / 3
    assert number() != first


def test_the_lifetime_of_a_self_signed_certificate() -> None:
    made = x509.load_pem_x509_certificate(certificates.self_signed(["a"], NOW)[0])
    assert made.not_valid_before_utc <= NOW - timedelta(minutes=5)
    assert made.not_valid_after_utc == NOW + certificates.LIFETIME


def test_nothing_below_tls_1_2() -> None:
    context = Certificates(SelfMade(["a"])).context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
