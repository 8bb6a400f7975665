"""What happens to pods for which others had to leave: the rule for records (``explain``) and that
for rows (``/evictions``) agree, on histories by chance and up to any position of them."""

import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.domain.records import PodDecided, PreemptionDecided
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.evictor_outcomes import EVICTOR_OUTCOMES
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.preemption_explanation import explain_preemption
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.databases import Server, migrate
from tests.postgres.anomalous import Diary

STREAMS = [f"chance-{seed}" for seed in range(6)]
NODES = ("n1", "n2", "n3")


def by_chance(seed: str) -> Diary:
    """Pods evict others, some again and again, and are then placed anywhere, refused or deleted.
    One that was placed may lose its node, as after a bind that failed, and evict again."""
    chance = random.Random(seed)
    diary = Diary(*NODES)
    evictors: list[str] = []
    for number in range(60):
        evictor = chance.choice(evictors) if evictors else ""
        what = chance.random()
        if not evictor or what < 0.25:
            evictors.append(diary.arrives(f"boss-{number}", priority=9))
        elif what < 0.55:
            victim = diary.arrives(f"web-{number}")
            diary.is_placed(victim, node := chance.choice(NODES))
            diary.preempts(evictor, node, victim)
        elif what < 0.65:
            diary.is_refused(evictor)
        elif what < 0.75:
            diary.waits_at_permit(evictor, chance.choice(NODES))
        elif what < 0.88:
            diary.is_placed(evictor, chance.choice(NODES))
        else:
            diary.goes(evictor)
            evictors.remove(evictor)
    return diary


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database with all these histories."""

    def written(url: str) -> None:
        migrate(url)
        for stream in STREAMS:
            by_chance(stream).write(url, stream)

    with one_server.fresh(written) as url:
        yield url


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Client]:
    with closing(DatabaseStreams(address)) as streams:
        yield Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))


def explained(address: str, stream: str, entries: Sequence[LogEntry]) -> dict[int, Any]:
    """For each preemption among the first records of a stream: what ``explain`` says about it."""
    found = {}
    with closing(Reader(address, stream)) as reader:
        evidence = ScannedEvidence(reader, stream)
        for entry in entries:
            decided = entry.record
            if isinstance(decided, PreemptionDecided):
                later = [
                    other for other in entries[entry.position + 1 :]
                    if getattr(other.record, "uid", "") == decided.uid
                ]  # fmt: skip
                position = entry.position
                found[position] = explain_preemption(evidence, position, decided, later, None)
    return found


@pytest.mark.parametrize("stream", STREAMS)
def test_records_and_rows_say_the_same(address: str, client: Client, stream: str) -> None:
    entries = by_chance(stream).entries
    ends = [each.position + 1 for each in entries if isinstance(each.record, PodDecided)]
    for end in (*random.Random(stream).sample(ends, 6), len(entries)):
        at = "" if end == len(entries) else f"&at={end}"
        answer = client.get(f"/evictions?stream={stream}&limit=100{at}")
        rows = {
            row["position"]: (row["outcome"], row["landed_on"], row["landed"])
            for row in answer["preemptions"]
        }
        records = {
            position: (each.outcome, each.landed or None, each.landed_at if each.landed else None)
            for position, each in explained(address, stream, entries[:end]).items()
        }
        assert rows == records


def test_every_outcome_occurs(address: str) -> None:
    outcomes = {
        each.outcome
        for stream in STREAMS
        for each in explained(address, stream, by_chance(stream).entries).values()
    }
    assert outcomes == set(EVICTOR_OUTCOMES)
