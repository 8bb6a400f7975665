"""A world with extenders: servers that are slow, refuse nodes, lie, fail and die."""

from collections.abc import Callable
from random import Random

from eventsched.cluster.messages import CallExtender, ExtenderReply
from eventsched.domain import records
from eventsched.domain.nodes.row_ranges import rows_of
from eventsched.domain.records.extender_records import FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.units import SECOND
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader_messages import Message
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework.extender import EXTENDER, Extender
from eventsched.scheduling.queueing.queue_index import Backoff

from . import cluster
from .invariants import Auditor, ensure
from .processes import Flight, MakeLeader, Process, ordinary_leader
from .world import World

STRICT = Extender(
    0, "http://strict", filters=True, prioritizes=True, preempts=True, weight=2
)  # fmt: skip
LAX = Extender(1, "http://lax", filters=True, preempts=True, ignorable=True)


def engine() -> Engine:
    """A fresh engine."""
    return Engine(cluster._profiles(), Backoff(1, 4), extenders=(STRICT, LAX))


def followed_stream() -> FollowedStream:
    """A FollowedStream that has read nothing yet."""
    return FollowedStream(engine, cluster.STREAM)


class Server:
    """Answers for both extenders. Once ``reliable`` is set, all answers are good."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.reliable = False

    def answer(self, request: CallExtender) -> ExtenderReply:
        """An answer: good, bad or none."""
        if not self.reliable and self.rng.random() < 0.15:
            return ExtenderReply(request, problem="connection refused")
        lies = not self.reliable and self.rng.random() < 0.1
        answers: dict[str, Callable[[CallExtender, bool], ExtenderReply]] = {
            FILTER: self._filter, PRIORITIZE: self._prioritize, PREEMPT: self._preempt,
        }  # fmt: skip
        return answers[request.verb](request, lies)

    def _filter(self, request: CallExtender, lies: bool) -> ExtenderReply:
        draws = {name: self.rng.random() if not self.reliable else 1.0 for name in request.nodes}
        return ExtenderReply(
            request,
            passed=(
                *[n for n, draw in draws.items() if draw > 0.3],
                *(["nowhere"] if lies else []),
            ),
            failed={n: "busy" for n, draw in draws.items() if 0.1 < draw < 0.35},
            unresolvable={n: "broken" for n, draw in draws.items() if 0.05 < draw < 0.15},
        )

    def _prioritize(self, request: CallExtender, lies: bool) -> ExtenderReply:
        top = 99 if lies else 10
        scores = tuple((name, self.rng.randint(0, top)) for name in request.nodes)
        return ExtenderReply(request, scores=scores)

    def _preempt(self, request: CallExtender, lies: bool) -> ExtenderReply:
        victims = {
            n: v for n, v in request.candidates.items() if self.reliable or self.rng.random() < 0.8
        }
        if lies:
            victims = {n: type(v)(uids=("missing",)) for n, v in victims.items()}
        return ExtenderReply(request, victims=victims)


class ConsultingAuditor(Auditor):
    """Also checks the questions to extenders."""

    make_engine = staticmethod(engine)

    def _begin(self) -> None:
        super()._begin()
        self._asked: set[tuple[str, int, int, str]] = getattr(self, "_asked", set())
        """All questions that were ever committed."""

    def _take(self, logged: LogEntry) -> None:
        record = logged.record
        if isinstance(record, records.ExtenderAsked):
            current = self.engine.state.consultation
            is_only = current is None or (current.uid == record.uid and not current.question)
            ensure(is_only, f"two attempts ask at {logged.position}")
            self._asked.add((record.uid, record.attempt, record.extender, record.verb))
        if isinstance(record, records.PodDecided) and record.node:
            self._check_that_it_passed(record)
        super()._take(logged)

    def _check_that_it_passed(self, decided: records.PodDecided) -> None:
        answers = self.engine.state.consultation
        for asked, answered in zip(answers.asked, answers.answered, strict=True) if answers else ():
            if asked.verb != FILTER or answered.problem:
                continue
            ensure(decided.row in rows_of(asked.nodes), f"{decided.node} was not asked about")
            for rows in (*answered.failed.values(), *answered.unresolvable.values()):
                ensure(decided.row not in rows_of(rows), f"{decided.node} was refused")

    def consulted(self, request: CallExtender) -> None:
        """A question has arrived: it must have been committed."""
        known = (request.uid, request.attempt, request.extender, request.verb) in self._asked
        ensure(known, f"{request.verb} is asked for {request.uid}, but no record was committed")


class ConsultingWorld(World):
    """A world with extenders."""

    audited_by = ConsultingAuditor
    auditor: ConsultingAuditor

    def __init__(
        self, seed: int, *, lossy: bool = False, make_leader: MakeLeader = ordinary_leader
    ) -> None:
        super().__init__(
            seed, lossy=lossy, make_leader=make_leader, make_followed_stream=followed_stream
        )
        self.extenders = Server(self.rng)

    def _carry_out(self, flight: Flight) -> Message | None:
        request = flight.request
        if not isinstance(request, CallExtender):
            return super()._carry_out(flight)
        self.auditor.consulted(request)
        answer = self.extenders.answer(request)
        outcome = "problem" if answer.problem else "answer"
        self.counts[f"{request.verb} {outcome}"] += 1
        if self.faults and self.rng.random() < 0.1:  # the answer is delayed
            flight.held_until = self.now + self.rng.randint(0, 4 * SECOND)
        return answer

    def _calm_down(self) -> None:
        super()._calm_down()
        self.extenders.reliable = True

    def _is_done(self, process: Process) -> bool:
        state = process.leader.engine.state
        refused = any(pod.queue and EXTENDER in pod.rejectors for pod in state.pods.values())
        return super()._is_done(process) and not refused and state.consultation is None
