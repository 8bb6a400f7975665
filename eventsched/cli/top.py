"""``eventsched top``: a live screen of what happens now."""

import argparse
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import msgspec

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.cli.screen import live_terminal
from eventsched.cli.screen.now_frame import frame
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import database
from eventsched.output.terminal.colours import Style
from eventsched.output.terminal.display import display_of_output
from eventsched.output.terminal.tables import width_of_output
from eventsched.questions.answer_shapes import Now
from eventsched.questions.now import now_of
from eventsched.questions.overviews.recent_activity import RecentActivity, recent_activity
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams, LoggedStreams
from eventsched.questions.visibility import EVERYTHING

_SHORTEST, _LONGEST = 0.2, 3600.0
_LASTS = 15.0
"""Seconds for which the curves of the last hour are shown. Each of their columns is two minutes."""
_FRAMES = 40
"""Frames whose pending pods are shown as a curve, and fit into a line of 80 characters."""


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "top",
        help="show live what happens now: who waits and why, how full the nodes are",
        description="Shows what happens now, and draws it again every few seconds: pods by state "
        "with the one that waits longest, why pods wait, decisions per second, waiting times, how "
        "many pods were pending at the frames before, decisions and waits of the last hour as "
        "curves, the leader, the lag of the log, and how full the nodes are. q ends it.",
    )
    parser.add_argument(
        "--interval", type=float, default=2.0, metavar="SECONDS",
        help="time between two frames (default: 2)",
    )  # fmt: skip
    parser.add_argument("--once", action="store_true", help="print one frame, and end")
    add_database_options(parser)
    add_output_option(
        parser, "text", help_text="json and yaml need --once (default: text)", pages=False
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Shows frames until a key ends it, or prints one."""
    if not _SHORTEST <= options.interval <= _LONGEST:
        remedy = f"use {_SHORTEST:g} to {_LONGEST:g} seconds"
        raise InputError("--interval", f"{options.interval:g} is out of range", remedy)
    if not options.once and is_document(options.output):
        raise InputError(f"-o {options.output}", "prints no live screen", "add --once")
    if not options.once and not live_terminal.is_interactive():
        raise InputError("top", "needs a terminal for its screen and its keys", "add --once")
    paint = display_of_output().paint
    with (
        database.reader_address(*database_of(options)) as address,
        closing(DatabaseStreams(address)) as streams,
    ):
        source = _Source(streams, options.stream)
        now = source.now()
        if options.once:
            if is_document(options.output):
                print_document(msgspec.to_builtins(now), options.output)
            else:
                activity = source.activity()
                print("\n".join(frame(now, width_of_output(), 0, paint, (), activity)))
            return 0

        pending: deque[int] = deque(maxlen=_FRAMES)

        def lines(width: int, height: int) -> Sequence[str]:
            try:
                now = source.now()
                pending.append(now.pending)
                return frame(now, width, height, paint, pending, source.activity())
            except UnavailableError as problem:
                text = f"{' '.join(str(problem).split())}; asked again every {options.interval:g} s"
                return [paint(text[:width], Style.RED)]

        live_terminal.show(lines, options.interval)
    return 0


class _Source:
    """The same answers that ``GET /now`` and ``GET /activity`` give."""

    def __init__(self, streams: LoggedStreams, name: str | None) -> None:
        self._streams, self._name, self._states = streams, name, FoldedStates()
        self._activity: RecentActivity | None = None
        self._asked_at = 0.0

    def now(self) -> Now:
        """What happens now. Raises InputError and UnavailableError."""
        stream = self._streams.open(self._name)
        nodes = self._states.fill(stream) if stream.log.head.next else None
        return now_of(stream, EVERYTHING, nodes, with_nodes=True)

    def activity(self) -> RecentActivity | None:
        """What happened in the last hour, at most _LASTS seconds old; None for an empty log. Raises
        InputError and UnavailableError."""
        stream = self._streams.open(self._name)
        if not stream.log.head.next:
            return None
        at = time.monotonic()
        if self._activity is None or at - self._asked_at >= _LASTS:
            self._activity, self._asked_at = recent_activity(stream, EVERYTHING, None), at
        return self._activity
