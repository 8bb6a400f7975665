"""Handles SIGTERM from the start of the process.

As process 1 of a container a signal without a handler is ignored: a SIGTERM that comes while
modules are imported would be lost, and the process would go on to serve until it is killed. So
:func:`install` comes before all other imports. A command that needs longer to end in order, such as
``eventsched run``, puts handlers of its own in the place of this one.
"""

import signal
from types import FrameType

ENDED_BY_SIGTERM = 128 + signal.SIGTERM


class Terminated(SystemExit):
    """SIGTERM came. Code that catches this must raise it again."""


class _Request:
    came = False


def install() -> None:
    """From now on SIGTERM raises Terminated in the main thread, unless it is handled already."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _end)


def asked_to_end() -> bool:
    """Whether SIGTERM has come. Where Python cannot raise (while an object is finalized) the
    exception is lost, and this is what is left of it."""
    return _Request.came


def _end(number: int, _: FrameType | None) -> None:
    _Request.came = True
    raise Terminated(128 + number)
