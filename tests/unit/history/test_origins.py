"""Which record is the origin of a move that another pod's step caused."""

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.origins import Origin, origins_of
from tests.builders import defined, make_pod

DEFINED = records.VerdictDefined(number=1, verdict=Verdict("Gang", Code.UNSCHEDULABLE, ("alone",)))


def evidence_of(*happened: Record) -> ScannedEvidence:
    log = MemoryEventLog("s")
    entries = [LogEntry(position, 0, 0, record) for position, record in enumerate(happened)]
    log.begin(Batch([StoredRecord.of(entry) for entry in entries], {}))
    return ScannedEvidence(log, "s")


def test_the_origin_comes_after_the_dictionary_entries_of_its_step() -> None:
    """However many there are."""
    decided = PodDecided(uid="a", attempt=1, outcome=Outcome.UNSCHEDULABLE, message="no room")
    evidence = evidence_of(
        records.PodAdded(pod=make_pod("a")), DEFINED, defined(), decided, records.TimePassed()
    )
    for begin in (1, 2, 3):
        [(step, origin)] = origins_of(evidence, [begin]).items()
        assert (step, origin.position, origin.kind) == (begin, 3, "PodDecided")
        assert origin.pods == ("default/a",)


def test_a_step_that_only_lets_time_pass_has_no_origin() -> None:
    """Nor has one that is not in the log."""
    evidence = evidence_of(records.TimePassed(), records.PodDeleted(uid="gone"))
    assert origins_of(evidence, [0]) == {}
    assert origins_of(evidence, [1]) == {1: Origin(1, "PodDeleted", "gone is gone")}
