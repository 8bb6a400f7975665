"""One frame of ``eventsched top``: what happens now, as lines."""

from collections.abc import Iterator, Sequence

from eventsched.output.terminal.bars import bar, curve
from eventsched.output.terminal.colours import Paint, Style, style_of_wait
from eventsched.output.terminal.tables import counted
from eventsched.output.time_format import rough
from eventsched.questions.answer_shapes import NodesFilled, Now
from eventsched.questions.overviews.recent_activity import RecentActivity

_BAR = 20
"""Characters of a bar."""
_FULL, _NEARLY_FULL = 0.95, 0.8
"""Parts of a resource from which on its bar is red or yellow."""


def frame(
    now: Now,
    width: int,
    height: int,
    paint: Paint,
    pending: Sequence[int] = (),
    activity: RecentActivity | None = None,
) -> list[str]:
    """The lines of a frame, at most ``height`` of at most ``width`` characters (0: no limit).
    ``pending``: how many pods were pending at the frames before and at this one; two are a curve.
    ``activity`` is a curve of decisions and one of waiting times, if there were any.
    """
    cut = _Cut(width, paint)
    lines = [
        cut.line(
            (f"{now.stream}  position {now.position}  {now.now.partition('.')[0]}", Style.BOLD)
        ),
        cut.line((_leader(now), None)),
        "",
        cut.line((_rates(now), None)),
        *([cut.line((_curve(pending), None))] if len(pending) > 1 else []),
        *(cut.line((line, None)) for line in _activity(activity)),
        "",
        cut.line((_row("STATE", "PODS", "OLDEST", "WHICH"), Style.DIM)),
    ]
    for state in now.states:
        age = state.oldest_seconds
        row = _row(state.state, state.pods, _age(age), state.oldest or "")
        lines.append(cut.line((row, style_of_wait(age))))
    if now.nodes is not None:
        lines += ["", *_filled(now.nodes, cut)]
    if now.reasons:
        lines += ["", cut.line((_reason("PODS", "OLDEST", "PLUGIN", "WHY THEY WAIT"), Style.DIM))]
    for reason in now.reasons:
        text = _reason(
            reason.pods, _age(reason.oldest_seconds), reason.plugin or "-", reason.reason or "-"
        )
        lines.append(cut.line((text, None)))
    return lines[:height] if height else lines


class _Cut:
    """Makes lines of parts that are as wide as the screen at most. Names and reasons come from the
    cluster: characters that would control the terminal are replaced."""

    def __init__(self, width: int, paint: Paint) -> None:
        self._width, self._paint = width, paint

    def line(self, *parts: tuple[str, Style | None]) -> str:
        """A line of parts with their styles."""
        room = self._width or 10**9
        *others, (last, last_style) = parts
        made = ""
        for text, style in (*others, (last.rstrip(), last_style)):
            shown = "".join(sign if sign.isprintable() else "�" for sign in text)[:room]
            room -= len(shown)
            made += shown if style is None else self._paint(shown, style)
        return made


def _leader(now: Now) -> str:
    log, leader = now.log, now.leader
    text = "no leader" if leader is None else f"leader {leader.holder} (epoch {leader.epoch})"
    if log.lag_seconds is not None and log.idle_seconds is not None:
        text += f"  log {log.lag_seconds:.2f}s behind, written {_age(log.idle_seconds)} ago"
    return text


def _rates(now: Now) -> str:
    text = f"{now.pending} of {counted(now.pods, 'pod')} pending"
    text += f"  {now.decisions_per_second:.1f} decisions/s"
    if now.waits.p50_seconds is not None and now.waits.p99_seconds is not None:
        text += (
            f"  waited p50 {now.waits.p50_seconds:.1f}s, p99 {now.waits.p99_seconds:.1f}s"
            f" (last {now.waits.pods})"
        )
    return text


def _curve(pending: Sequence[int]) -> str:
    frames = f"{min(pending)} to {max(pending)} in the last {len(pending)} frames"
    return f"pending {curve(pending)} {frames}"


def _activity(activity: RecentActivity | None) -> Iterator[str]:
    """Attempts, and the longest waits of the pods that were placed: two steps are a column, so that
    both curves fit into 40 characters."""
    if activity is None or not any(step.decisions for step in activity.steps):
        return
    steps = [activity.steps[first : first + 2] for first in range(0, len(activity.steps), 2)]
    span = rough(int(activity.step_seconds * len(activity.steps) * 1e6))
    most = max(step.per_second for step in activity.steps)
    decided = curve([sum(step.decisions for step in pair) for pair in steps])
    yield f"decided {decided} up to {most:.1f}/s, last {span}"
    waits = [max(step.p99_seconds or 0.0 for step in pair) for pair in steps]
    if any(waits):
        milliseconds = [round(wait * 1e3) for wait in waits]
        yield f"waited  {curve(milliseconds)} p99 up to {max(waits):.1f}s"


def _row(state: str, pods: object, age: str, which: str) -> str:
    return f"{state:<14} {pods:>8}   {age:<8} {which}"


def _reason(pods: object, age: str, plugin: str, why: str) -> str:
    return f"{pods:>6}   {age:<8} {plugin:<26} {why}"


def _filled(nodes: NodesFilled, cut: _Cut) -> Iterator[str]:
    """A bar for each resource of all nodes together."""
    heading = f"{counted(len(nodes.names), 'node')}, requested of what they offer"
    yield cut.line((heading, Style.DIM))
    for name, total in nodes.totals.items():
        if not total.allocatable:
            continue
        part = total.requested / total.allocatable
        style = Style.RED if part >= _FULL else Style.YELLOW if part >= _NEARLY_FULL else None
        full = sum((each or 0.0) >= _FULL for each in nodes.filled.get(name, ()))
        yield cut.line(
            (f"{name:<26.26} ", None),
            (f" {bar(part, _BAR)}", style or Style.GREEN),
            (f" {part:4.0%}   {counted(full, 'node')} full", None),
        )


def _age(seconds: float | None) -> str:
    return "" if seconds is None else rough(int(seconds * 1e6))
