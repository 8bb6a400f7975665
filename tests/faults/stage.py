"""A world without chance, for scenarios written by hand: faults happen where the script says."""

from eventsched.cluster.messages import ReportPod, Unknown
from eventsched.domain.units import SECOND
from eventsched.runtime.leader.catch_up import FollowedStream
from eventsched.runtime.leader.leader_messages import Request
from tests.builders import make_node, make_pod

from .database import stored_of
from .mutants import Mutant
from .processes import Flight, Process
from .world import MILLISECOND, World

NEVER = 10**18


class Stage(World):
    """A world in which nothing fails by itself. It has one node, n0, of 2 cpu."""

    def __init__(self, mutant: Mutant, seed: int = 0) -> None:
        """``seed`` decides the order of simultaneous events."""
        super().__init__(
            seed,
            make_leader=mutant.make_leader,
            make_followed_stream=mutant.make_followed_stream,
            database=mutant.database,
        )
        self.faults = False
        self._pace = MILLISECOND
        self._held: set[tuple[str, type[Request]]] = set()
        self._lost: set[tuple[str, type[Request]]] = set()
        self._followed_streams: dict[str, FollowedStream] = {}
        for name in list(self.api.nodes):
            self.api.delete_node(name)
        self.api.put_node(make_node("n0", cpu=2000))

    # --- the script -----------------------------------------------------------------------

    def lead(self, name: str) -> Process:
        """Starts a process and lets it become the leader."""
        process = self.start(name)
        process.skew = 0
        self.settle()
        assert process.leader.leading
        return process

    def stand_by(self, name: str, *, snapshot: bool = False) -> None:
        """The process of a name, when it starts, knows the log as it is now: it has followed it, or
        it begins with a snapshot of it."""
        followed_stream = self._make_followed_stream()
        for batch in self.database.batches:
            followed_stream.follow(stored_of(batch), batch.head, batch.mark)
        if snapshot:
            made = followed_stream.snapshot()
            followed_stream = self._make_followed_stream()
            assert followed_stream.restore(made)
        self._followed_streams[name] = followed_stream

    def gap(self, process: Process, resource: str) -> None:
        """A watch has a gap: undelivered events are lost."""
        process.gaps[resource] = None

    def settle(self, seconds: float = 0) -> None:
        """Lets everything happen that can, for some time; also the held back things that were let
        go meanwhile."""
        end = self.now + round(seconds * SECOND)
        while True:
            while self._able():
                self.step()
            if self.now >= end:
                return
            before = self.now
            self._skip_ahead()
            self.now = min(self.now, end) if self.now > before else end

    def hold(self, process: Process, kind: type[Request]) -> None:
        """From now on a process' requests of a kind stay on their way."""
        self._held.add((process.name, kind))

    def lose(self, process: Process, kind: type[Request]) -> None:
        """From now on a process' requests of a kind get lost."""
        self._lost.add((process.name, kind))

    def lose_reports(self) -> None:
        """From now on nobody's reports of a pod arrive: they would change it, and so stop a bind
        that is on its way."""
        self._lost.add(("", ReportPod))

    def release(self) -> None:
        """What is held back arrives, in the order in which it was sent; what is lost no more."""
        self._held.clear()
        self._lost &= {("", ReportPod)}
        for flight in self.flights:
            flight.held_until = 0

    def let_go(self, process: Process, kind: type[Request]) -> None:
        """A process' requests of a kind arrive; the other ones stay held back."""
        self._held.discard((process.name, kind))
        for flight in self.flights:
            if flight.process is process and isinstance(flight.request, kind):
                flight.held_until = 0

    def lose_batches(self, count: int) -> None:
        """The database fails over and lacks its last batches."""
        self.database.fail_over(count)
        self.auditor.history_changed()

    def pod(self, name: str, cpu: int = 2000, priority: int = 0) -> None:
        """A pod of ours comes."""
        self.api.put_pod(make_pod(name, cpu=cpu, memory=0, priority=priority))

    def foreign(self, name: str, cpu: int = 2000) -> None:
        """A foreign pod is on n0; its priority is too high for it to be evicted."""
        self.api.put_pod(
            make_pod(name, cpu=cpu, memory=0, scheduler_name="somebody-else", priority=9)
        )
        self.api.place(name, "n0")

    def finish(self) -> None:
        """The end: whatever is held back arrives, and one leader finishes the work."""
        self.release()
        self._lost.clear()
        self._calm_down()
        self._until_converged()

    # --- how ------------------------------------------------------------------------------

    def _followed_stream(self, name: str) -> FollowedStream:
        return self._followed_streams.pop(name, None) or self._make_followed_stream()

    def _send(self, process: Process, requests: list[Request]) -> None:
        for request in requests:
            key = (process.name, type(request))
            if key in self._lost or ("", type(request)) in self._lost:
                self.tell(process, Unknown(request))
            else:
                held_until = NEVER if key in self._held else 0
                self.flights.append(Flight(process, request, held_until))
