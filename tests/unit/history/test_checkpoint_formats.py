"""States in every format that checkpoints of a log had: later versions read them.

``python -m tests.unit.history.test_checkpoint_formats`` writes the one of the present format. Those
of earlier formats stay as they are.
"""

import gzip
import json
import zlib
from hashlib import sha256
from itertools import islice
from pathlib import Path

import pytest

from eventsched.domain.records import StreamStarted
from eventsched.history.export_reader import FileLog
from eventsched.history.replay.logged_state import ReplayStart
from eventsched.history.replay.stream_replay import rebuild
from eventsched.history.verify.verified_log import KeptStart
from eventsched.history.verify.verified_preemptions import PodFacts
from eventsched.history.verify.verified_start import checkpoint_state
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_text
from eventsched.runtime.snapshot_policy import FORMAT, is_readable
from tests.databases import ROOT

HISTORIES = ROOT / "tests/histories"
SOURCE = HISTORIES / "0.1-defaults.jsonl.gz"
CHECKPOINTS = sorted(HISTORIES.glob("checkpoint-*.json.gz"))


def assembly() -> Assembly:
    """That of the log."""
    [started] = [stored.record for stored in islice(FileLog(SOURCE).read(), 1)]
    assert isinstance(started, StreamStarted)
    return assemble_text(started.configuration, [], "s", IN_TREE, started.flags)


@pytest.mark.parametrize("path", CHECKPOINTS, ids=[path.name for path in CHECKPOINTS])
def test_a_log_is_read_on_from_a_checkpoint(path: Path) -> None:
    """With the same end as from its first record."""
    checkpoint = json.loads(gzip.decompress(path.read_bytes()))
    assert is_readable(f"{checkpoint['format']}/0.1.0")
    state = json.dumps(checkpoint["state"]).encode()
    start = ReplayStart(checkpoint["position"], state)
    engine = start.begin(assembly().engine())
    assert engine.state.digest() == checkpoint["digest"]
    log = FileLog(SOURCE)
    whole = rebuild(assembly().engine(), log)
    rest = rebuild(assembly().engine(), log, start=start)
    assert rest.engine.state.digest() == whole.engine.state.digest()
    assert 0 < rest.records < whole.records


@pytest.mark.parametrize("path", CHECKPOINTS, ids=[path.name for path in CHECKPOINTS])
def test_verification_reads_a_checkpoint(path: Path) -> None:
    """It has code of its own for that (docs/log-format.md)."""
    checkpoint = json.loads(gzip.decompress(path.read_bytes()))
    body = zlib.compress(json.dumps({"engine": checkpoint["state"]}).encode())
    record = {"checkpoint": checkpoint["position"], "digest": sha256(body).hexdigest()}
    reports: list[str] = []
    start = KeptStart(checkpoint["position"], 0, record, body)
    found = checkpoint_state(start, lambda _, problem: reports.append(problem))
    assert found is not None, reports
    engine = assembly().engine()
    engine.restore(json.dumps(checkpoint["state"]).encode(), checkpoint["position"])
    state = engine.state
    assert found.pods == set(state.pods)
    for uid, pod_state in state.pods.items():
        assert found.live_pods.by_number[pod_state.number] == PodFacts(
            uid, pod_state.pod.priority, pod_state.pod.started_at, pod_state.pod.namespace
        )


def test_there_is_one_of_the_present_format() -> None:
    assert HISTORIES / f"checkpoint-{FORMAT}.json.gz" in CHECKPOINTS


def write() -> None:
    """Writes the file of the present format."""
    log = FileLog(SOURCE)
    engine = rebuild(assembly().engine(), log, until=log.head.next // 2).engine
    checkpoint = {
        "format": FORMAT,
        "position": engine.position,
        "digest": engine.state.digest(),
        "state": json.loads(engine.snapshot()),
    }
    file = HISTORIES / f"checkpoint-{FORMAT}.json.gz"
    file.write_bytes(gzip.compress(json.dumps(checkpoint).encode(), mtime=0))


if __name__ == "__main__":
    write()
