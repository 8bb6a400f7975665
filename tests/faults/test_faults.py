"""A thousand seeds, half of them with failovers that lose history: no invariant may be violated,
and every fault has to be reached. ``make soak SEEDS=…`` runs any number."""

import subprocess
import sys
from pathlib import Path

import pytest

from . import campaign, rates
from .happenings import ACTIONS
from .mutants import MUTANTS

ROOT = Path(__file__).parent.parent.parent
CHUNK = 250
REACHED = """
add node; break watch; create pods; delete node; delete pod; foreign bind; foreign pod; label node;
label pod; mark pod deleting; open gate; pause; start; deposed: fenced; run twice;
crash; crash after Acquired; crash after Bound; crash after Committed; crash after Listed;
crash after NodeGone; crash after NodeSeen; crash after Relisted; crash after ObjectSeen;
crash after Reported; crash before WriteEvent; crash before PatchStatus; change namespace;
start cold; start warm; start restored;
crash after PodGone; crash after PodSeen; crash after PodShown; crash after Renewed;
crash after Tick; crash after Unknown; crash before Append; crash before BindPod;
crash before ListCluster;
lost Acquire; lost Append; lost BindPod; lost GetPod; lost ListCluster; lost Renew;
late Acquire; late Append; late BindPod; late GetPod; late ListCluster; late Renew;
ghost Acquire; ghost Append; ghost BindPod; ghost GetPod; ghost ListCluster; ghost Renew;
unanswered Acquire; unanswered Append; unanswered BindPod; unanswered GetPod;
record PreemptionDecided; record EvictionSucceeded; record EvictionFailed; record NominationCleared;
lost EvictPod; late EvictPod; ghost EvictPod; unanswered EvictPod;
lost PatchStatus; late PatchStatus; ghost PatchStatus; unanswered PatchStatus;
lost WriteEvent; late WriteEvent; ghost WriteEvent; unanswered WriteEvent;
record ObjectChanged; record ObjectDeleted; record WatchRelisted; record NodeOvercommitted;
unanswered ListCluster; unanswered Renew;
record BindIntended; record BindRetried; record BindVoided; record PodUnreserved; record TimePassed;
record NodeAdded to a free row;
crash among lists; NodeSeen among lists; PodGone among lists; PodSeen among lists;
Relisted among lists; Reported among lists; Unknown among lists
"""
"""Reached in every chunk of seeds: each crash, and each fault of each request."""
RARE = {"crash after Renewed", "start over"}
"""Of these, what the second chunk reaches and the first one does not."""
REACHED_IF_LOSSY = """
fail over; acknowledged and lost; start over; record HistoryLost; crash before TouchPod;
ghost TouchPod; late TouchPod; lost TouchPod; unanswered TouchPod
"""


def names(text: str) -> set[str]:
    """The names in a list."""
    return {name.strip() for name in text.split(";")}


def test_every_fault_has_a_rate_and_must_be_reached() -> None:
    assert ACTIONS.keys() == rates.HAPPENINGS.keys()
    assert ACTIONS.keys() <= names(REACHED) | names(REACHED_IF_LOSSY)


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
@pytest.mark.parametrize("first", [0, CHUNK])
def test_nothing_wrong_happens(first: int, lossy: bool) -> None:
    """In any order of faults."""
    counts, violations = campaign.run(range(first, first + CHUNK), lossy=lossy)
    assert not violations, "\n".join(violations)
    wanted = names(REACHED) | (names(REACHED_IF_LOSSY) if lossy else set())
    wanted -= set() if first else RARE
    assert not {name for name in wanted if not counts[name]}, "the seeds do not reach this"


@pytest.mark.parametrize("mutant", ["bindfirst", "noepoch"])
def test_seeds_catch_gross_defects(mutant: str) -> None:
    """The others are caught by test_scenarios.py."""
    assert campaign.run(range(10), mutant=mutant).violations


def test_a_violation_names_the_command_that_repeats_it() -> None:
    """And its seed and step."""
    [violation, *_] = campaign.run(range(10), mutant="noepoch").violations
    message, command = violation.split("\n")
    assert message.startswith("seed ")
    assert " step " in message
    assert command.split()[:4] == ["python", "-m", "tests.faults", "--from"]
    assert set(MUTANTS) >= {command.split()[-1]}


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--mutant", "noepoch"], 1)])
def test_the_command(options: list[str], code: int) -> None:
    """It prints counts, and its exit code is 1 if an invariant was violated."""
    command = [sys.executable, "-m", "tests.faults", "--seeds", "3", "--from", "7", *options]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=180
    )
    assert done.returncode == code, done.stderr
    assert "3 seeds clean in" in done.stdout
    assert ("python -m tests.faults --from" in done.stdout) == bool(code)
