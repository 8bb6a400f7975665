"""The errors of which people are told in one line: their input is wrong (exit code 2), or something
outside is away (exit code 3)."""


class InputError(ValueError):
    """Bad input: says where it is, what is wrong and what to do about it.

    ``where`` names the file and the field (``config.yaml: profiles[0].plugins``), ``problem`` what
    is wrong with it, ``remedy`` what the user can do.
    """

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where = where
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{where}: {problem}; {remedy}")

    def within(self, outer: str) -> "InputError":
        """The same error seen from an enclosing place (a file, an object)."""
        return InputError(f"{outer}: {self.where}", self.problem, self.remedy)


class UnavailableError(Exception):
    """Something outside that we need is away or in the way (exit code 3). ``where`` names it,
    ``remedy`` says what the user can do."""

    def __init__(self, where: str, problem: str, remedy: str) -> None:
        self.where, self.problem, self.remedy = where, problem, remedy
        super().__init__(f"{where}: {problem}; {remedy}")


class InUseError(UnavailableError):
    """Somebody else writes to that place now."""
