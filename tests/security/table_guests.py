"""The statuses for a team that is the guest of another team's open arena.

A guest may enter candidates and is the only one who changes them; the arena's team reads those that
are disclosed, and may send any of them away. What is the arena's own is no more a guest's than any
stranger's.
"""

from dataclasses import dataclass

from tests.security.table import ROWS
from tests.security.world import GUESTS, PEOPLE, TOKENS

WITH_A_GUEST = (*PEOPLE, GUESTS[0])
ALL_WITH_GUESTS = (*WITH_A_GUEST, *TOKENS, GUESTS[1])

# What is the arena's own: a guest, who is a member, and its token, which has every scope. At all
# other addresses they are a stranger and another team's token.
AS_GUESTS: dict[tuple[str, str], str] = {
    # The desk shows what a guest may know, and takes candidates.
    ("manage_arena", "get"): "200",
    ("manage_prompts", "get"): "200",
    ("manage_candidates", "get"): "200",
    ("archive_candidates", "get"): "302",
    ("archive_candidates", "post"): "302",
    ("api_archive_candidates", "post"): "422 422",
    ("new_candidate", "get"): "200",
    ("new_candidate", "post"): "200",
    # On a guest's desk there are no candidates but its own, and so none of their runs.
    ("manage_candidate", "get"): "404",
    ("edit_candidate", "get"): "404",
    ("edit_candidate", "post"): "404",
    ("retire_candidate", "post"): "404",
    ("delete_candidate", "post"): "404",
    ("upload_answers", "get"): "404",
    ("upload_answers", "post"): "404",
    ("order_answers", "post"): "404",
    ("answer_run", "get"): "404",
    ("steer_answers", "post"): "404",
    # A program names the team that it enters a candidate for; a person's is the arena's, unsaid.
    ("api_candidates", "post"): "403 201",
    # Its own decision.
    ("api_decision", "get"): "200 200",
}


@dataclass(frozen=True)
class GuestsRow:
    """What is answered about a guest's candidate; `undisclosed` where it is another answer then."""

    disclosed: str
    undisclosed: str = ""

    def expected(self, kind: str) -> dict[str, int]:
        """The statuses by caller; a page's rule names people alone."""
        rule = (self.undisclosed if kind == "undisclosed" else "") or self.disclosed
        statuses = [int(status) for status in rule.split()]
        callers = WITH_A_GUEST if len(statuses) == len(WITH_A_GUEST) else ALL_WITH_GUESTS
        return dict(zip(callers, statuses, strict=True))


# People: nobody stranger viewer member owner operator guest
ALL = "200 200 200 200 200 200   200"
THE_DESK_READS = "302 403 200 200 200 200   200"
ITS_OWN_READ = "302 403 404 404 404 200   200"
ITS_OWN_EDIT = "302 403 403 403 403 200   200"
ITS_OWN_SEND = "403 403 403 403 403 200   200"
NONE_TO_SEND = "403 403 404 404 404 200   200"
ITS_OWN_DO = "403 403 403 403 403 302   302"
NONE_TO_DO = "403 403 404 404 404 302   302"
# Callers:     nob str vie mem own ope   gue | rea sub jud all another gue
READ = "200 200 200 200 200 200   200   200 403 403 200 200   200"
TEAMS_READ = "401 403 200 200 200 200   200   200 403 403 200 403   200"
ITS_OWN_ALONE = "401 403 403 403 403 200   200   403 403 403 403 403   200"
IN_VAIN = ITS_OWN_ALONE.replace("200", "422")
SENT_AWAY = "401 403 403 200 200 200   200   403 200 403 200 403   200"

GUESTS_ROWS: dict[tuple[str, str], GuestsRow] = {
    ("candidate", "get"): GuestsRow(ALL),
    ("candidate_picture", "get"): GuestsRow(ALL),
    ("manage_candidate", "get"): GuestsRow(THE_DESK_READS, ITS_OWN_READ),
    ("edit_candidate", "get"): GuestsRow(ITS_OWN_EDIT, ITS_OWN_READ),
    ("edit_candidate", "post"): GuestsRow(ITS_OWN_SEND, NONE_TO_SEND),
    ("upload_answers", "get"): GuestsRow(ITS_OWN_EDIT, ITS_OWN_READ),
    ("upload_answers", "post"): GuestsRow(ITS_OWN_SEND, NONE_TO_SEND),
    ("order_answers", "post"): GuestsRow(ITS_OWN_DO, NONE_TO_DO),
    ("answer_run", "get"): GuestsRow(THE_DESK_READS, ITS_OWN_READ),
    ("steer_answers", "post"): GuestsRow(ITS_OWN_DO, NONE_TO_DO),
    # Sending a guest's candidate away takes no look at it.
    ("retire_candidate", "post"): GuestsRow(
        "403 403 403 302 302 302   302", "403 403 404 302 302 302   302"
    ),
    # A member deletes nothing, so neither does the guest, who is one.
    ("delete_candidate", "post"): GuestsRow(
        "403 403 403 403 403 302   403", "403 403 404 404 404 302   403"
    ),
    ("api_retire_candidate", "post"): GuestsRow(SENT_AWAY),
    ("api_candidate", "get"): GuestsRow(READ),
    ("api_candidate", "delete"): GuestsRow(
        "401 403 403 403 403 204   403   403 403 403 403 403   403"
    ),
    ("api_versions", "get"): GuestsRow(READ),
    # A version that nothing was made with is changed in its place: no 201.
    ("api_versions", "post"): GuestsRow(ITS_OWN_ALONE),
    ("api_responses", "get"): GuestsRow(TEAMS_READ, ITS_OWN_ALONE),
    ("api_responses", "post"): GuestsRow(ITS_OWN_ALONE),
    ("api_answers", "get"): GuestsRow(TEAMS_READ, ITS_OWN_ALONE),
    ("api_answers", "post"): GuestsRow(IN_VAIN),
    ("api_answer_run", "get"): GuestsRow(TEAMS_READ, ITS_OWN_ALONE),
    ("api_pause_answer_run", "post"): GuestsRow(IN_VAIN),
    ("api_resume_answer_run", "post"): GuestsRow(IN_VAIN),
    ("api_cancel_answer_run", "post"): GuestsRow(IN_VAIN),
    ("api_retry_answer_run", "post"): GuestsRow(IN_VAIN),
}


def as_guests(key: tuple[str, str]) -> dict[str, int]:
    """The statuses of a guest, and of its token where there are tokens, for what is the arena's."""
    row = ROWS[key]
    usual = [row.expected(caller, "public") for caller in ("stranger", "another")]
    callers = GUESTS if row.is_of_api else GUESTS[:1]
    rule = AS_GUESTS.get(key)
    statuses = [int(status) for status in rule.split()] if rule else usual[: len(callers)]
    return dict(zip(callers, statuses, strict=True))
