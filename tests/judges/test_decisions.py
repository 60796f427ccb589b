"""A decision is written once, and its notice is sent once."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.actors import Actor
from arena.models import Arena, AuditEntry, Delivery, Notice, Rater, Team, Webhook
from judges.decision_report import DecisionQuery, decision_context
from judges.models import Baseline, Decision
from judges.services.decisions import (
    LOOK_AGAIN,
    NEW_RULE,
    BaselineError,
    SeenBoards,
    choose_baseline,
    compare_family,
    write_decisions,
)
from judges.services.registry import register_judge, spec_named
from judges.wording import headline
from ranking.board_data import BoardQuery
from ranking.comparison import read_difference_boards
from ranking.models import Board, KeptClaim
from tests.factories import make_arena, make_vote, make_votes, void_vote
from tests.judges.helpers import (
    candidates_of,
    join,
    make_team,
    published_arena,
    team_arena,
    vote_by_strength,
)
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_boards")]

CLEAR = (0.0, 1.5)


def decide(**fields: Any) -> int:
    return write_decisions(**{"now": timezone.now(), "seen": {}} | fields)


def test_clear_difference_is_written_with_notice_and_deliveries(team: Team) -> None:
    join(team, email="ann@example.com")
    Webhook.objects.create(team=team, url="https://hooks.example.com/", salt="s")
    arena = team_arena(team, CLEAR)
    snapshot = publish(arena)
    assert decide() == 1
    old, new = candidates_of(arena)
    decision = Decision.objects.get()
    assert (decision.candidate, decision.baseline) == (new, old)
    assert (decision.lead, decision.snapshot) == ("ahead", snapshot)
    assert decision.sentence.startswith("candidate-1 is better than candidate-0 for ")
    notice = Notice.objects.get()
    assert (notice.team, notice.arena, notice.kind) == (team, arena, "decision.known")
    assert notice.sentence == decision.sentence
    assert notice.path.endswith(f"?candidate={new.pk}&baseline={old.pk}")
    assert notice.details["candidate"] == {"id": new.pk, "name": "candidate-1"}
    assert notice.details["numbers"]["wins"] > 0.6
    assert Delivery.objects.filter(notice=notice, state="waiting").count() == 2


def test_the_worse_one_is_known_too(team: Team) -> None:
    published_arena(team, (1.5, 0.0))
    assert decide() == 1
    assert Decision.objects.get().lead == "behind"


def test_of_several_candidates_those_are_told_that_hold_together(team: Team) -> None:
    """12 wins of 12 are 14 times what it takes, 8 of 8 are not enough as one of three."""
    arena = team_arena(team, (0.0, 0.0, 0.0, 0.0))
    arena.votes.all().delete()
    old, new, *others = candidates_of(arena)
    prompts = list(arena.prompts.order_by("pk"))
    rows = [(new, old, "left", prompt) for prompt in prompts[:8]]
    for other in others:
        rows += [(other, old, "left" if n % 2 else "right", p) for n, p in enumerate(prompts[:8])]
    make_votes(arena, rows)
    publish(arena)
    among = [old.pk, new.pk, *(other.pk for other in others)]
    board = read_difference_boards(arena, BoardQuery(), among).chosen
    assert board
    family = compare_family(board, [new.pk, *(other.pk for other in others)], old.pk)
    found = family[new.pk]
    assert (found.is_decided, found.family, found.holds_together) == (True, 3, False)
    assert "Taken together with the other 2 candidates" in headline("B", "A", found)
    assert decide() == 0
    assert KeptClaim.objects.get().second == new
    make_votes(arena, [(new, old, "left", prompt) for prompt in prompts[8:12]])
    publish(arena)
    assert decide() == 1


def test_it_is_written_once_however_often_one_looks(team: Team) -> None:
    arena = published_arena(team, CLEAR)
    decide()
    vote_by_strength(arena, CLEAR, each=4, seed=9)
    publish(arena)
    assert decide() == 0
    assert (Decision.objects.count(), Notice.objects.count()) == (1, 1)


def test_a_reversal_is_reported_as_a_new_decision(team: Team) -> None:
    arena = published_arena(team, (0.0, 1.5))
    assert decide() == 1
    vote_by_strength(arena, (0.0, -1.5), each=400)
    publish(arena)
    assert decide() == 1
    assert list(Decision.objects.order_by("pk").values_list("lead", flat=True)) == [
        "ahead",
        "behind",
    ]
    assert Notice.objects.filter(team=team, kind="decision.known").count() == 2


def test_a_repeated_reversal_is_reported_again(team: Team) -> None:
    arena = published_arena(team, (0.0, 1.5))
    decide()
    for strength, each in ((-1.5, 400), (1.5, 1200)):
        vote_by_strength(arena, (0.0, strength), each=each)
        publish(arena)
        assert decide() == 1
        assert decide() == 0
    told = Decision.objects.order_by("number").values_list("number", "lead")
    assert list(told) == [(1, "ahead"), (2, "behind"), (3, "ahead")]
    assert Notice.objects.filter(team=team, kind="decision.known").count() == 3


def test_results_of_judges_votes_are_attributed_to_judges(team: Team) -> None:
    arena = team_arena(team, (0.0, 0.0))
    judge = Rater.objects.create(kind=Rater.Kind.JUDGE, name="strict")
    old, new = candidates_of(arena)
    for n, prompt in enumerate([*arena.prompts.all()] * 2):
        make_vote(arena, new, old, "left" if n % 7 else "right", prompt, judge)
    publish(arena)
    assert decide() == 1
    decision, notice = Decision.objects.get(), Notice.objects.get()
    assert decision.board.raters == "judges"
    assert decision.sentence.startswith(
        "candidate-1 is better than candidate-0 for this judge and "
    )
    assert "scripted" not in decision.sentence
    assert notice.path.endswith("&raters=judges")
    assert notice.details["raters"] == "judges"


def test_results_of_scripts_are_marked_as_a_demonstration(team: Team) -> None:
    arena = team_arena(team, (0.0, 0.0))
    script = register_judge(spec=spec_named("scripted:scripted-1")).rater
    old, new = candidates_of(arena)
    for n, prompt in enumerate([*arena.prompts.all()] * 2):
        make_vote(arena, new, old, "left" if n % 7 else "right", prompt, script)
    publish(arena)
    assert decide() == 1
    assert Decision.objects.get().sentence.endswith("Demo only: these votes come from a script.")


def test_a_difference_that_chance_explains_is_not_known(team: Team) -> None:
    published_arena(team, (0.0, 0.1))
    assert decide() == 0
    assert not Notice.objects.exists()


def test_the_rule_before_claims_leaves_no_notices(team: Team) -> None:
    arena = published_arena(team, CLEAR)
    Board.objects.filter(arena=arena).update(follows_claims=False)
    assert decide() == 1
    assert Decision.objects.get().reason == NEW_RULE
    assert not Notice.objects.exists()
    assert not Board.objects.filter(arena=arena, category="", follows_claims=False).exists()
    vote_by_strength(arena, (0.0, -1.5), each=400)
    publish(arena)
    assert decide() == 1
    assert Decision.objects.get(number=2).reason == ""
    assert Notice.objects.count() == 1


def test_a_decision_stays_when_newer_votes_no_longer_support_it(team: Team) -> None:
    arena = team_arena(team, (0.0, 0.0))
    arena.votes.all().delete()
    old, new = candidates_of(arena)
    prompts = list(arena.prompts.order_by("pk"))
    make_votes(arena, [(new, old, "left", prompt) for prompt in prompts[:8]])
    publish(arena)
    assert decide() == 1
    make_votes(arena, [(new, old, "right", prompt) for prompt in prompts[8:14]])
    publish(arena)
    assert decide() == 0
    context = decision_context(team, arena, DecisionQuery(candidate=new.pk))
    assert "is better than" in context["sentence"]
    assert "Newer votes no longer support it." in context["sentence"]
    void_vote(arena.votes.order_by("pk")[0])
    publish(arena)
    decide()
    context = decision_context(team, arena, DecisionQuery(candidate=new.pk))
    assert context["sentence"].startswith("Not decided yet: ")


def test_the_body_of_a_webhook_has_all_fields_of_before(team: Team) -> None:
    published_arena(team, CLEAR)
    decide()
    numbers = Notice.objects.get().details["numbers"]
    before = {"lead", "elo", "low", "high", "wins", "wins_low", "wins_high", "chance"}
    assert before | {"votes", "between", "these_raters", "family"} <= numbers.keys()
    assert {"scope", "missing", "claim", "family_holds"} <= numbers.keys()
    assert numbers["lead"] == "ahead"
    assert 0 < numbers["low"] < numbers["elo"]
    assert 0.5 < numbers["wins_low"] < numbers["wins"] <= numbers["wins_high"]


def test_a_chosen_baseline_counts_and_a_new_one_starts_over(team: Team) -> None:
    arena = published_arena(team, (0.0, 1.5, 3.0))
    first, _, third = candidates_of(arena)
    choose_baseline(
        team=team, arena=arena, candidate=third, by=Actor(display_name="x"), now=timezone.now()
    )
    looked: SeenBoards = {}
    assert decide(seen=looked) == 2
    assert set(Decision.objects.values_list("baseline", flat=True)) == {third.pk}
    Baseline.objects.update(candidate=first)
    assert decide(seen=looked) == 2
    assert Decision.objects.filter(baseline=first).count() == 2


def test_each_team_is_told_of_its_own_candidates_alone(team: Team) -> None:
    arena = team_arena(team, (0.0, 1.5, 1.5, 0.0))
    guests = make_team("Guests", "guests")
    own = candidates_of(arena)
    arena.candidates.filter(pk__in=[own[2].pk, own[3].pk]).update(team=guests)
    publish(arena)
    assert decide() == 2
    assert Decision.objects.get(team=team).candidate == own[1]
    told = Decision.objects.get(team=guests)
    assert (told.candidate, told.baseline) == (own[3], own[2])
    assert Notice.objects.filter(team=guests).count() == 1


def test_undisclosed_names_are_told_to_their_own_team_alone(team: Team) -> None:
    arena = team_arena(team, (0.0, 1.5, 0.0))
    guests = make_team("Guests", "guests")
    _, new, theirs = candidates_of(arena)
    arena.candidates.update(disclosed_at=None, private_until_votes=5000)
    arena.candidates.filter(pk=theirs.pk).update(team=guests)
    Baseline.objects.create(team=guests, arena=arena, candidate=new)
    publish(arena)
    decide()
    assert "candidate-1 is better than candidate-0" in Decision.objects.get(team=team).sentence
    sentence = Decision.objects.get(team=guests).sentence
    assert f"candidate-2 is worse than Undisclosed {new.pk}" in sentence
    assert "candidate-1" not in str(Notice.objects.get(team=guests).details)


def test_retired_candidates_and_teamless_arenas_are_skipped(team: Team) -> None:
    arena = team_arena(team, CLEAR)
    arena.candidates.filter(pk=candidates_of(arena)[1].pk).update(retired_at=timezone.now())
    publish(arena)
    operators = make_arena(2, 50)
    vote_by_strength(operators, CLEAR)
    publish(operators)
    assert decide() == 0


def test_looking_again_reads_nothing_before_there_is_news(
    team: Team, django_assert_num_queries: Any
) -> None:
    arena = published_arena(team, CLEAR)
    looked: SeenBoards = {}
    now = timezone.now()
    decide(seen=looked, now=now)
    with django_assert_num_queries(2):
        decide(seen=looked, now=now)
    Decision.objects.all().delete()
    Notice.objects.all().delete()
    assert decide(seen=looked, now=now + LOOK_AGAIN) == 1
    arena.boards.all().delete()
    decide(seen=looked, now=now + LOOK_AGAIN + timedelta(seconds=1))
    assert looked == {}


def test_choosing_a_baseline_is_on_the_audit_log(team: Team) -> None:
    arena = team_arena(team)
    old, new = candidates_of(arena)
    for candidate in (old, new):
        choose_baseline(
            team=team,
            arena=arena,
            candidate=candidate,
            by=Actor(display_name="x"),
            now=timezone.now(),
        )
    assert Baseline.objects.get().candidate == new
    entry = AuditEntry.objects.filter(action="chose a baseline").latest("pk")
    assert (entry.subject, entry.details) == ("candidate-1", {"arena": arena.slug})


def test_a_candidate_of_another_arena_is_no_baseline(team: Team) -> None:
    arena: Arena = team_arena(team)
    elsewhere = make_arena().candidates.all()[0]
    with pytest.raises(BaselineError, match="of this arena"):
        choose_baseline(team=team, arena=arena, candidate=elsewhere, by=Actor(), now=timezone.now())
    assert not Baseline.objects.exists()
