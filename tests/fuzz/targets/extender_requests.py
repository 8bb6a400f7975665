"""Requests of other schedulers, as JSON, on the side of the server."""

import asyncio
import json

import msgspec

from eventsched.domain import records
from eventsched.domain.objects.texts import json_without_nul
from eventsched.domain.records import ExtenderInquired, NodeAdded, PodAdded
from eventsched.domain.records.extender_records import BIND, FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.records.stimuli import SERVES
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.process.extenders.extender_server_requests import Inquiries
from eventsched.scheduling.engine import Engine
from eventsched.web import extender_paths
from eventsched.web.http.posts import PostedRequest
from tests.builders import PROFILE, engine_of, make_node, make_pod
from tests.faults.cluster import OPENING
from tests.fuzz.choices import Choices
from tests.fuzz.documents import HOSTILE_JSON, as_json, documents, spoiled
from tests.fuzz.targets import is_choices

PATHS = {FILTER: "/filter", PRIORITIZE: "/prioritize", PREEMPT: "/preempt", BIND: "/bind"}
_MOST_RECORDS = 400
_WAIT_SECONDS = 0.01


class _Driver:
    """Takes the place of a leader's driver: a request is decided and committed at once."""

    accepts_stimuli = True

    def __init__(self) -> None:
        self.leader = self
        self.engine = _engine()
        self.inquiries = Inquiries(lambda: self, _WAIT_SECONDS)  # type: ignore[arg-type, return-value]
        self.handle = extender_paths.application(PATHS, self.inquiries.ask)

    def submit(self, inquired: ExtenderInquired) -> None:
        """Decides the request, stores the records and reads them again."""
        made = self.engine.observe(inquired, self.engine.state.now + 1)
        for logged in made:
            stored = records.encode(logged.record)
            assert json_without_nul(stored) == stored
            assert records.decode(stored) == logged.record
        asyncio.get_running_loop().call_soon(self.inquiries.records_committed, made)


def _engine() -> Engine:
    engine = engine_of(NodeResourcesFit())
    engine.observe(msgspec.structs.replace(OPENING, inputs={SERVES: PROFILE}), 1)
    for number in range(2):
        engine.observe(NodeAdded(node=make_node(f"n{number}")), 2 + number)
        pod = make_pod(f"on-{number}", cpu=3000 + 1000 * number, node_name=f"n{number}")
        engine.observe(PodAdded(pod=pod), 2 + number)
    for name in ("p1", "p2"):
        engine.observe(PodAdded(pod=make_pod(name, cpu=1000)), 4)
    return engine


_loop = asyncio.new_event_loop()
_drivers: list[_Driver] = []


def fuzz_one(data: bytes) -> None:
    """The answer is 200 with JSON, 400 or 503 with text, or 500 if the decision failed; there is
    no exception."""
    verbs: tuple[str, ...] = tuple(PATHS)
    if is_choices(data):
        choices = Choices(data[1:])
        name, document = choices.of(documents("extender_requests"))
        verbs = (name.partition("-")[2],)
        data = as_json(spoiled(document, choices, HOSTILE_JSON))
    if not _drivers or _drivers[0].engine.position > _MOST_RECORDS:
        _drivers[:] = [_Driver()]
    for verb in verbs:
        request = PostedRequest("POST", PATHS[verb], data)
        answer = _loop.run_until_complete(_drivers[0].handle(request))
        assert answer.status in (200, 400, 503), (answer.status, answer.body)
        if answer.is_json:
            json.loads(answer.body)
        else:
            answer.body.decode()
