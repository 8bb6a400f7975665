"""The one error that means "your input is wrong": printed as one line, exit code 2."""


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
