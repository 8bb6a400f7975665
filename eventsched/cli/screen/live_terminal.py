"""A terminal that shows one frame after the other until a key ends it."""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_BEGIN = "\x1b[?1049h\x1b[?25l"
"""The alternate screen, without a cursor: what was there before is back afterwards."""
_END = "\x1b[?25h\x1b[?1049l"
_TOP, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_QUIT = frozenset(b"qQ\x04")
"""q and Ctrl-D."""


def is_interactive() -> bool:
    """Whether a person sees the output and can press keys."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show(frame: Callable[[int, int], Sequence[str]], interval: float) -> None:
    """Shows frames, one each ``interval`` seconds and at each key, until q, Ctrl-D or the end of
    input. ``frame`` makes one for a width and a height."""
    with _own_screen():
        while True:
            size = os.get_terminal_size(sys.stdout.fileno())
            lines = list(frame(size.columns, size.lines))[: size.lines]
            text = "\n".join(f"{line}{_REST_OF_LINE}" for line in lines)
            sys.stdout.write(f"{_TOP}{text}{_REST_OF_SCREEN}")
            sys.stdout.flush()
            if _is_ended(interval):
                return


def _is_ended(interval: float) -> bool:
    """Waits for a key; whether it ends the screen."""
    ready, _, _ = select.select([sys.stdin], [], [], interval)
    if not ready:
        return False
    keys = os.read(sys.stdin.fileno(), 64)
    return not keys or keys[0] in _QUIT


@contextmanager
def _own_screen() -> Iterator[None]:
    """The whole screen, and keys as they are pressed. Restores both however it ends."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        sys.stdout.write(_BEGIN)
        yield
    finally:
        sys.stdout.write(_END)
        sys.stdout.flush()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
