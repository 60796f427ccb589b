"""What every service raises when it turns something down."""


class Refused(Exception):
    """Something that cannot be done; the message is a sentence for whoever asked for it.

    `field` names what is to blame, where it is one thing that was filled in; `kind` tells programs
    what the sentence tells people.
    """

    kind = "refused"

    def __init__(self, sentence: str, *, field: str = "") -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.field = field
