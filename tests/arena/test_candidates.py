"""Candidates: registered, revised as the next version, archived, and refused with a sentence."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from arena.actors import Actor
from arena.models import Arena, AuditEntry, Call, Candidate, Membership, Pair, Response, Team
from arena.services.candidate_checks import CandidateError, clean_content
from arena.services.candidates import register_candidate, retire_candidate, revise_candidate
from tests.factories import make_arena, make_candidate, make_team, make_user

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def register(arena: Arena, name: str = "Warm tone", **fields: Any) -> Candidate:
    fields = {"team": arena.team, "by": Actor(user=make_user()), "now": NOW} | fields
    return register_candidate(arena=arena, name=name, **fields)


def revise(candidate: Candidate, **changes: Any) -> Candidate:
    changes = {"by": Actor(), "now": NOW} | changes
    return revise_candidate(candidate=candidate, **changes)


def answer(candidate: Candidate) -> Candidate:
    Response.objects.create(
        candidate=candidate, prompt=candidate.arena.prompts.earliest("pk"), text="So."
    )
    return candidate


def test_a_variant_is_entered_as_it_was_described(arena_of_prompts: Arena) -> None:
    ada = make_user("ada")
    made = register(
        arena_of_prompts,
        " Warm tone ",
        by=Actor(user=ada),
        system_prompt="Be kind.\r\nBe brief.",
        user_template="Q: {{ prompt }}",
        endpoint="scripted",
        model="writer-1",
        parameters={"temperature": 0.7, "max_tokens": 200},
        notes="From the desk.",
        organisation=" Example Labs ",
        licence="Apache-2.0",
        link="https://example.org/writer-1",
    )
    made.refresh_from_db()
    assert (made.own_name, str(made), made.team) == (
        "Warm tone",
        "Warm tone",
        arena_of_prompts.team,
    )
    assert (made.system_prompt, made.endpoint) == ("Be kind.\nBe brief.", "scripted")
    assert made.parameters == {"temperature": 0.7, "max_tokens": 200}
    assert (made.organisation, made.licence) == ("Example Labs", "Apache-2.0")
    assert made.link == "https://example.org/writer-1"
    assert (made.disclosed_at, made.created_by) == (NOW, ada)
    entry = AuditEntry.objects.latest("pk")
    assert (entry.by, entry.action, entry.subject, entry.details["candidate"]) == (
        "ada",
        "registered a candidate",
        "Warm tone",
        made.pk,
    )


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"name": "  "}, "name", "The name is empty"),
        ({"name": "x" * 201}, "name", "201 characters long; the limit is 200"),
        ({"name": "two\nlines"}, "name", "line break"),
        ({"name": "Undisclosed 17"}, "name", "whose name is still private"),
        ({"system_prompt": "x" * 1_048_576}, "system_prompt", "is 1,048,576 bytes long"),
        ({"system_prompt": "x" * 100_001}, "system_prompt", "100,001 characters; the limit is 100"),
        ({"organisation": "x" * 101}, "organisation", "101 characters long; the limit is 100"),
        ({"licence": "M\u202eTI"}, "licence", "invisible character"),
        ({"link": "javascript:alert(1)"}, "link", "not the address of a web page"),
        ({"link": "https://"}, "link", "not the address of a web page"),
        ({"link": "https://example.org@evil.example"}, "link", "not the address of a web page"),
        ({"link": "https://example.org/a b"}, "link", "not the address of a web page"),
        ({"system_prompt": "a\0b"}, "system_prompt", "NUL"),
        ({"user_template": "{{ promt }}"}, "user_template", "did you mean {{ prompt }}?"),
        ({"user_template": "Hello."}, "user_template", "uses no variable"),
        ({"system_prompt": "{{ customer }}"}, "system_prompt", "which no prompt has"),
        ({"endpoint": "elsewhere", "model": "m"}, "endpoint", "Choose from scripted"),
        ({"endpoint": "scripted"}, "model", "Enter the model"),
        ({"notes": "x" * 10_001}, "notes", "text of the notes is 10,001 characters long"),
        ({"parameters": {"stream": True}}, "parameters", "'stream' is not supported"),
        ({"private_until_votes": 0}, "private_until_votes", "1 to 10,000"),
        ({"private_until": NOW}, "private_until", "in the future"),
        ({"private_until": NOW + timedelta(days=367)}, "private_until", "one year"),
    ],
)
def test_what_cannot_be_is_reported_at_its_field(
    arena_of_prompts: Arena, fields: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(CandidateError) as refused:
        register(arena_of_prompts, **fields)
    assert refused.value.field == field
    assert words in refused.value.message
    assert not arena_of_prompts.candidates.exists()


@pytest.mark.parametrize(
    "name",
    [
        "UNDISCLOSED  12",
        "Undisclosed 12 v2",
        "Undisclosed12",
        "\uff35\uff4e\uff44\uff49\uff53\uff43\uff4c\uff4f\uff53\uff45\uff44 12",
        "Undiscl\u043es\u0435d 12",
        "Und1scIosed 12",
        "Undiscl\u043e\u200d\u0455\u0435d 12",
    ],
)
def test_no_name_poses_as_one_that_is_not_public(arena_of_prompts: Arena, name: str) -> None:
    with pytest.raises(CandidateError, match="whose name is still private"):
        register(arena_of_prompts, name)


def test_accents_are_stored_in_one_spelling(arena_of_prompts: Arena) -> None:
    assert register(arena_of_prompts, "Cafe\u0301").name == "Café"


@pytest.mark.parametrize("name", ["Undisclosed 12\u200b", "a\u200db", "abc\u202edef", "a\u0080b"])
def test_no_name_contains_invisible_characters(arena_of_prompts: Arena, name: str) -> None:
    with pytest.raises(CandidateError, match="contains an invisible character") as refused:
        register(arena_of_prompts, name)
    assert refused.value.field == "name"


@pytest.mark.parametrize(
    "name",
    [
        "Undisclosed",
        "Undisclosed sources 2",
        "Caf\u00e9 12",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    ],
)
def test_other_names_are_taken(arena_of_prompts: Arena, name: str) -> None:
    assert register(arena_of_prompts, name).name == name


def test_a_variable_that_some_active_prompt_has_may_be_used(arena_of_prompts: Arena) -> None:
    prompt = arena_of_prompts.prompts.earliest("pk")
    prompt.variables = {"customer": "Ada"}
    prompt.save()
    assert register(arena_of_prompts, user_template="{{ customer }}: {{ prompt }}").pk
    prompt.retired_at = NOW
    prompt.save()
    with pytest.raises(CandidateError, match="which no prompt has"):
        register(arena_of_prompts, "Another", user_template="{{ customer }}: {{ prompt }}")


@pytest.mark.parametrize("name", ["Warm tone", "warm TONE", "Ｗarm tone", "𝐖𝐚𝐫𝐦 tone"])
def test_two_candidates_do_not_share_a_name(arena_of_prompts: Arena, name: str) -> None:
    register(arena_of_prompts)
    with pytest.raises(CandidateError, match="Edit it to create the next version") as refused:
        register(arena_of_prompts, name)
    assert refused.value.field == "name"


def test_a_guest_does_not_pass_for_somebody_elses_candidate(arena_of_prompts: Arena) -> None:
    Arena.objects.filter(pk=arena_of_prompts.pk).update(open_to_teams=True)
    register(arena_of_prompts)
    with pytest.raises(CandidateError, match="already taken"):
        register(arena_of_prompts, "Ｗarm tone", team=make_team(name="Rivals"))


def test_a_taken_name_does_not_reveal_which_team_has_it(arena_of_prompts: Arena) -> None:
    Arena.objects.filter(pk=arena_of_prompts.pk).update(open_to_teams=True)
    register(arena_of_prompts, private_until_votes=10)
    with pytest.raises(CandidateError) as refused:
        register(arena_of_prompts, team=make_team(name="Rivals"))
    assert (
        refused.value.message
        == "The name Warm tone is already taken in this arena. Choose another name."
    )


def test_a_name_does_not_read_like_a_version_of_another(arena_of_prompts: Arena) -> None:
    register(arena_of_prompts)
    with pytest.raises(CandidateError, match="reads like version 2 of Warm tone"):
        register(arena_of_prompts, "Warm tone v2")
    assert register(arena_of_prompts, "llama v2").own_name == "llama v2"


def test_an_arena_that_is_not_open_takes_no_other_teams(arena_of_prompts: Arena) -> None:
    with pytest.raises(CandidateError, match="closed to candidates from other teams"):
        register(arena_of_prompts, team=make_team(name="Rivals"))


@pytest.mark.parametrize("has_answers", [True, False])
def test_a_closed_arena_takes_nothing_more_of_its_guests(
    arena_of_prompts: Arena, has_answers: bool
) -> None:
    guest = entered_by_a_guest(arena_of_prompts)
    if has_answers:
        answer(guest)
    Arena.objects.filter(pk=arena_of_prompts.pk).update(open_to_teams=False)
    with pytest.raises(CandidateError, match="stay as they are"):
        revise(guest, notes="New.")
    guest.refresh_from_db()
    assert (guest.notes, arena_of_prompts.candidates.count()) == ("", 1)
    operator = Actor(user=make_user(is_staff=True))
    assert revise(guest, notes="New.", by=operator).notes == "New."
    retire_candidate(candidate=guest, by=Actor(), now=NOW)
    assert guest.retired_at == NOW


def test_what_an_arena_has_of_no_team_is_its_own(arena_of_prompts: Arena) -> None:
    imported = answer(make_candidate(arena_of_prompts, "imported"))
    assert revise(imported, notes="New.").version == 2


def entered_by_a_guest(arena: Arena, **fields: Any) -> Candidate:
    Arena.objects.filter(pk=arena.pk).update(open_to_teams=True)
    return register(arena, team=make_team(name="Guests"), **fields)


def test_a_private_name_is_masked(arena_of_prompts: Arena) -> None:
    made = register(arena_of_prompts, private_until_votes=50, private_until=NOW + timedelta(days=7))
    made.refresh_from_db()
    assert (made.disclosed_at, str(made)) == (None, f"Undisclosed {made.pk}")
    assert (made.private_until_votes, made.private_until) == (50, NOW + timedelta(days=7))


def test_the_rules_of_a_name_are_fixed_when_it_is_entered(arena_of_prompts: Arena) -> None:
    made = register(arena_of_prompts, private_until_votes=50)
    with pytest.raises(CandidateError, match="cannot be changed"):
        revise(made, notes="New.", private_until_votes=5000)
    made.refresh_from_db()
    assert (made.private_until_votes, made.notes) == (50, "")
    assert revise(made, notes="New.", private_until_votes=50).notes == "New."
    public = register(arena_of_prompts, "Public")
    with pytest.raises(CandidateError, match="cannot be changed"):
        revise(public, notes="New.", private_until_votes=5)


def test_revising_a_private_candidate_must_state_its_privacy(arena_of_prompts: Arena) -> None:
    made = answer(register(arena_of_prompts, private_until_votes=50))
    with pytest.raises(CandidateError, match="The previous version is still private") as refused:
        revise(made, notes="Second.", says_privacy=False)
    assert refused.value.field == "private_until_votes"
    assert arena_of_prompts.candidates.count() == 1
    second = revise(made, notes="Second.", private_until_votes=50)
    assert revise(second, notes="In place.", says_privacy=False).private_until_votes == 50
    public = answer(register(arena_of_prompts, "Public"))
    assert revise(public, notes="Second.", says_privacy=False).disclosed_at == NOW


def test_a_new_version_is_private_only_if_requested_again(arena_of_prompts: Arena) -> None:
    made = answer(register(arena_of_prompts, private_until_votes=50))
    second = revise(made, notes="Second.")
    assert (second.disclosed_at, second.private_until_votes) == (NOW, None)
    third = revise(second, notes="Third.")
    assert third.pk == second.pk
    answer(second)
    fourth = revise(second, notes="Fourth.", private_until_votes=9)
    assert (fourth.disclosed_at, fourth.private_until_votes) == (None, 9)


def test_what_nothing_was_made_with_is_changed_in_place(arena_of_prompts: Arena) -> None:
    made = register(arena_of_prompts)
    again = revise(made, system_prompt="Be kinder.")
    assert (again.pk, again.version, again.system_prompt) == (made.pk, 1, "Be kinder.")
    assert AuditEntry.objects.latest("pk").action == "changed a candidate"


@pytest.mark.parametrize("made_with", ["an answer", "a call", "retired"])
def test_a_used_version_stays_and_has_a_next_one(arena_of_prompts: Arena, made_with: str) -> None:
    made = register(arena_of_prompts, system_prompt="Be kind.", model="m")
    if made_with == "an answer":
        answer(made)
    elif made_with == "a call":
        Call.objects.create(
            requester=made.requester, subject="prompt:1", endpoint="scripted", model="m"
        )
    else:
        retire_candidate(candidate=made, by=Actor(), now=NOW)
    second = revise(made, system_prompt="Be kinder.", by=Actor(user=make_user("bob")))
    made.refresh_from_db()
    assert (made.system_prompt, second.system_prompt) == ("Be kind.", "Be kinder.")
    assert (second.version, second.own_name, second.team) == (2, "Warm tone v2", made.team)
    assert (second.model, second.retired_at) == ("m", None)
    assert second.created_by.username == "bob"


def test_what_changes_nothing_writes_nothing(arena_of_prompts: Arena) -> None:
    made = answer(register(arena_of_prompts, system_prompt="Be kind."))
    before = AuditEntry.objects.count()
    assert revise(made, system_prompt="Be kind.").pk == made.pk
    assert (arena_of_prompts.candidates.count(), AuditEntry.objects.count()) == (1, before)


def test_versions_are_counted_past_the_last_one(arena_of_prompts: Arena) -> None:
    first = answer(register(arena_of_prompts))
    second = answer(revise(first, notes="2"))
    third = revise(first, notes="3")
    assert (second.version, third.version) == (2, 3)


def test_versions_count_among_a_teams_candidates(
    arena_of_prompts: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arena.services.candidates.MAX_CANDIDATES", 2)
    first = answer(register(arena_of_prompts))
    revise(first, notes="2")
    with pytest.raises(CandidateError, match="counting every version"):
        revise(first, notes="3")
    retire_candidate(candidate=first, by=Actor(), now=NOW)
    assert revise(first, notes="3").version == 3


def test_a_version_passes_over_a_name_that_reads_like_it(arena_of_prompts: Arena) -> None:
    register(arena_of_prompts, "Warm tone v2")
    assert revise(answer(register(arena_of_prompts)), notes="2").version == 3


def test_nothing_is_locked_while_texts_are_checked(
    arena_of_prompts: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    depths = []

    def looked_at(*given: Any) -> Any:
        depths.append(len(connection.savepoint_ids))
        return clean_content(*given)

    monkeypatch.setattr("arena.services.candidates.clean_content", looked_at)
    revise(register(arena_of_prompts), notes="Other.")
    assert depths == [len(connection.savepoint_ids)] * 2


def test_concurrent_changes_are_not_overwritten(
    arena_of_prompts: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = register(arena_of_prompts)

    def changed_meanwhile(*given: Any) -> Any:
        Candidate.objects.filter(pk=made.pk).update(system_prompt="Theirs.")
        return clean_content(*given)

    monkeypatch.setattr("arena.services.candidates.clean_content", changed_meanwhile)
    with pytest.raises(CandidateError, match="Someone else has just changed Warm tone"):
        revise(made, notes="Mine.")
    made.refresh_from_db()
    assert (made.system_prompt, made.notes) == ("Theirs.", "")


def test_a_revision_is_checked_as_a_new_candidate_is(arena_of_prompts: Arena) -> None:
    made = register(arena_of_prompts)
    with pytest.raises(CandidateError, match="Enter the model"):
        revise(made, endpoint="scripted")


def test_a_retired_candidate_is_drawn_no_more_and_stays() -> None:
    arena = make_arena(2, 2, team=make_team())
    first = arena.candidates.earliest("pk")
    retire_candidate(candidate=first, by=Actor(), now=NOW)
    first.refresh_from_db()
    assert first.retired_at == NOW
    assert Pair.objects.get(arena=arena).shared_prompts == 0
    retire_candidate(candidate=first, by=Actor(), now=NOW + timedelta(days=1))
    first.refresh_from_db()
    assert first.retired_at == NOW
    assert AuditEntry.objects.filter(action="retired a candidate").count() == 1


def test_a_guest_that_the_arenas_team_retires_is_in_both_trails(arena_of_prompts: Arena) -> None:
    guest = entered_by_a_guest(arena_of_prompts, private_until_votes=9)
    host = make_user("host")
    Membership.objects.create(team=arena_of_prompts.team, user=host, role="member")
    retire_candidate(candidate=guest, by=Actor(user=host), now=NOW)
    ours, theirs = (retired_in(team) for team in (arena_of_prompts.team, guest.team))
    assert (ours.by, ours.subject, ours.user) == ("host", f"Undisclosed {guest.pk}", host)
    assert (theirs.by, theirs.subject, theirs.user) == ("the arena's team", "Warm tone", None)


def test_a_guest_that_leaves_on_its_own_is_in_its_own_audit_log_alone(
    arena_of_prompts: Arena,
) -> None:
    guest = entered_by_a_guest(arena_of_prompts)
    by = Actor(user=guest.team.memberships.get().user)
    retire_candidate(candidate=guest, by=by, now=NOW)
    assert retired_in(guest.team).user == by.user
    assert not arena_of_prompts.team.audit_entries.filter(action__contains="retired").exists()


def retired_in(team: Team) -> AuditEntry:
    return team.audit_entries.get(action__startswith="retired a")


TURNS = [
    {"role": "user", "content": "2 + 2"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "{{ prompt }}"},
]


def test_messages_take_the_place_of_the_texts_and_the_texts_of_messages(
    arena_of_prompts: Arena,
) -> None:
    first = answer(register(arena_of_prompts, messages=TURNS))
    assert revise(first, messages=TURNS).pk == first.pk
    second = answer(revise(first, system_prompt="Be brief."))
    assert (second.version, second.messages) == (2, None)
    third = revise(second, messages=TURNS)
    assert (third.version, third.system_prompt, third.messages) == (3, "", TURNS)
    first.refresh_from_db()
    assert first.messages == TURNS


def test_a_list_that_says_no_more_than_two_texts_is_stored_as_them(arena_of_prompts: Arena) -> None:
    system = {"role": "system", "content": "Be brief."}
    simple = register(arena_of_prompts, messages=[system, TURNS[-1]])
    assert (simple.system_prompt, simple.user_template) == ("Be brief.", "{{ prompt }}")
    assert simple.messages is None
    assert revise(simple, messages=[system, TURNS[-1]]).pk == simple.pk


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([*TURNS, {"role": "tool", "content": "x"}], "has a message 4 with more than text"),
        ([*TURNS, {"role": "system", "content": "x"}, TURNS[-1]], "system message as message 4"),
        ([{"role": "system", "content": "x"}], r"must start \(after any system message\)"),
        ([], "has no message"),
        ([{"role": "user", "content": "x" * 100_001 + "{{ prompt }}"}, *TURNS], "limit is 100,000"),
    ],
)
def test_messages_of_other_roles_or_sizes_are_refused(
    arena_of_prompts: Arena, messages: Any, says: str
) -> None:
    with pytest.raises(CandidateError, match=says) as refused:
        register(arena_of_prompts, messages=messages)
    assert refused.value.field == "messages"
