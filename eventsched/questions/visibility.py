"""What the one who asks may see: every namespace, or some. Today the gates let everybody see all
of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from eventsched.domain.errors import InputError


class NotVisibleError(InputError):
    """The answer would show what the one who asks may not see."""


@dataclass(frozen=True)
class Visibility:
    """``namespaces`` are those that may be seen; None: all of them."""

    namespaces: frozenset[str] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether every namespace may be seen."""
        return self.namespaces is None

    def sees(self, namespace: str) -> bool:
        """Whether a namespace may be seen."""
        return self.namespaces is None or namespace in self.namespaces

    def require_whole(self, what: str) -> None:
        """Raises NotVisibleError if some namespaces may not be seen."""
        if self.namespaces is not None:
            remedy = "ask about pods of your own namespaces, or for the right to see all"
            raise NotVisibleError(what, "is about every namespace", remedy)

    def require(self, namespace: str, what: str) -> None:
        """Raises NotVisibleError if the namespace may not be seen, whether it exists or not."""
        if not self.sees(namespace):
            remedy = "ask for the right to list its pods"
            raise NotVisibleError(what, f"namespace {namespace} is not yours to see", remedy)

    def condition(self, column: str) -> tuple[str, Mapping[str, list[str]]]:
        """The condition of SQL on a column with a namespace, "" for none, and its values."""
        if self.namespaces is None:
            return "", {}
        return f" AND {column} IN :visible", {"visible": sorted(self.namespaces) or [""]}


EVERYTHING = Visibility()
