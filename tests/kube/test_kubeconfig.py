"""Kubeconfigs that are wrong in some way: one line that names the file and the field, never a
traceback, and never a secret."""

import asyncio
import copy
import random
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventsched.cluster.kube.http.access import KubeAccess, connect, from_kubeconfig
from eventsched.domain.errors import InputError, UnavailableError

SECRET = "hunter2-s3cr3t"
NUMBER = 300
ODD: list[Any] = [
    None, "", 0, -1, 1.5, True, [], {}, [1], {"a": 1}, "\x00", "a\x00b", "a\nb", " ", "\ud800", "é",
    "!!not base64!!", "AAAA", "x" * 5000, "https://", "https://[", "https://127.0.0.1:99999",
    "https://127.0.0.1:x", "ftp://127.0.0.1", "127.0.0.1", f"https://u:{SECRET}@127.0.0.1:1",
    "https://127.0.0.1:1?a=b", "http://127.0.0.1:1/\r\nX: y", b"bytes", "/dev/null", "/none",
    ["\x00"],
    f"http://u:{SECRET}@127.0.0.1:1/x",
]  # fmt: skip


@pytest.fixture
def port() -> Iterator[int]:
    """A port without a listener."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


def whole(port: int) -> dict[str, Any]:
    cluster = {
        "server": f"https://127.0.0.1:{port}",
        "insecure-skip-tls-verify": True,
        "tls-server-name": "x",
        "certificate-authority-data": "QUFBQQ==",
        "proxy-url": f"http://127.0.0.1:{port}",
    }
    user = {
        "token": SECRET,
        "username": "u",
        "password": SECRET,
        "client-certificate-data": "QUFBQQ==",
        "client-key": "/none",
        "tokenFile": "/none",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }


def changed(config: Any, draw: random.Random) -> Any:
    """The same with one or more values removed or replaced by odd ones."""
    made = copy.deepcopy(config)
    # Certificates that are none hide what else is wrong.
    for entry in ("certificate-authority-data",):
        if draw.random() < 0.7:
            del made["clusters"][0]["cluster"][entry]
    for entry in ("client-certificate-data", "client-key", "tokenFile"):
        if draw.random() < 0.7:
            del made["users"][0]["user"][entry]
    if draw.random() < 0.7:
        del made["clusters"][0]["cluster"]["proxy-url"]
    for _ in range(draw.choice((0, 1, 1, 1, 2, 4))):
        at: Any = made
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw.choice(keys)
            if isinstance(at[key], dict | list) and draw.random() < 0.85:
                at = at[key]
            elif draw.random() < 0.2:
                del at[key]
                break
            else:
                at[key] = draw.choice(ODD)
                break
    return made


async def outcome(file: Path) -> Exception | None:
    """The error that connecting raises."""
    try:
        api = await connect(file, timeout=5.0)
    except (InputError, UnavailableError) as problem:
        return problem
    await api.close()
    return None


@pytest.mark.properties
def test_unexpected_values(tmp_path: Path, port: int) -> None:
    file = tmp_path / "kubeconfig"
    kinds = set()
    for number in range(NUMBER):
        config = changed(whole(port), random.Random(number))
        try:
            file.write_text(yaml.safe_dump(config))
        except (UnicodeEncodeError, yaml.YAMLError):
            continue
        found = asyncio.run(outcome(file))
        assert found is not None
        kinds.add(type(found))
        assert SECRET not in str(found), number
        assert "\n" not in str(found), (number, str(found))
    assert kinds == {InputError, UnavailableError}


def test_bytes_that_are_no_kubeconfig(tmp_path: Path, port: int) -> None:
    """The files are only loaded: a server name that is left in one is not looked up."""
    file = tmp_path / "kubeconfig"
    text = yaml.safe_dump(whole(port)).encode()
    for number in range(NUMBER):
        draw = random.Random(number)
        made = bytearray(text)
        for _ in range(draw.randrange(1, 6)):
            made[draw.randrange(len(made))] = draw.choice((0, 9, 10, 34, 45, 58, 91, 123, 195, 255))
        if draw.random() < 0.2:
            del made[draw.randrange(len(made)) :]
        file.write_bytes(made)
        assert SECRET not in asyncio.run(_read(file)), number


async def _read(file: Path) -> str:
    """The error of loading the file; "" for none."""
    try:
        await KubeAccess(from_kubeconfig(str(file))).open()
    except InputError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        (
            "server",
            f"https://admin:{SECRET}@127.0.0.1:6443",
            "clusters.cluster.server: holds a user and a password; take them out of the URL",
        ),
        ("server", f"https://{SECRET}@127.0.0.1:6443", "holds a user and a password"),
        ("server", "127.0.0.1:6443", "clusters.cluster.server: is not the URL of a server"),
        ("server", "https://127.0.0.1:6443?x=y", "has a query or a fragment"),
        ("server", "https://127.0.0.1:644300", "is not the URL of a server"),
        ("server", "https://127.0.0.1:9 ", "is not a URL"),
        ("server", 5, "malformed"),
        ("tls-server-name", 5, "clusters.cluster.tls-server-name: is not a single line of text"),
        ("proxy-url", "proxy", "clusters.cluster.proxy-url: is not the URL of a server"),
        (
            "insecure-skip-tls-verify",
            "false",
            "is neither true nor false",
        ),
    ],
)
def test_the_field_is_named(
    field: str, value: object, said: str, tmp_path: Path, port: int
) -> None:
    config = whole(port)
    config["users"][0]["user"] = {"token": SECRET}
    config["clusters"][0]["cluster"] = {"server": f"https://127.0.0.1:{port}", field: value}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    found = asyncio.run(outcome(file))
    assert isinstance(found, InputError)
    assert said in str(found)
    assert str(file) in str(found)
    assert SECRET not in str(found)


def test_the_message_about_an_unreachable_server_shows_no_python_objects(
    tmp_path: Path, port: int
) -> None:
    config = whole(port)
    config["users"][0]["user"] = {"token": SECRET}
    config["clusters"][0]["cluster"] = {"server": f"https://127.0.0.1:{port}"}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    found = asyncio.run(outcome(file))
    assert isinstance(found, UnavailableError)
    assert f"no connection: 127.0.0.1:{port}: Connection refused" in str(found)
