"""A world in which another scheduler uses eventsched as its extender: it filters, prioritizes and
binds its pods, times out and asks again, while leaders change."""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from eventsched.cluster.extenders.served_requests import ExtenderRequest
from eventsched.domain.nodes.row_ranges import rows_of
from eventsched.domain.records import ExtenderInquired, ExtenderReplied
from eventsched.domain.records.extender_records import BIND, FILTER, PRIORITIZE
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.stimuli import SERVES
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.process.extenders.extender_server_requests import Names, inquiry
from eventsched.runtime.effects.replies import Replies
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.scheduling import seen_stimuli
from tests.builders import PROFILE

from . import cluster
from .apiserver import ApiServer
from .expected_reports import ExpectedReports
from .invariants import Auditor, ensure
from .processes import Process
from .world import World

MILLISECOND, SECOND = 1_000, 1_000_000
OPENING = msgspec.structs.replace(cluster.OPENING, inputs={SERVES: PROFILE})
LIMITS = cluster.LIMITS._replace(linger=20 * MILLISECOND)
MOST = 3
"""Open questions at a time: a pod is bound while the next one is filtered."""
ANSWER_TIMEOUT = 4 * SECOND


class Answering(Leader):
    """A leader. ``sent`` are the replies that it has sent."""

    def __init__(self, followed_stream: FollowedStream) -> None:
        self.sent: list[ExtenderReplied] = []
        self._replies = Replies()
        super().__init__(followed_stream, OPENING, LIMITS, self._send_replies)

    def _send_replies(self, committed: Sequence[LogEntry]) -> None:
        self.sent += self._replies.on_records(committed)


class Question(msgspec.Struct):
    """An open question to ``process``. ``version`` is the API server's resourceVersion if the
    process had seen all events up to it, else -1."""

    process: Process
    asked: ExtenderInquired
    until: int
    version: int


class Silent(ExpectedReports):
    """Expects no Event or condition: the scheduler that calls us reports them."""

    def missing(self, state: SchedulerState, api: ApiServer) -> str:
        """See the class."""
        return f"it reports {api.events} {api.conditions}" if api.events or api.conditions else ""


class ServingAuditor(Auditor):
    """Also checks answers. It does not check the room on nodes, because it cannot know what the
    calling scheduler knew when it chose."""

    expected_reports = Silent

    def _begin(self) -> None:
        super()._begin()
        self._replied: set[tuple[int, str, str]] = getattr(self, "_replied", set())
        """All replies that were ever committed."""

    def _take(self, logged: LogEntry) -> None:
        record = logged.record
        if isinstance(record, ExtenderReplied):
            self._replied.add((record.number, record.uid, record.verb))
            ensure(logged.cause == logged.position - 1, "a reply is not in its question's step")
        super()._take(logged)

    def _check_load(self, uid: str, node: str, barrier: int) -> None:
        pass

    def answered(self, reply: ExtenderReplied) -> None:
        """A reply was sent: it must have been committed. If it confirms a bind, the pod must be on
        the node."""
        known = (reply.number, reply.uid, reply.verb) in self._replied
        ensure(known, f"{reply.verb} of {reply.uid} is answered, but nothing was committed")
        if reply.verb == BIND and not reply.problem:
            there = self._api.was_placed(reply.uid, reply.node)
            ensure(there, f"{reply.uid} is said to be on {reply.node}")


