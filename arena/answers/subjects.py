"""How the ledger names what an answer's call is about: its candidate asks, of one prompt."""

ASKER, SUBJECT = "candidate:", "prompt:"


def subject_of(prompt_id: int) -> str:
    """Return the subject of the call for a candidate's answer to this prompt."""
    return f"{SUBJECT}{prompt_id}"


def prompt_of(subject: str) -> int:
    """Return the id of the prompt that a call is about."""
    return int(subject.removeprefix(SUBJECT))


def asker_of(candidate_id: int) -> str:
    """Return the asker of the calls for this candidate's answers."""
    return f"{ASKER}{candidate_id}"


def candidate_of(asker: str) -> int:
    """Return the id of the candidate whose answer a call asks for."""
    return int(asker.removeprefix(ASKER))
