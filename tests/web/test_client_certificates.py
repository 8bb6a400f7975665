"""A port that requires client certificates answers no other clients."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from eventsched.domain.errors import InputError
from eventsched.web import extender_paths
from eventsched.web.http.https_server import Options, answering


def written(folder: Path, name: str) -> tuple[Path, Path]:
    """A client's certificate, its own authority, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, private


async def ask(verb: str, body: bytes) -> tuple[int, bytes]:
    """Answers every request."""
    return 200, b"{}"


APPLICATION = extender_paths.application({"filter": "/filter"}, ask)


async def post(url: str, shown: tuple[Path, Path] | None) -> int:
    """The status that a client with this certificate gets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if shown is not None:
        context.load_cert_chain(*shown)
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as client,
        client.post(f"{url}/filter", data=b"{}") as response,
    ):
        return response.status


async def answer(options: Options, shown: tuple[Path, Path] | None) -> int:
    """The status that a client of a server with these options gets."""
    async with answering(options, APPLICATION) as url:
        return await post(url, shown)


def test_only_clients_with_a_certificate_of_the_authority_are_answered(tmp_path: Path) -> None:
    ours, others = written(tmp_path, "ours"), written(tmp_path, "others")
    options = Options(port=0, client_ca_file=ours[0])
    assert asyncio.run(answer(options, ours)) == 200
    for shown in (others, None):
        with pytest.raises(aiohttp.ClientError):
            asyncio.run(answer(options, shown))
    assert asyncio.run(answer(Options(port=0), None)) == 200


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_missing_or_malformed_file_of_authorities(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.crt"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=r"ca\.crt: cannot be used \("):
        asyncio.run(answer(Options(port=0, client_ca_file=file), None))


def test_other_authorities_hold_from_the_next_connection_on(tmp_path: Path) -> None:
    """Without a restart, and while the server's own certificate stays the same. A file that cannot
    be used leaves the earlier ones in force."""
    ours, others = written(tmp_path, "ours"), written(tmp_path, "others")
    file = tmp_path / "ca.crt"
    file.write_bytes(ours[0].read_bytes())

    async def run() -> None:
        async with answering(Options(port=0, client_ca_file=file), APPLICATION) as url:
            assert await post(url, ours) == 200
            file.write_bytes(others[0].read_bytes())
            assert await post(url, others) == 200
            with pytest.raises(aiohttp.ClientError):
                await post(url, ours)
            for content in ("no certificate", None):
                file.unlink() if content is None else file.write_text(content)
                assert await post(url, others) == 200

    asyncio.run(run())
