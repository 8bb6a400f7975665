"""Errors that a user sees as one line: wrong input (exit code 2), or something outside that is
unavailable (exit code 3)."""


class InputError(ValueError):
    """Wrong input: where it is, what is wrong and what to do about it.

    ``where`` names the file and the field (``config.yaml: profiles[0].plugins``), ``problem`` what
    is wrong, ``remedy`` what the user can do.
    """

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where = where
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{where}: {problem}; {remedy}")

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str, str]]:
        """For pickle: an error may come from another process."""
        return InputError, (self.where, self.problem, self.remedy)

    def within(self, outer: str) -> "InputError":
        """The same error with the enclosing place (a file, an object) before ``where``."""
        return InputError(f"{outer}: {self.where}", self.problem, self.remedy)


class NewerLogError(InputError):
    """A log has what only a later version can read. ``what`` that is, and ``where``."""

    def __init__(self, where: str, what: str) -> None:
        super().__init__(
            where,
            f"was written by a newer version: this one does not know {what}",
            "use that version or a later one",
        )


class UnavailableError(Exception):
    """Something outside that is needed is unavailable (exit code 3). ``where`` names it, ``remedy``
    says what the user can do."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where, self.problem, self.remedy = where, problem, remedy
        super().__init__(f"{where}: {problem}; {remedy}")

    def __reduce__(self) -> tuple[type["UnavailableError"], tuple[str, str, str]]:
        """For pickle: an error may come from another process."""
        return UnavailableError, (self.where, self.problem, self.remedy)


class InUseError(UnavailableError):
    """Another process writes to that place."""
