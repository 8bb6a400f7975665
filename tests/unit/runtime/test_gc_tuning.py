"""When garbage is collected."""

import gc
from collections.abc import Iterator
from threading import Thread

import pytest

from eventsched.runtime import gc_tuning
from tests.waiting import joined


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    if not was_enabled:
        gc.disable()


def test_a_pause_ends_with_its_block() -> None:
    with gc_tuning.paused():
        assert not gc.isenabled()
        with gc_tuning.paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_pauses_of_threads_that_overlap_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the first one ends while the second one begins."""
    first = gc_tuning.paused()
    first.__enter__()
    ending = Thread(target=first.__exit__, args=(None, None, None))
    is_enabled = gc.isenabled

    def interrupted() -> bool:
        found = is_enabled()
        if ending.ident is None:
            ending.start()
            ending.join(0.2)  # it ends here, unless it waits for this thread
        return found

    monkeypatch.setattr(gc, "isenabled", interrupted)
    with gc_tuning.paused():
        pass
    joined(ending)
    assert is_enabled()
