"""A search for names that ends in time: the user has pressed TAB and waits."""

from collections.abc import Callable
from contextlib import suppress
from threading import Thread

LIMIT_SECONDS = 3.0
"""How long TAB waits at most. A name server that does not answer has no timeout of its own."""


def found_in_time(ask: Callable[[], list[str]], seconds: float = LIMIT_SECONDS) -> list[str]:
    """What is found within some seconds; nothing after that or after an error. The command that
    the user is typing will say what is wrong with the database or the cluster."""
    found: list[list[str]] = []

    def run() -> None:
        with suppress(Exception):
            found.append(ask())

    asking = Thread(target=run, daemon=True)
    asking.start()
    asking.join(seconds)
    return found[0] if found else []
