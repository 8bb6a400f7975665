"""The HTTP client of extenders: requests, and replies to good and bad answers."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from eventsched.cluster.extenders.client import Extenders, FailedError
from eventsched.cluster.extenders.wire_format import bare
from eventsched.cluster.messages import BindPod, CallExtender, ExtenderReply
from eventsched.domain.errors import InputError
from eventsched.domain.records import Victims
from eventsched.domain.records.extender_records import FILTER, PREEMPT, PRIORITIZE
from eventsched.scheduling.config.configuration import load
from eventsched.web.http import certificates

from .server import Handler, Sample, dying, saying, serving, silent

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
VERBS = {
    "filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt",
    "bindVerb": "bind", "weight": 1,
}  # fmt: skip
POD = json.dumps({"metadata": {"name": "p1", "uid": "p1"}, "spec": {"nodeSelector": {"a": "b"}}})
BIND = BindPod("p1", "shop", "web-0", "n1", 7, "s/1@0", extender=0)


class Objects:
    """The pod p1, its victim v1, and any node."""

    def pod(self, uid: str) -> bytes | None:
        """The JSON of p1 and v1; None for others."""
        return POD.encode() if uid == "p1" else bare([("uid", uid)]) if uid == "v1" else None

    def node(self, name: str) -> bytes | None:
        """A node, with the label if its name ends in 1. n9 does not exist."""
        if name == "n9":
            return None
        labels = {"extender": "yes" if name.endswith("1") else "no"}
        return json.dumps({"metadata": {"name": name, "labels": labels}}).encode()


def question(verb: str = FILTER, *nodes: str, **fields: Any) -> CallExtender:
    """A question about n0 and n1, or about the given nodes or candidates."""
    names = nodes or ("n0", "n1")
    defaults = {"uid": "p1", "candidates": {}, **fields}
    return CallExtender(
        namespace="default", name="p1", attempt=1, extender=0, verb=verb, nodes=names, **defaults
    )


def extenders_at(url: str, **fields: Any) -> Extenders:
    """The client of one extender."""
    section = {"urlPrefix": f"{url}/scheduler/", **VERBS, **fields}
    configured = load(HEAD + f"extenders: [{json.dumps(section)}]\n", "sched.yaml").extenders
    return Extenders(configured, Objects(), "sched.yaml")


def asked(
    handlers: Mapping[str, Handler], *requests: CallExtender, **fields: Any
) -> list[ExtenderReply]:
    """The replies of an extender to questions, asked one after the other."""

    async def ask() -> list[ExtenderReply]:
        async with serving(handlers) as url:
            extenders = extenders_at(url, **fields)
            try:
                return [await extenders.call(request) for request in requests]
            finally:
                await extenders.close()

    return asyncio.run(ask())


# --- the wire -----------------------------------------------------------------------------------


def test_filter_with_whole_nodes() -> None:
    sample = Sample()
    [reply] = asked(sample.handlers, question(FILTER, "n0", "n1", "n9"))
    assert reply.passed == ("n1",)
    assert dict(reply.unresolvable) == {
        "n0": "label extender is not yes", "n9": "label extender is not yes",
    }  # fmt: skip
    assert (dict(reply.failed), reply.problem) == ({}, "")
    assert reply.duration > 0
    [(path, body)] = sample.requests
    assert path == "/scheduler/filter"
    assert body == {
        "Pod": json.loads(POD),
        "Nodes": {
            "metadata": {},
            "items": [
                {"metadata": {"name": "n0", "labels": {"extender": "no"}}},
                {"metadata": {"name": "n1", "labels": {"extender": "yes"}}},
                {"metadata": {"name": "n9"}, "spec": {}, "status": {}},
            ],
        },
        "NodeNames": None,
    }


def test_filter_with_names_and_other_spelling() -> None:
    sample = Sample()
    [reply] = asked(sample.handlers, question(), nodeCacheCapable=True)
    assert (reply.passed, dict(reply.failed)) == (("n1",), {"n0": "no such luck"})
    [(_, body)] = sample.requests
    assert body == {"Pod": json.loads(POD), "Nodes": None, "NodeNames": ["n0", "n1"]}


def test_prioritize_at_another_path() -> None:
    sample = Sample()
    [reply] = asked(sample.handlers, question(PRIORITIZE), prioritizeVerb="priority")
    assert (reply.scores, reply.problem) == ((("n0", 0), ("n1", 1)), "")


@pytest.mark.parametrize("caches", [True, False])
def test_preempt(caches: bool) -> None:
    sample = Sample()
    candidates = {"n0": Victims(uids=("v0",)), "n1": Victims(uids=("v1", "v2"), violations=1)}
    [reply] = asked(
        sample.handlers, question(PREEMPT, candidates=candidates), nodeCacheCapable=caches
    )
    assert dict(reply.victims) == {"n1": candidates["n1"]}
    [(_, body)] = sample.requests
    if caches:
        assert body["NodeNameToVictims"] is None
        assert body["NodeNameToMetaVictims"]["n1"] == {
            "Pods": [{"UID": "v1"}, {"UID": "v2"}], "NumPDBViolations": 1,
        }  # fmt: skip
    else:
        assert body["NodeNameToMetaVictims"] is None
        [first, _] = body["NodeNameToVictims"]["n1"]["Pods"]
        assert first["metadata"] == {"uid": "v1"}


def test_bind() -> None:
    sample = Sample()

    async def bind() -> list[str]:
        async with serving(sample.handlers) as url:
            extenders = extenders_at(url)
            outcomes = []
            try:
                for sample.error in ("", "node is reserved"):
                    try:
                        await extenders.bind(BIND)
                        outcomes.append("bound")
                    except FailedError as failed:
                        outcomes.append(f"{failed} {failed.refused}")
            finally:
                await extenders.close()
        return outcomes

    assert asyncio.run(bind()) == ["bound", "node is reserved True"]
    assert sample.requests[0] == (
        "/scheduler/bind",
        {"PodName": "web-0", "PodNamespace": "shop", "PodUID": "p1", "Node": "n1"},
    )


# --- what goes wrong ----------------------------------------------------------------------------


def test_a_path_that_the_server_does_not_have() -> None:
    [reply] = asked(Sample().handlers, question(PRIORITIZE))
    url = reply.problem.partition("URL ")[2].partition(",")[0]
    assert url.endswith("/scheduler/prioritize")
    assert reply.problem == (
        f"failed prioritize with extender at URL {url}, code 404: the server does not offer this "
        "path; compare prioritizeVerb with its own"
    )


@pytest.mark.parametrize(
    ("text", "kind", "excerpt"),
    [
        (
            "there are /filter and /priority\n",
            "text/plain",
            "; it says: 'there are /filter and /pri",
        ),
        ("404 page not found\n", "text/plain", ""),
        ("", "text/plain", ""),
        ("<html>Not here", "text/html", ""),
    ],
)
def test_the_error_quotes_what_the_server_offers(text: str, kind: str, excerpt: str) -> None:
    handlers = {"/scheduler/prioritize": saying(text, 404, kind)}
    [reply] = asked(handlers, question(PRIORITIZE))
    _, _, rest = reply.problem.partition("compare prioritizeVerb with its own")
    assert rest.startswith(excerpt)
    assert bool(rest) is bool(excerpt)


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (
            saying("<!DOCTYPE html><p>Welcome", kind="text/html"),
            "no JSON but text/html, and begins",
        ),
        (saying(""), "the answer is no JSON"),
        (saying("[1, 2]"), "the answer has another shape: it is not an object"),
        (saying('{"NodeNames": "n1"}'), "its field nodenames is not a list of names"),
        (saying('{"NodeNames": ["n1"]}'), "set nodeCacheCapable if it answers with names"),
        (saying('{"FailedNodes": {"n1": 7}}'), "its field failednodes is not a map of texts"),
        (saying('{"Error": "out of luck"}'), "out of luck"),
        (saying("no", status=500), "code 500"),
        (saying("", status=302), "code 302"),
        (dying, "POST http"),
    ],
)
def test_bad_answers_are_problems(handler: Handler, problem: str) -> None:
    [reply] = asked({"/scheduler/filter": handler}, question())
    assert problem in reply.problem
    assert (reply.passed, dict(reply.failed)) == ((), {})


@pytest.mark.parametrize("text", ['{"Host": "n1"}', '[{"Host": "n1", "Score": 1.5}]', "[[]]"])
def test_malformed_scores(text: str) -> None:
    [reply] = asked({"/scheduler/prioritize": saying(text)}, question(PRIORITIZE))
    assert "the answer has another shape" in reply.problem
    assert reply.scores == ()


@pytest.mark.parametrize("text", ["null", "[]"])
def test_an_empty_list_of_scores_is_valid(text: str) -> None:
    [reply] = asked({"/scheduler/prioritize": saying(text)}, question(PRIORITIZE))
    assert (reply.problem, reply.scores) == ("", ())


@pytest.mark.parametrize(
    "text", ['{"NodeNameToMetaVictims": {"n1": {"Pods": [{}]}}}', '{"NodeNameToMetaVictims": []}']
)
def test_malformed_victims(text: str) -> None:
    [reply] = asked({"/scheduler/preempt": saying(text)}, question(PREEMPT))
    assert "the answer has another shape" in reply.problem


def test_an_extender_that_never_answers() -> None:
    [reply] = asked({"/scheduler/filter": silent}, question(), httpTimeout="50ms")
    assert reply.problem.endswith("/scheduler/filter: no answer within 0.05 s")


def test_an_extender_that_is_down() -> None:
    async def ask() -> ExtenderReply:
        async with serving({}) as url:
            extenders = extenders_at(url)
        try:
            return await extenders.call(question())
        finally:
            await extenders.close()

    assert "/scheduler/filter: cannot connect: " in asyncio.run(ask()).problem


def test_a_pod_that_is_gone() -> None:
    [reply] = asked(Sample().handlers, question(uid="gone"))
    assert reply.problem == "pod default/p1 is gone"


# --- configurations -----------------------------------------------------------------------------


def bad_certificate(folder: Path) -> str:
    """The path of a file that is not a certificate."""
    (folder / "bad.pem").write_text("no certificate")
    return str(folder / "bad.pem")


@pytest.mark.parametrize(
    ("fields", "where", "problem"),
    [
        ({"urlPrefix": "127.0.0.1:8888"}, "urlPrefix", "is not the URL of a server"),
        ({"urlPrefix": "ftp://x"}, "urlPrefix", "is not the URL of a server"),
        ({"urlPrefix": "http://x:99999"}, "urlPrefix", "is not the URL of a server"),
        ({"urlPrefix": "http://me:secret@x"}, "urlPrefix", "has a user or password"),
        ({"tlsConfig": {"keyData": "eA=="}}, "tlsConfig.keyData", "is a private key"),
        ({"weight": 2**31}, "weight", "is out of range"),
        ({"tlsConfig": {"insecure": True, "caData": "eA=="}}, "tlsConfig", "exclude each other"),
        ({"tlsConfig": {"caFile": "/nowhere/ca.pem"}}, "tlsConfig", "No such file"),
        ({"tlsConfig": {"caFile": bad_certificate}}, "tlsConfig", "cannot be used"),
        ({"tlsConfig": {"caData": "eA=="}}, "tlsConfig", "cannot be used"),
    ],
)
def test_an_extender_that_could_never_be_called(
    tmp_path: Path, fields: dict[str, Any], where: str, problem: str
) -> None:
    def resolved(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: resolved(item) for name, item in value.items()}
        return value(tmp_path) if callable(value) else value

    async def make() -> None:
        await extenders_at("http://x", **resolved(fields)).close()

    with pytest.raises(InputError) as caught:
        asyncio.run(make())
    assert caught.value.where == f"sched.yaml: extenders[0].{where}"
    assert problem in caught.value.problem
    assert "secret" not in str(caught.value)


# --- TLS ----------------------------------------------------------------------------------------


def own_certificate() -> tuple[bytes, bytes]:
    """A self-signed certificate of a client, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "scheduler")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return made.public_bytes(pem), key.private_bytes(pem, form, serialization.NoEncryption())


