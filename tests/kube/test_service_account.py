"""A pod's service account: what is read, and what is refused."""

from pathlib import Path

import pytest

from eventsched.cluster.kube.http.service_account import HOST_VARIABLE, PORT_VARIABLE, read


def files(folder: Path, token: str = "secret\n", authority: str = "PEM\n") -> tuple[str, str]:
    (folder / "token").write_text(token)
    (folder / "ca.crt").write_text(authority)
    return str(folder / "token"), str(folder / "ca.crt")


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("10.0.0.1", "https://10.0.0.1:443"),
        ("fd00::1", "https://[fd00::1]:443"),
    ],
)
def test_the_settings(tmp_path: Path, host: str, server: str) -> None:
    token, authority = files(tmp_path)
    settings = read({HOST_VARIABLE: host, PORT_VARIABLE: "443"}, token, authority)
    assert settings.host == server
    assert settings.authorization == "Bearer secret"
    assert settings.ssl_ca_cert == authority
    assert settings.verify_ssl


@pytest.mark.parametrize(
    ("environ", "token", "authority", "part"),
    [
        ({PORT_VARIABLE: "443"}, "t", "a", "is not set"),
        ({HOST_VARIABLE: "h", PORT_VARIABLE: ""}, "t", "a", "is not set"),
        ({HOST_VARIABLE: "h", PORT_VARIABLE: "1"}, "\n", "a", "token is empty"),
        ({HOST_VARIABLE: "h", PORT_VARIABLE: "1"}, "t", "", "ca.crt is empty"),
    ],
)
def test_what_is_missing(
    tmp_path: Path, environ: dict[str, str], token: str, authority: str, part: str
) -> None:
    with pytest.raises(ValueError, match=part):
        read(environ, *files(tmp_path, token, authority))


def test_a_missing_file(tmp_path: Path) -> None:
    environ = {HOST_VARIABLE: "h", PORT_VARIABLE: "1"}
    token, authority = files(tmp_path)
    Path(token).unlink()
    with pytest.raises(OSError, match="token"):
        read(environ, token, authority)
