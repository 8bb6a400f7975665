"""Answers of extenders, as JSON, on the side of the client."""

from eventsched.cluster.extenders import client, wire_format
from eventsched.cluster.messages import CallExtender, ExtenderReply
from eventsched.domain import records
from eventsched.domain.records import ExtenderAsked, Victims
from eventsched.domain.records.extender_records import BIND, FILTER, PREEMPT, PRIORITIZE
from eventsched.runtime.effects.extender_call_tracker import outcome
from eventsched.scheduling.config.sections import ExtenderSection
from tests.fuzz.choices import Choices
from tests.fuzz.documents import HOSTILE_JSON, as_json, documents, spoiled
from tests.fuzz.targets import is_choices

NAMES = [f"n{row}" for row in range(4)]
_CANDIDATES = {"n0": Victims(uids=("u1",), violations=1), "n1": Victims(uids=("u2",))}


def fuzz_one(data: bytes) -> None:
    """An answer is read, or refused with a FailedError; what the log gets can be stored and read
    again."""
    if is_choices(data):
        choices = Choices(data[1:])
        _, document = choices.of(documents("extender_answers"))
        data = as_json(spoiled(document, choices, HOSTILE_JSON))
    server = object.__new__(client._Server)
    server.configured = ExtenderSection(url_prefix="http://x")
    for verb in (FILTER, PRIORITIZE, PREEMPT):
        for caches in (False, True):
            _answer(server, verb, data, caches_nodes=caches)
    try:
        problem = server.read(BIND, ("application/json", data), wire_format.bind_error)
        problem.encode()
    except client.FailedError as failed:
        str(failed).encode()


def _answer(server: "client._Server", verb: str, data: bytes, *, caches_nodes: bool) -> None:
    request = CallExtender(
        uid="u", namespace="default", name="p", attempt=1, extender=0, verb=verb,
        nodes=tuple(NAMES), candidates=_CANDIDATES,
    )  # fmt: skip
    fields: wire_format.Fields
    try:
        fields = server.read(
            verb,
            ("application/json", data),
            lambda body: wire_format.reply(request, body, caches_nodes=caches_nodes),
        )
    except client.FailedError as failed:
        fields = {"problem": str(failed)}
    question = ExtenderAsked(
        uid="u", attempt=1, extender=0, verb=verb, name="x", nodes="0-3", candidates=_CANDIDATES
    )
    answered = outcome(question, ExtenderReply(request, duration=1, **fields), NAMES)
    stored = records.encode(answered)
    assert records.decode(stored) == answered
    assert len(answered.problem) < 2_000 + len(data)
