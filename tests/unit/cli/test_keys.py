"""``eventsched keys``: a new key, and what is shown of one."""

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from eventsched.cli.main import main
from eventsched.eventlog.checkpoints import Signer

Capture = pytest.CaptureFixture[str]


def test_a_new_key(tmp_path: Path, capsys: Capture) -> None:
    """Only its owner may read it, whatever the umask; the printed key is its public key."""
    file, public = tmp_path / "key.pem", tmp_path / "key.pub"
    before = os.umask(0)
    try:
        assert main(["keys", "generate", str(file)]) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    public.write_text(capsys.readouterr().out)
    Signer.read(file, "--key")
    for each in (file, public):
        assert main(["keys", "show", str(each)]) == 0
    of_private, _, of_public = capsys.readouterr().out.partition("-----END PUBLIC KEY-----\n")
    assert of_private + "-----END PUBLIC KEY-----\n" == of_public
    assert of_public.endswith(public.read_text())


def test_a_file_that_exists_is_kept(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "key.pem"
    file.write_text("precious")
    assert main(["keys", "generate", str(file)]) == 2
    assert capsys.readouterr().err == f"eventsched keys: {file}: exists; name a new file\n"
    assert file.read_text() == "precious"
    assert main(["keys", "generate", str(tmp_path / "none" / "key.pem")]) == 2
    assert "cannot be written: No such file or directory" in capsys.readouterr().err


def test_the_forms_of_a_key(tmp_path: Path, capsys: Capture) -> None:
    """The id does not depend on the stream, the key of verifiers does."""
    file = tmp_path / "key.pem"
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert main(["keys", "show", str(file), "--stream", "a b+ü", "--stream", "s"]) == 0
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert (
        capsys.readouterr().out
        == (
            "key id: 56475aa75463474c\n"
            "verifier key: eventsched/a%20b%2B%C3%BC+00a12972+"
            "AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4\n"
            "verifier key: eventsched/s+13dbdcdb+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4\n"
        )
        + public.decode()
    )


def test_files_without_a_key(tmp_path: Path, capsys: Capture) -> None:
    other = X25519PrivateKey.generate()
    (tmp_path / "private").write_bytes(
        other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    (tmp_path / "public").write_bytes(
        other.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    (tmp_path / "text").write_text("hello")
    for name, problem in (
        ("none", "cannot be read: No such file or directory; make one: eventsched keys generate"),
        ("text", "holds no key that can be read"),
        ("public", "holds a key of another kind"),
        ("private", "holds a key of another kind"),
    ):
        assert main(["keys", "show", str(tmp_path / name)]) == 2
        assert problem in capsys.readouterr().err