def over_tls(folder: Path, fields: dict[str, Any], *, proof: bool = False) -> ExtenderReply:
    """The reply of a server that uses TLS with the certificate server.crt. With ``proof`` it
    requires the client certificate ours.crt."""
    certificate, key = certificates.self_signed(["localhost", "127.0.0.1"], datetime.now(UTC))
    (folder / "server.crt").write_bytes(certificate)
    (folder / "server.key").write_bytes(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    if proof:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ours.crt")

    async def ask() -> ExtenderReply:
        async with serving(Sample().handlers, context) as url:
            extenders = extenders_at(url, **fields)
            try:
                return await extenders.call(question())
            finally:
                await extenders.close()

    return asyncio.run(ask())


def test_a_certificate_of_the_configured_authority(tmp_path: Path) -> None:
    fields = {"enableHTTPS": True, "tlsConfig": {"caFile": str(tmp_path / "server.crt")}}
    assert over_tls(tmp_path, fields).passed == ("n1",)
    fields["tlsConfig"] = {**fields["tlsConfig"], "serverName": "elsewhere"}  # type: ignore[dict-item]
    assert "its certificate is not accepted" in over_tls(tmp_path, fields).problem


@pytest.mark.parametrize(
    "fields", [{"enableHTTPS": True}, {"enableHTTPS": True, "tlsConfig": {"insecure": True}}]
)
def test_without_an_authority_the_certificate_is_not_verified(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    assert over_tls(tmp_path, fields).passed == ("n1",)


def test_a_certificate_of_an_unknown_authority(tmp_path: Path) -> None:
    assert "its certificate is not accepted" in over_tls(tmp_path, {}).problem


def test_a_client_certificate_is_presented(tmp_path: Path) -> None:
    certificate, key = own_certificate()
    (tmp_path / "ours.crt").write_bytes(certificate)
    (tmp_path / "ours.key").write_bytes(key)
    ours = {"certFile": str(tmp_path / "ours.crt"), "keyFile": str(tmp_path / "ours.key")}
    fields: dict[str, Any] = {"enableHTTPS": True, "tlsConfig": {"insecure": True}}
    assert over_tls(tmp_path, fields, proof=True).problem
    fields = {"enableHTTPS": True, "tlsConfig": {"insecure": True, **ours}}
    assert over_tls(tmp_path, fields, proof=True).passed == ("n1",)
