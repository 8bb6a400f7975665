"""Users that an authenticating proxy names: what they see, and clients that are not the proxy."""

import asyncio
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from starlette.datastructures import Headers
from starlette.requests import Request

from eventsched.api import child_process
from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.delegated_gate import DelegatedGate
from eventsched.api.gates.gate import RefusedError
from eventsched.api.gates.request_headers import proxied_user
from eventsched.api.server import REQUEST_HEADERS, ApiOptions, Gates, gate_of, place_of
from eventsched.process import api_child
from eventsched.process.sections.api_settings import ApiSettings
from eventsched.process.settings import Settings
from eventsched.questions.states import FoldedStates
from eventsched.web.authorization import Reviews, User
from eventsched.web.http.https_server import serving_at
from tests.api.asking import scope_of
from tests.api.test_delegated_gate import Cluster, unreachable
from tests.api.test_gates import NoStreams
from tests.web.facts import trusting
from tests.web.test_client_certificates import written

ALL, SIGNED_IN = "", "system:authenticated"


def headers(*given: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.lower().encode(), value.encode()) for name, value in given])


def gate(cluster: Cluster) -> DelegatedGate:
    """A gate behind a proxy."""
    reviews = Reviews(cluster.ask, cluster.clock)
    return DelegatedGate(reviews, cluster.namespaces, cluster.clock, by_proxy=True)


def requested(**headers: str) -> Request:
    return Request({**scope_of("/api/v1/now", "GET", headers), "path_params": {}})


def seen(gate: DelegatedGate, **given: str) -> Any:
    """The namespaces that are seen (None: all of them), or status and words of a refusal."""
    try:
        found = asyncio.run(gate.visibility(requested(**given))).namespaces
    except RefusedError as refused:
        return int(refused.status), refused.detail
    return found if found is None else sorted(found)


@pytest.mark.parametrize(
    ("given", "user"),
    [
        ([("X-Remote-User", "anna")], User("anna", groups=(SIGNED_IN,))),
        ([("X-Remote-User", " änna "), ("X-Remote-Group", "shop, cart"), ("X-Remote-Group", ""),
          ("x-remote-group", "ops"), ("X-Remote-Uid", "7")],
         User("änna", "7", ("shop, cart", "ops", SIGNED_IN))),
        ([("X-Remote-User", "anna"), ("X-Remote-Group", SIGNED_IN),
          ("X-Remote-Extra-acme.com%2Fproject", "a"), ("X-Remote-Extra-Acme.com%2fProject", "b")],
         User("anna", groups=(SIGNED_IN,), extra={"acme.com/project": ["a", "b"]})),
        ([("X-Remote-User", "system:anonymous")], User("system:anonymous")),
    ],
)  # fmt: skip
def test_the_user_of_headers(given: list[tuple[str, str]], user: User) -> None:
    """With the words of upstream's request header authentication, and its group of users."""
    assert proxied_user(headers(*given)) == user


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "the proxy names no user"),
        ([("X-Remote-User", " "), ("X-Remote-Group", "system:masters")], "names no user"),
        ([("X_Remote_User", "root"), ("Remote-User", "root")], "names no user"),
        ([("X-Remote-User", "root"), ("X-Remote-User", "anna")], "names more than one user"),
        ([("X-Remote-User", ""), ("x-remote-user", "anna")], "names more than one user"),
    ],
)
def test_headers_that_name_no_user(given: list[tuple[str, str]], problem: str) -> None:
    """Also those of a client that a proxy did not remove."""
    with pytest.raises(RefusedError, match=problem) as refused:
        proxied_user(headers(*given))
    assert refused.value.status == 401


def test_what_users_of_a_proxy_see() -> None:
    """The rights are those that the API server knows; bearer tokens count for nothing."""
    cluster = Cluster()
    proxied = gate(cluster)
    assert seen(proxied, x_remote_user="operator") is None
    assert seen(proxied, x_remote_user="anna", x_remote_group="shop") == ["cart", "shop"]
    asked = [spec for spec in cluster.reviews if spec["user"] == "anna"]
    assert {tuple(spec["groups"]) for spec in asked} == {("shop", SIGNED_IN)}
    guest = (403, "guest may not list pods in any namespace")
    assert seen(proxied, x_remote_user="guest", authorization="Bearer root") == guest
    nobody = (401, "the proxy names no user (X-Remote-User)")
    assert seen(proxied, authorization="Bearer root") == nobody
    assert not [spec for spec in cluster.reviews if "token" in spec]


def test_headers_that_a_holder_of_a_token_forges_count_for_nothing() -> None:
    cluster = Cluster()
    forged = {"x_remote_user": "root", "x_remote_group": "system:masters"}
    guest = (403, "guest may not list pods in any namespace")
    assert seen(cluster.gate(), authorization="Bearer guest", **forged) == guest
    assert seen(cluster.gate(), **forged) == (401, "a bearer token is needed")


def test_only_the_holder_of_a_certificate_may_name_a_user(tmp_path: Path) -> None:
    """Others with the same headers have no connection, also on a loopback address."""
    ours, others = written(tmp_path, "ours"), written(tmp_path, "others")
    options = ApiOptions(port=0, authorization=REQUEST_HEADERS, client_ca_file=ours[0])
    app = application(Desk(NoStreams(), FoldedStates()), gate(Cluster()))

    async def status(url: str, shown: tuple[Path, Path] | None) -> int:
        context = trusting()
        if shown is not None:
            context.load_cert_chain(*shown)
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as client,
            client.get(f"{url}{ROOT}/streams", headers={"X-Remote-User": "operator"}) as response,
        ):
            return response.status

    async def asked() -> None:
        async with serving_at(place_of(options), app) as url:
            assert await status(url, ours) == 200
            for shown in (others, None):
                with pytest.raises(aiohttp.ClientError):
                    await status(url, shown)

    asyncio.run(asked())


def test_options_and_settings_make_this_gate(tmp_path: Path) -> None:
    """Of ``serve`` and of ``run``: the user comes from headers, and with a file of authorities
    clients need a certificate."""
    kubeconfig, (authority, _) = unreachable(tmp_path), written(tmp_path, "ours")
    options = ApiOptions(authorization=REQUEST_HEADERS, kubeconfig=kubeconfig)
    behind = ApiSettings(port=8787, authorization="requestHeaders", client_ca_file=str(authority))
    settings = Settings(api=behind)
    for gates in (
        gate_of(replace(options, trust_all_clients=True)),
        gate_of(replace(options, client_ca_file=authority)),
        child_process._gates(settings, str(kubeconfig)),
    ):
        nobody = (401, "the proxy names no user (X-Remote-User)")
        assert asyncio.run(answer_of(gates)) == nobody
    for place in (
        place_of(replace(options, client_ca_file=authority)), api_child.place_of(settings),
    ):  # fmt: skip
        assert place.certificates is not None
        assert place.certificates.context.verify_mode is ssl.CERT_REQUIRED
    assert place_of(replace(options, trust_all_clients=True)).certificates is None


async def answer_of(gates: Gates) -> Any:
    """Status and words of the refusal of a request without headers."""
    async with gates as opened:
        with pytest.raises(RefusedError) as refused:
            await opened.visibility(requested())
        return int(refused.value.status), refused.value.detail