class ServingWorld(World):
    """A world with a scheduler that calls us. Requests name rows, so these need their rest."""

    row_rests = (seen_stimuli.ROW_REST,) * 3
    audited_by = ServingAuditor
    auditor: ServingAuditor

    def __init__(
        self,
        seed: int,
        *,
        lossy: bool = False,
        make_leader: Callable[[FollowedStream], Answering] = Answering,
    ) -> None:
        super().__init__(seed, lossy=lossy, make_leader=make_leader)
        self.questions: dict[str, Question] = {}
        self.refused: dict[str, int] = {}
        """Pods that fitted on no node, with the API server's resourceVersion at that time."""
        self._numbers: Counter[int] = Counter()
        self._names = Names()

    # --- asking ---------------------------------------------------------------------------

    def step(self) -> None:
        """Executes one event; replies that were sent are received or lost."""
        super().step()
        for uid, question in list(self.questions.items()):
            self._hear(uid, question)
        if len(self.questions) < MOST and self.rng.random() < 0.3:
            self._begin_with_one()

    def _begin_with_one(self) -> None:
        waiting = [uid for uid in self._candidates() if uid not in self.questions]
        if waiting:
            uid = waiting[self.rng.randrange(len(waiting))]
            self._ask(uid, ExtenderRequest(FILTER, uid, nodes=sorted(self.api.nodes)))

    def _candidates(self) -> list[str]:
        """Pods to schedule."""
        return [
            uid
            for uid, seen in self.api.pods.items()
            if cluster.is_to_be_bound(seen.pod) and self.refused.get(uid) != self.api.version
        ]

    def _ask(self, uid: str, asked: ExtenderRequest) -> None:
        """Asks a random process; one that does not lead refuses."""
        self.questions.pop(uid, None)
        alive = [process for process in self.processes.values() if process.paused_until <= self.now]
        process = alive[self.rng.randrange(len(alive))] if alive else None
        if process is None or not process.leader.leading:
            self.counts["no leader"] += 1
            return
        if not process.leader.engine.state.pods.get(uid):
            self.counts["not seen yet"] += 1  # the whole pod would be sent; other tests cover that
            return
        self._numbers[process.number] += 1
        number = self._numbers[process.number]
        question = inquiry(asked, number, process.leader.engine.state, self._names)
        self.counts[f"asked {asked.verb}"] += 1
        seen = {name: len(history) for name, history in self.api.histories.items()}
        version = self.api.version if process.cursors == seen and not process.gaps else -1
        self.questions[uid] = Question(process, question, self.now + ANSWER_TIMEOUT, version)
        self.deliver(process, question)

    # --- answers --------------------------------------------------------------------------

    def _hear(self, uid: str, question: Question) -> None:
        asked, leader = question.asked, question.process.leader
        assert isinstance(leader, Answering)
        reply = next((reply for reply in leader.sent if reply.number == asked.number), None)
        if reply is None:
            if not question.process.alive or self.now > question.until:
                self.counts[f"unanswered {asked.verb}"] += 1
                del self.questions[uid]
            return
        del self.questions[uid]
        self.auditor.answered(reply)
        self.counts[f"answered {asked.verb}" + (": no" if reply.problem else "")] += 1
        if self._happens("lose answer"):
            self.counts["swallowed"] += 1
        elif not reply.problem:
            self._go_on(question, reply, leader.engine.state.nodes.names)

    def _go_on(self, question: Question, reply: ExtenderReplied, names: list[str]) -> None:
        asked, uid = question.asked, question.asked.uid
        if asked.verb == FILTER:
            refusals = {*reply.failed.values(), *reply.unresolvable.values()}
            refused = {row for text in refusals for row in rows_of(text).tolist()}
            left = [names[row] for row in rows_of(asked.nodes).tolist() if row not in refused]
            if left:
                self._ask(uid, ExtenderRequest(PRIORITIZE, uid, nodes=left))
            else:
                self.refused[uid] = question.version
        elif asked.verb == PRIORITIZE:
            best = rows_of(max(reply.scores, default=(0, asked.nodes))[1]).tolist()
            if not best:
                self.counts["all nodes gone"] += 1
                return
            choice = Random(f"{uid} {self.steps}").choice(best)
            self._ask(uid, ExtenderRequest(BIND, uid, node=names[choice]))

    # --- the end --------------------------------------------------------------------------

    def _is_done(self, process: Process) -> bool:
        return super()._is_done(process) and not self.questions and not self._candidates()
