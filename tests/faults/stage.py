"""A world without randomness, for scripted scenarios: faults happen when the script says so."""

from eventsched.cluster.messages import PatchStatus, Unknown
from eventsched.domain.units import SECOND
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader_messages import Request
from tests.builders import make_node, make_pod

from .database import stored_of
from .mutants import Mutant
from .processes import Flight, Process
from .world import MILLISECOND, World

NEVER = 10**18


class Stage(World):
    """A world in which nothing fails by itself. It has one node, n0, with 2 cpu."""

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
        """When the process ``name`` starts, it will know the log as it is now: it has followed it,
        or it starts from a snapshot of it."""
        followed_stream = self._make_followed_stream()
        for batch in self.database.batches:
            followed_stream.follow(stored_of(batch), batch.head, batch.mark)
        if snapshot:
            stored = followed_stream.snapshot()
            followed_stream = self._make_followed_stream()
            stream_state = followed_stream.load_snapshot(stored)
            assert stream_state is not None
            followed_stream.begin(stream_state)
        self._followed_streams[name] = followed_stream

    def watch(self, process: Process, resource: str) -> None:
        """Delivers the next event of one of a process's watches."""
        self._watch(process, resource)

    def gap(self, process: Process, resource: str) -> None:
        """A watch has a gap: undelivered events are lost."""
        process.gaps[resource] = None

    def settle(self, seconds: float = 0) -> None:
        """Executes all possible events for ``seconds`` of simulated time, including requests that
        are released meanwhile."""
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
        """From now on, requests of a kind by a process stay in flight."""
        self._held.add((process.name, kind))

    def lose(self, process: Process, kind: type[Request]) -> None:
        """From now on, requests of a kind by a process are lost."""
        self._lost.add((process.name, kind))

    def lose_reports(self) -> None:
        """From now on, the pod reports of all processes are lost. Otherwise they would change the
        pod, and a bind in flight would be refused."""
        self._lost.add(("", PatchStatus))

    def release(self) -> None:
        """Delivers the requests held back, in order, and stops losing requests (except reports)."""
        self._held.clear()
        self._lost &= {("", PatchStatus)}
        for flight in self.flights:
            flight.held_until = 0

    def let_go(self, process: Process, kind: type[Request]) -> None:
        """Delivers the requests of a kind by a process; others stay held back."""
        self._held.discard((process.name, kind))
        for flight in self.flights:
            if flight.process is process and isinstance(flight.request, kind):
                flight.held_until = 0

    def lose_batches(self, count: int) -> None:
        """The database fails over and loses its last batches."""
        self.database.fail_over(count)
        self.auditor.history_changed()

    def pod(self, name: str, cpu: int = 2000, priority: int = 0) -> None:
        """Creates a pod for our scheduler."""
        self.api.put_pod(make_pod(name, cpu=cpu, memory=0, priority=priority))

    def foreign(self, name: str, cpu: int = 2000) -> None:
        """Places a foreign pod on n0, with a priority too high for it to be evicted."""
        self.api.put_pod(
            make_pod(name, cpu=cpu, memory=0, scheduler_name="somebody-else", priority=9)
        )
        self.api.place(name, "n0")

    def finish(self) -> None:
        """Ends the scenario: all requests arrive, and one leader finishes the work."""
        self.release()
        self._lost.clear()
        self._calm_down()
        self._until_converged()

    # --- the parts of World that are scripted ---------------------------------------------

    def _is_time_up(self) -> bool:
        return True

    def _followed_stream(self, name: str) -> FollowedStream:
        return self._followed_streams.pop(name, None) or self._make_followed_stream()

    def _send(self, process: Process, requests: list[Request]) -> None:
        for request in requests:
            key = (process.name, type(request))
            if key in self._lost or ("", type(request)) in self._lost:
                self.deliver(process, Unknown(request))
            else:
                held_until = NEVER if key in self._held else 0
                self.flights.append(Flight(process, request, held_until))
