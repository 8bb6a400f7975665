"""Which clients are served, and what a port needs: a file of tokens, certificates, addresses."""

from hashlib import sha256
from pathlib import Path

import pytest

from eventsched.api.application import OPENAPI, ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.static_tokens import StaticTokens, read_tokens
from eventsched.api.server import (
    DELEGATED,
    REQUEST_HEADERS,
    ApiOptions,
    gate_of,
    place_of,
)
from eventsched.domain.errors import InputError
from eventsched.questions.answer_shapes import Streams
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import LoggedStream
from tests.api.asking import Client

TOKEN, OTHER = "a-token-of-grafana", "a-token-of-anna-sophie"


class NoStreams:
    """A log without streams."""

    def open(self, name: str | None) -> LoggedStream:
        raise InputError("stream", "there is none", "make one")

    def answer(self) -> Streams:
        return Streams(streams=[])


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(["tokens:", *lines]))
    return path


def test_tokens_of_a_file(tmp_path: Path) -> None:
    """By the token or its hash, read again when the file changes; a broken file changes nothing."""
    path = written(tmp_path / "tokens", f"- {{name: grafana, token: {TOKEN}}}")
    now = [0.0]
    app = application(Desk(NoStreams(), FoldedStates()), StaticTokens(path, lambda: now[0]))

    def answers(token: str) -> list[int]:
        client = Client(app, token=token)
        return [client.ask(at).status for at in (f"{ROOT}/streams", OPENAPI)]

    assert answers(TOKEN) == [200, 200]
    assert answers(OTHER) == answers("") == answers(f"{TOKEN}a") == [401, 401]
    refused = Client(app).ask(f"{ROOT}/streams")
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.json["detail"] == "a bearer token is needed"
    assert refused.json["remedy"] == "send the header Authorization: Bearer TOKEN"
    written(path, f"- {{name: anna, sha256: {sha256(OTHER.encode()).hexdigest()}}}", "")
    assert answers(TOKEN) == [200, 200]  # looked at a moment ago
    now[0] = 2
    assert answers(TOKEN) == [401, 401]
    assert answers(OTHER) == [200, 200]
    path.write_text("tokens: [")
    now[0] = 4
    assert answers(OTHER) == [200, 200]
    path.unlink()
    now[0] = 6
    assert answers(OTHER) == [200, 200]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (("- {name: a}",), "tokens[0]: needs one of token and sha256; give one"),
        ((f"- {{name: a, token: {TOKEN}, sha256: ab}}",), "needs one of token and sha256"),
        (("- {name: a, token: short}",), "tokens[0].token: is shorter than 16 characters"),
        (("- {name: a, sha256: ab}",), "tokens[0].sha256: is not 64 hex digits"),
        ((f"- {{name: a, token: {TOKEN}}}", f"- {{name: b, token: {TOKEN}}}"),
         "tokens[1]: is the token of a; give it another one"),
        (("- {name: a, tokens: b}",), "is not a list of tokens (Object contains unknown field"),
        (("- [",), "is not a list of tokens"),
        ((" []",), "tokens: is empty; add a token"),
    ],
)  # fmt: skip
def test_a_wrong_file(tmp_path: Path, lines: tuple[str, ...], problem: str) -> None:
    path = written(tmp_path / "tokens", *lines)
    with pytest.raises(InputError) as caught:
        read_tokens(path)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_file_that_is_too_large_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_tokens(tmp_path / "none")
    (tmp_path / "large").write_bytes(b" " * (1 << 20) + b"a")
    with pytest.raises(InputError, match="is larger than 1 MiB"):
        read_tokens(tmp_path / "large")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (ApiOptions("0.0.0.0"), "--bind-address: other machines reach 0.0.0.0, and no client needs "
         "a token; give --authorization delegated, --tokens FILE, or --no-tokens"),
        (ApiOptions(cert_file=Path("a")), "--tls-cert-file: is given without "
         "--tls-private-key-file; give both, or neither"),
        (ApiOptions(key_file=Path("a")), "--tls-private-key-file: is given without "
         "--tls-cert-file; give both, or neither"),
        (ApiOptions(cert_file=Path("a"), key_file=Path("b"), plain=True),
         "--plain: excludes --tls-cert-file; leave one of them out"),
        (ApiOptions(tokens_file=Path("a"), no_tokens=True),
         "--no-tokens: excludes --tokens; leave one of them out"),
        (ApiOptions(authorization=DELEGATED, no_tokens=True),
         "--no-tokens: excludes --authorization delegated; leave one of them out"),
        (ApiOptions(authorization=DELEGATED, tokens_file=Path("a")),
         "--tokens: excludes --authorization delegated; leave one of them out"),
        (ApiOptions(authorization=DELEGATED, kubeconfig=Path("none")),
         "kubeconfig none: does not exist; check --kubeconfig, or omit it"),
        (ApiOptions(authorization=REQUEST_HEADERS), "--authorization request-headers: every client "
         "could name any user; give --client-ca-file FILE with the authority of the proxy's "
         "certificate, or --trust-all-clients if only the proxy reaches the port"),
        (ApiOptions(authorization=REQUEST_HEADERS, client_ca_file=Path("a"),
                    trust_all_clients=True),
         "--trust-all-clients: excludes --client-ca-file; leave one of them out"),
        (ApiOptions(authorization=REQUEST_HEADERS, no_tokens=True),
         "--no-tokens: excludes --authorization request-headers; leave one of them out"),
        (ApiOptions(authorization=DELEGATED, client_ca_file=Path("a")), "--client-ca-file: says "
         "which clients may name a user; add --authorization request-headers"),
        (ApiOptions(trust_all_clients=True), "--trust-all-clients: says which clients may name a "
         "user; add --authorization request-headers"),
        (ApiOptions(kubeconfig=Path("a")), "--kubeconfig: names the API server to ask about "
         "tokens; add --authorization delegated"),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(options: ApiOptions, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        gate_of(options), place_of(options)
    assert str(caught.value) == problem


def test_https_unless_only_this_machine_reaches_it() -> None:
    assert place_of(ApiOptions()).certificates is None
    assert place_of(ApiOptions("::1")).certificates is None
    assert place_of(ApiOptions("0.0.0.0")).certificates is not None
    assert place_of(ApiOptions("0.0.0.0", plain=True)).certificates is None
    with pytest.raises(InputError, match="--plain: excludes --client-ca-file"):
        place_of(ApiOptions(plain=True, client_ca_file=Path("a")))
