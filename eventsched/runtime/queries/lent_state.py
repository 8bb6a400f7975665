"""A folded state that is lent to one who reads it for long."""

from collections.abc import Callable
from functools import cached_property

from eventsched.domain.state import snapshot
from eventsched.domain.state.snapshot import StateSnapshot
from eventsched.runtime.queries.state_at import FoldedState


class LentState:
    """A folded state that only its borrower uses. ``copy`` is a copy of it, from which further
    states are made; it is made when it is first asked for, so before the borrower changes the
    state."""

    def __init__(self, folded: FoldedState, copied: Callable[[], StateSnapshot]) -> None:
        self.folded = folded
        self._copied = copied

    @classmethod
    def of(cls, folded: FoldedState) -> "LentState":
        """A folded state with a copy of its own."""
        return cls(folded, lambda: snapshot.copied(folded.state))

    @cached_property
    def copy(self) -> StateSnapshot:
        """The copy."""
        return self._copied()
