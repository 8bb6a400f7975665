"""A leader of a stream: the loop of a live scheduler, without its input and output.

``handle`` takes a message (runtime/messages.py) and returns the requests that follow; whoever
drives it carries them out, tells the time, and does nothing else. A term goes through

    Acquire ─▶ fold the log ─▶ ListCluster (and after lost history: touch, and list again)
            ─▶ differences, open intents ─▶ leading: observe, attempt, append, bind ─▶ stopped

At most one batch is under way, and the next one is computed meanwhile. Binds leave when the batch
that intends them is committed. A leader that is deposed stops for good and its state is dropped;
the next term begins with a new leader and the log.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import count

import msgspec

from eventsched.domain import records
from eventsched.domain.records import Stimulus, StreamStarted
from eventsched.eventlog import chain
from eventsched.eventlog.chain import SealedBatch, Term
from eventsched.runtime import takeover
from eventsched.runtime.evictions import Evictions
from eventsched.runtime.intents import Intents
from eventsched.runtime.messages import (
    Acquire,
    Acquired,
    Append,
    BindPod,
    Bound,
    Committed,
    Deposed,
    EvictPod,
    GetPod,
    ListCluster,
    Listed,
    Message,
    NodeGone,
    NodeSeen,
    PodAbsent,
    PodAnswer,
    PodGone,
    PodRequest,
    PodSeen,
    PodShown,
    Renew,
    Renewed,
    Request,
    Tick,
    TouchPod,
    Unknown,
    WatchBroken,
)
from eventsched.runtime.sight import Sight
from eventsched.runtime.writer import Pending, Writer
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.ledger import Logged

SECOND = 1_000_000
HEARTBEAT = 2 * SECOND
"""Microseconds without a commit after which a leader asks whether it still is the leader: without
that an idle one would never learn that it was replaced (ruling R7)."""
PATIENCE = SECOND // 5
"""Microseconds before a request whose outcome is not known is followed up."""


class Leader:
    """One term, from its acquisition to its end. ``stopped`` says why it is over, "" while it is
    not; ``leading`` whether attempts are made; ``engine`` holds the state, to be read."""

    def __init__(self, engine: Engine, opening: StreamStarted, *, batch_size: int = 256) -> None:
        """``engine`` is a fresh one. ``opening`` becomes the first record of a stream that has
        none. A batch is closed at ``batch_size`` records, or when nothing is under way."""
        self.engine = engine
        self.stopped = ""
        self.leading = False
        self._opening = opening
        self._batch_size = batch_size
        self._out: list[Request] = []
        self._now = 0
        self._ahead = 0
        self._order = count()
        self._later: list[tuple[int, int, Request]] = []
        self._nodes, self._pods = Sight(), Sight()
        self._writer = Writer(engine.state, batch_size=batch_size)
        self._under_way: tuple[SealedBatch, Pending] | None = None
        self._listing = False
        self._renewing = False
        self._renew_at = 0
        self._fence: takeover.Fence | None = None

    def start(self) -> list[Request]:
        """The first request."""
        return [Acquire()]

    def handle(self, message: Message, now: int) -> list[Request]:
        """Takes in a message and returns what is to be requested. ``now`` (µs since 1970) does not
        go back in the life of a leader. Raises ValueError for a log that does not end where its
        head says, and KeyError for one that does not fit together."""
        if self.stopped:
            return []
        self._now = now + self._ahead
        self._receive(message)
        if self.leading and not self.stopped:
            self._work()
        out, self._out = self._out, []
        return [] if self.stopped else out

    @property
    def wake_at(self) -> int | None:
        """When (µs) a ``Tick`` is due, whatever else happens; None where none is."""
        times = [self._later[0][0]] if self._later else []
        if self.leading:
            times += [t for t in (self.engine.due, self.engine.flush_due) if t is not None]
            if self._under_way is None and not self._renewing:
                times.append(self._renew_at)
        return None if self.stopped or not times else min(times) - self._ahead

    @property
    def settled(self) -> bool:
        """Whether everything that was observed and decided is known to be committed."""
        return self.leading and self.engine.position == self._head.next

    @property
    def term(self) -> Term:
        """The term; there is one from ``Acquired`` on."""
        return self._term

    def _receive(self, message: Message) -> None:
        match message:
            case Acquired():
                self._acquired(message)
            case Listed():
                self._listed(message)
            case Committed():
                self._committed()
            case Renewed():
                self._renewing, self._renew_at = False, self._now + HEARTBEAT
            case Deposed():
                self.stopped, self.leading = message.reason, False
            case PodSeen() | PodGone() | NodeSeen() | NodeGone():
                if self.leading:
                    self._watched(message)
            case WatchBroken():
                if self.leading and not self._listing:
                    self._list()
            case Bound() | PodShown() | PodAbsent():
                self._answered(message)
            case Unknown():
                self._unanswered(message.request)
            case Tick():
                self._follow_up()

    # --- takeover -------------------------------------------------------------------------

    def _acquired(self, acquired: Acquired) -> None:
        """The term has begun: the log becomes the state. The engine's time never goes back, so
        where an earlier leader's clock was ahead, ours is put forward."""
        self._is_first, self._timeline = not acquired.records, acquired.timeline
        self._term, self._head = acquired.term, acquired.head
        self._intents = self._new_intents()
        self._evictions = Evictions(self.engine.state, self._term.stream)
        for stored in acquired.records:
            logged = stored.logged
            self.engine.apply(logged)
            self._intents.follow([logged])
            self._evictions.follow([logged])
        if self.engine.position != acquired.head.next:
            raise ValueError(
                f"the log has {self.engine.position} records, its head says {acquired.head.next}"
            )
        self._ahead = max(0, self.engine.state.now - self._now)
        self._now += self._ahead
        self._renew_at = self._now + HEARTBEAT
        self._list()

    def _new_intents(self) -> Intents:
        return Intents(self.engine.state, self._pods, self._term.stream)

    @property
    def lossy(self) -> bool:
        """Whether committed records may be missing, and that is not dealt with yet."""
        return not self._is_first and self.engine.state.timeline != self._timeline

    def _list(self) -> None:
        self._listing = True
        self._out.append(ListCluster())

    def _listed(self, listed: Listed) -> None:
        self._listing = False
        if self.leading:
            self._take_in(listed)
        elif self.lossy and self._fence is None:
            self._begin_fence(listed)
        else:
            self._begin(listed)

    def _begin_fence(self, listed: Listed) -> None:
        self._fence = takeover.Fence(listed)
        self._out += self._fence.requests
        if not self._fence.requests:
            self._begin(listed)

    def _begin(self, listed: Listed) -> None:
        """The barrier: what the cluster has is known; what the log promises is kept or void."""
        if self._is_first:
            self._observe(msgspec.structs.replace(self._opening, timeline=self._timeline))
        token = self._term.token.hex()[:8]
        self._observe(records.TermBegan(epoch=self._term.epoch, token=token))
        self._take_in(listed)
        if self.lossy:
            self._void_all()
            self._observe(records.HistoryLost(timeline=self._timeline))
        else:
            self._resume()
        self.leading = True

    def _take_in(self, listed: Listed) -> None:
        for each in takeover.differences(self.engine.state, listed, self._nodes, self._pods):
            self._observe(each)

    def _resume(self) -> None:
        """After a clean takeover the promises are kept, but where the room has been taken."""
        intents = self._intents.open()
        for uid in list(self.engine.state.reservations):
            crowded = takeover.is_crowded(self.engine.state, uid)
            if uid not in intents:  # it waits at Permit: nothing was sent
                if crowded:
                    self._observe(takeover.void(self.engine.state, uid, "the node is full"))
            elif crowded:
                self._do(self._intents.give_up(uid, intents[uid], "the node is full"))
            else:
                self._do(self._intents.retry(uid, intents[uid], self._pods.version(uid)))
        for uid in self._evictions.open():
            self._do(self._evictions.evict(uid))

    def _void_all(self) -> None:
        """After lost history no promise counts: all pods have been touched."""
        for uid in list(self.engine.state.reservations):
            version = self._pods.version(uid)
            self._observe(takeover.void(self.engine.state, uid, takeover.LOST, version))
        for uid in self._evictions.open():
            self._observe(self._evictions.void(uid, takeover.LOST))

    # --- work -----------------------------------------------------------------------------

    def _work(self) -> None:
        """Timers, attempts until the batch is full, the batch, the heartbeat."""
        timers = (self.engine.due, self.engine.flush_due)
        if any(due is not None and due <= self._now for due in timers):
            self._observe(records.TimePassed())
        while not self._writer.full and (logged := self.engine.schedule_next()):
            self._take(logged)
        if self._under_way is None:
            self._append()
        self._heartbeat()

    def _heartbeat(self) -> None:
        idle = self._under_way is None and not self._renewing
        if idle and self._renew_at <= self._now:
            self._renewing = True
            self._out.append(Renew(self._term))

    def _append(self) -> None:
        pending = self._writer.close(self._mark())
        if pending is not None:
            sealed = chain.seal(pending.batch, self._term, self._head, self._now - self._ahead)
            self._under_way = sealed, pending
            self._out.append(Append(sealed))

    def _mark(self) -> bytes:
        """How far the watches had been read when the batch was closed."""
        return b'{"nodes":%d,"pods":%d}' % (self._nodes.upto, self._pods.upto)

    def _committed(self) -> None:
        assert self._under_way is not None
        (sealed, pending), self._under_way = self._under_way, None
        self._head, self._renew_at = sealed.head, self._now + HEARTBEAT
        for effect, _ in pending.effects:
            if isinstance(effect, records.Evict):
                self._do(self._evictions.evict(effect.uid))
            else:
                self._do(self._intents.committed(effect.uid))

    # --- the cluster ----------------------------------------------------------------------

    def _watched(self, event: PodSeen | PodGone | NodeSeen | NodeGone) -> None:
        match event:
            case PodSeen(pod=pod, resource_version=version):
                if self._pods.watched(pod.uid, version):
                    self._observe(records.PodUpdated(pod=pod))
            case PodGone(uid=uid, resource_version=version):
                if self._pods.vanished(uid, version):
                    self._observe(records.PodDeleted(uid=uid))
            case NodeSeen(node=node, resource_version=version):
                if self._nodes.watched(node.name, version):
                    self._observe(records.NodeUpdated(node=node))
            case NodeGone(name=name, resource_version=version):
                if self._nodes.vanished(name, version):
                    self._observe(records.NodeDeleted(name=name))

    def _answered(self, answer: PodAnswer) -> None:
        if not self.leading:
            if self._fence is not None:
                self._fence.answered(answer)
                if not self._fence.requests and not self._listing:
                    self._list()
            return
        if isinstance(answer.request, EvictPod):
            self._do(self._evictions.answered(answer))
        match answer:
            case PodShown(seen=seen):
                # A pod that the watch saw the end of meanwhile is not brought back.
                known = seen.pod.uid in self.engine.state.pods
                if known and self._pods.answered(seen.pod.uid, seen.resource_version):
                    self._observe(records.PodUpdated(pod=seen.pod))
            case PodAbsent(request=request):
                self._pods.absent(request.uid)
                self._observe(records.PodDeleted(uid=request.uid))
        if not isinstance(answer.request, EvictPod):
            self._do(self._intents.answered(answer))

    # --- what was not answered ------------------------------------------------------------

    def _unanswered(self, request: Request) -> None:
        match request:
            case Renew():
                self._renewing, self._renew_at = False, self._now + PATIENCE
            case EvictPod():
                self._follow_up_later(request)
            case BindPod() | GetPod() | TouchPod():
                following = self._intents.unanswered(request) if self.leading else request
                if following is not None:
                    self._follow_up_later(following)
            case _:
                self._follow_up_later(request)

    def _follow_up_later(self, request: Request) -> None:
        heappush(self._later, (self._now + PATIENCE, next(self._order), request))

    def _follow_up(self) -> None:
        while self._later and self._later[0][0] <= self._now:
            request = heappop(self._later)[2]
            match request:
                case EvictPod():
                    if not self._evictions.awaits(request):
                        continue
                case BindPod() | GetPod() | TouchPod() if self.leading:
                    if not self._intents.awaits(request):
                        continue
            self._out.append(request)

    # --- steps ----------------------------------------------------------------------------

    def _do(self, step: PodRequest | Stimulus | None) -> None:
        if isinstance(step, Stimulus):
            self._observe(step)
        elif step is not None:
            self._out.append(step)

    def _observe(self, stimulus: Stimulus) -> None:
        self._take(self.engine.observe(stimulus, self._now))

    def _take(self, logged: Iterable[Logged]) -> None:
        taken = list(logged)
        self._writer.add(taken)
        self._intents.follow(taken)
        self._evictions.follow(taken)
