"""The base of the errors that services raise."""


class ServiceError(Exception):
    """An action that cannot be done; `message` is a sentence for people.

    `field` names the input field at fault, if there is one; `kind` identifies the error for
    programs.
    """

    kind = "refused"

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field
