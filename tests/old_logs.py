"""The logs of older versions in tests/histories: what a replay of each tolerates, and what
``explain`` says about some of their pods, as golden texts.

    python -m tests.old_logs      # rewrites tests/histories/*.explained.txt

A change of the words is fine: rewrite them and read what has changed. What they say about an old
log has to stay true.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from eventsched.domain.records import PodAdded
from eventsched.history.explain.evidence import ScannedEvidence
from eventsched.history.explain.explanation import explain
from eventsched.history.export_reader import FileLog
from eventsched.output.explain_output import story_text
from tests.databases import ROOT

HISTORIES = ROOT / "tests/histories"
TOLERATED: dict[str, dict[str, int]] = {
    "0.1-cluster": {},
    "0.1-defaults": {},
    "0.1-edges": {"escaped-nul": 2, "edges-of-int64": 15},
    "0.1-extender-server": {},
    "0.1-extenders": {},
    "0.1-gallery": {},
    "0.1-generated": {},
    "0.1-importance": {},
    "0.1-live": {},
    "0.1-nul": {"escaped-nul": 2},
    "0.1-resumed": {},
}
"""Log → the known differences that its replay needs, with the number of steps."""
UNRELEASED = {"0.1", "0.1-mixed"}
"""Logs from before 0.1, which 0.1 itself did not decide again alike: read, verified, explained."""
GOLDEN: dict[str, tuple[str, ...]] = {
    "0.1-cluster": ("default/gated", "batch/tolerant"),
    "0.1-edges": ("default/sum",),
    "0.1-defaults": (
        "batch/preempts", "batch/never-preempts", "batch/device", "shop/web-2", "shop/uses-local",
        "shop/uses-made", "shop/uses-missing",
    ),
    "0.1-gallery": (
        "default/fits-0", "default/large-0", "default/few-0", "default/web-7f7bb8f449-bbbbb",
        "default/never", "default/four-gpus",
    ),
    "0.1-importance": ("default/p03", "default/p20"),
    "0.1-resumed": ("default/pod-000017",),
    "0.1-extenders": ("unbindable", "refused", "managed", "urgent"),
    "0.1-extender-server": ("one", "important", "nowhere"),
    "0.1-live": (
        "db-0", "filler-a", "filler-b", "urgent", "nowhere", "no-claim", "gated", "unseen",
        "bound-twice", "gang-0", "short",
    ),
}  # fmt: skip
"""Log → pods; a name without its namespace is unique in its log."""


class Explained:
    """A log, of which pods can be asked. ``end`` is the time (µs) of its last record."""

    def __init__(self, path: Path) -> None:
        self._log = FileLog(path)
        self.evidence = ScannedEvidence(self._log, self._log.stream)
        self.pods: dict[str, str] = {}
        """Uid → namespace/name."""
        for each in self._log.read():
            self.end = each.at
            if isinstance(record := each.record, PodAdded):
                self.pods[record.pod.uid] = record.pod.full_name

    def text(self, pod: str) -> str:
        """What people read of it, a minute after the end of the log."""
        return story_text(explain(self.evidence, pod), self.end + 60_000_000)


def golden(name: str) -> Path:
    """The file with a log's texts."""
    return HISTORIES / f"{name}.explained.txt"


def written(name: str) -> Iterator[str]:
    """The parts of that file, made now: a command and what it prints."""
    log = Explained(HISTORIES / f"{name}.jsonl.gz")
    for pod in GOLDEN[name]:
        yield f"$ eventsched explain {pod} --file {name}.jsonl.gz\n{log.text(pod)}\n\n"


def parts(text: str) -> list[str]:
    """The parts of such a file."""
    return re.split(r"^(?=\$ eventsched )", text, flags=re.MULTILINE)[1:]


if __name__ == "__main__":
    for each in GOLDEN:
        golden(each).write_text("".join(written(each)))
