"""How much longer a pod will wait, estimated from the waits of like pods, and how often such
estimates were right.

Like are pods that the same plugins refused. Of their waits those count that lasted at least as long
as the pod has waited. Waits that have not ended are used as Kaplan and Meier do: a wait counts as
possible longer than the time at which it was last seen, so that long waits are not forgotten
because they are not over.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from eventsched.domain.records import PodQueued
from eventsched.eventlog.port import StoredLog, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import uid_key
from eventsched.history.past_state.past_waits import (
    WINDOW,
    PastWait,
    PastWaits,
    PodWait,
    Rejectors,
    WaitScan,
    scanned_waits,
    stored_waits,
)
from eventsched.history.past_state.waiting_pods import WaitingPod

FEWEST = 20
"""The least number of waits on which an estimate rests."""
_LOW, _MEDIAN, _HIGH = 0.1, 0.5, 0.9


@dataclass(frozen=True)
class WaitEstimate:
    """The rest of a wait in µs: its median, and the 10th and 90th percentile (``low``, ``high``).
    None: too few waits ended to say. ``cases`` is the number of waits that it rests on; with fewer
    than FEWEST there is no estimate."""

    cases: int
    low: int | None = None
    median: int | None = None
    high: int | None = None


def estimate(waits: Iterable[PastWait], waited: int) -> WaitEstimate:
    """The estimate for a pod that has ``waited`` (µs), from the waits of like pods."""
    rest = sorted((wait.length - waited, wait.is_over) for wait in waits if wait.length >= waited)
    if len(rest) < FEWEST:
        return WaitEstimate(len(rest))
    times, shares = _survival(rest)

    def quantile(share: float) -> int | None:
        """The first time at which at most 1 - ``share`` of the waits last longer."""
        index = bisect_right([-left for left in shares], -(1 - share) - 1e-9)
        return times[index] if index < len(times) else None

    return WaitEstimate(len(rest), quantile(_LOW), quantile(_MEDIAN), quantile(_HIGH))


def _survival(rest: Sequence[tuple[int, bool]]) -> tuple[list[int], list[float]]:
    """The times at which waits ended, ascending, and the share of waits that last longer (the
    Kaplan-Meier estimator)."""
    times: list[int] = []
    shares: list[float] = []
    left, share = len(rest), 1.0
    for length, group in groupby(rest, key=lambda wait: wait[0]):
        ends = [is_over for _, is_over in group]
        if any(ends):
            share *= 1 - sum(ends) / left
            times.append(length)
            shares.append(share)
        left -= len(ends)
    return times, shares


def estimates(
    asked: Mapping[str, tuple[Rejectors, int | None]], past: PastWaits, now: int
) -> dict[str, WaitEstimate]:
    """The estimates for pods, by uid. ``asked`` has the plugins that refused each, and when (µs) it
    came if the past does not say it; None if that is unknown: there is no estimate then."""
    found = {}
    for uid, (rejectors, added) in asked.items():
        began = past.began.get(uid_key(uid), added)
        if began is not None:
            found[uid] = estimate(past.lengths.get(rejectors, ()), max(0, now - began))
    return found


def wait_estimates(
    log: StoredLog, position: int, now: int, pods: Sequence[WaitingPod]
) -> dict[str, WaitEstimate]:
    """How much longer the pods in the queues will wait, by uid: from the rows of a database, or
    from the records of another log."""
    asked = {
        each.pod_state.pod.uid: (each.pod_state.rejectors, each.added)
        for each in pods
        if each.pod_state.queue is not None
    }
    if not asked:
        return {}
    if isinstance(log, Reader):
        keys = {rejectors for rejectors, _ in asked.values()}
        past = stored_waits(log, position, now, keys, list(map(uid_key, asked)))
    else:
        past = scanned_waits(log.read(max(0, position - WINDOW)), position, now)
    return estimates(asked, past, now)


@dataclass
class EstimateErrors:
    """How the estimates that were made all along a history turned out. ``inside`` counts real waits
    between the 10th and the 90th percentile, ``below`` and ``above`` the others; ``unknown`` those
    whose end the history does not have, ``missing`` pods without an estimate. ``errors`` are the
    distances (µs) of the real rest from its median."""

    inside: int = 0
    below: int = 0
    above: int = 0
    unknown: int = 0
    missing: int = 0
    errors: list[int] = field(default_factory=list)

    @property
    def share_inside(self) -> float:
        """The share of real waits within the interval, of those that are known."""
        return self.inside / max(1, self.inside + self.below + self.above)

    def take(self, guess: WaitEstimate, rest: PastWait) -> None:
        """Compares an estimate with the real rest of the wait."""
        if guess.low is None or guess.median is None:
            self.missing += 1
        elif guess.high is not None and rest.length > guess.high:
            self.above += 1
        elif not rest.is_over:
            self.unknown += 1
        elif rest.length < guess.low:
            self.below += 1
        else:
            self.inside += 1
        if rest.is_over and guess.median is not None:
            self.errors.append(abs(rest.length - guess.median))


def backtest(log: Sequence[StoredRecord], every: int) -> EstimateErrors:
    """Estimates along a history, after each ``every`` records, how much longer each pod that waits
    will wait, from what was before, and compares it with what came after."""
    whole, scan, found = WaitScan(), WaitScan(), EstimateErrors()
    lives: dict[tuple[str, int], PodWait] = {}
    for stored in log:
        whole.take(stored)
        if isinstance(stored.record, PodQueued) and stored.record.uid in whole.pods:
            wait = whole.pods[stored.record.uid]
            lives[stored.record.uid, wait.began] = wait
    end = log[-1].at
    for number, stored in enumerate(log, 1):
        scan.take(stored)
        if number % every:
            continue
        now, past = stored.at, scan.past_waits(stored.at)
        for uid, wait in scan.waiting().items():
            waited = now - wait.began
            real = lives[uid, wait.began].until(end)
            rest = PastWait(real.length - waited, real.is_over)
            found.take(estimate(past.lengths.get(wait.rejectors, ()), waited), rest)
    return found
