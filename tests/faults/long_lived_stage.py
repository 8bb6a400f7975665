"""The world of long-lived logs without randomness, for scripted scenarios."""

from dataclasses import replace

from eventsched.domain.units import SECOND
from eventsched.runtime.leader.leader_messages import Message, Request, StoreSnapshot
from tests.builders import make_node, make_pod

from .long_lived import NEVER, KilledError, LivingProcess, LongLivedMutant, LongLivedWorld
from .processes import Flight, Process


class LongLivedStage(LongLivedWorld):
    """A world in which nothing fails by itself. It has one node, n0."""

    def __init__(self, mutant: LongLivedMutant, *, needs_archive: bool = False) -> None:
        super().__init__(0 if needs_archive else 1, mutant=mutant)
        self.faults = False
        self.is_room_made = True
        """Whether an operator makes room on a full disk."""
        self.keeps_snapshots = True
        self.held: set[type[Request]] = set()
        """Requests that stay in flight."""
        self.dies_at = -1
        """The archiver's step before which it dies."""
        for name in list(self.api.nodes):
            self.api.delete_node(name)
        self.api.put_node(make_node("n0", cpu=2000))

    def require_archive(self) -> None:
        """Only what is archived may be dropped."""
        self.retention = replace(self.retention, needs_archive=True)
        self.auditor.watch(self.folder, needs_archive=True)

    def lead(self, name: str) -> LivingProcess:
        """Starts a process and lets it become the leader."""
        process = self.start(name)
        process.skew = 0
        self.settle()
        assert process.leader.leading
        assert isinstance(process, LivingProcess)
        return process

    def settle(self, seconds: float = 0) -> None:
        """Executes all possible events for ``seconds`` of simulated time."""
        end = self.now + round(seconds * SECOND)
        while True:
            while self._able():
                self.step()
            if self.now >= end:
                return
            before = self.now
            self._skip_ahead()
            self.now = min(self.now, end) if self.now > before else end

    def write(self, records: int) -> None:
        """Creates and deletes pods until the log has grown by this number of records."""
        end = self.database.head.next + records
        while self.database.head.next < end:
            self.born += 1
            uid = f"p{self.born}"
            self.api.put_pod(make_pod(uid, cpu=100, memory=0))
            self.settle()
            self.api.delete_pod(uid)
            self.settle()

    def finish(self) -> None:
        """Ends the scenario: one leader finishes the work, also that of housekeeping."""
        self.database.room = None
        self.dies_at = -1
        self.release()
        self._calm_down()
        self._until_converged()

    # --- the parts of the world that are scripted -----------------------------------------

    def _send(self, process: Process, requests: list[Request]) -> None:
        count = len(self.flights)
        super()._send(process, requests)
        for flight in self.flights[count:]:
            if type(flight.request) in self.held:
                flight.held_until = NEVER

    def release(self) -> None:
        """Delivers the requests that were held back."""
        self.held = set()
        for flight in self.flights:
            flight.held_until = 0

    def _is_time_up(self) -> bool:
        return False

    def _at_archive_step(self) -> None:
        self.dies_at -= 1
        if self.dies_at == -1:
            raise KilledError

    def _carry_out(self, flight: Flight) -> Message | None:
        if isinstance(flight.request, StoreSnapshot) and not self.keeps_snapshots:
            return None
        return super()._carry_out(flight)

    def _will_be_dropped(self) -> bool:
        return not self.is_room_made or super()._will_be_dropped()
