"""What is raised when answers cannot be generated, or not now."""

from arena.services.refusals import Refused


class AnswersRefused(Refused):
    """An order of answers that cannot be; the message says why."""


class NothingToAsk(AnswersRefused):
    """An order of answers of which none is missing."""

    kind = "nothing-to-do"
