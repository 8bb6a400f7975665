"""The dialogue of an attempt with the extenders."""

from eventsched.domain.records import ExtenderAnswered, ExtenderAsked


class Consultation:
    """The questions of the attempt under way, in order, and their answers: one answer less than
    questions while a question is open."""

    __slots__ = ("answered", "asked")

    def __init__(
        self, asked: list[ExtenderAsked], answered: list[ExtenderAnswered] | None = None
    ) -> None:
        self.asked = asked
        self.answered = answered or []

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.asked[0].uid

    @property
    def question(self) -> ExtenderAsked | None:
        """The open question."""
        return self.asked[-1] if len(self.asked) > len(self.answered) else None

    def awaits(self, answer: ExtenderAnswered) -> bool:
        """Whether an answer is for the open question."""
        question = self.question
        return question is not None and (
            (question.uid, question.attempt, question.extender, question.verb)
            == (answer.uid, answer.attempt, answer.extender, answer.verb)
        )
