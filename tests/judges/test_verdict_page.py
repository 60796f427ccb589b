"""One verdict: the answers, the judge's reasons in both orders, ratings, and the reader's own
vote."""

import json
import re
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.calls.models import Call
from arena.models import Arena, Comparison, Run, Vote
from judges.models import Judgement, LabelItem, LabelSet, Mark
from judges.services.label_runs import order_label_run
from judges.services.registry import register_judge, spec_named
from judges.views import verdicts
from judges.views.addresses import marks_url
from tests.factories import make_arena, make_member, make_team, rewrite_answers
from tests.judges.fake_server import FakeServer, better_is, says
from tests.judges.helpers import hide_arena, order, page_text, signed_in, verdict_url, work_off

pytestmark = pytest.mark.django_db
HX = {"HX-Request": "true"}


def run_with_verdict(arena: Arena, *judges: str, **fields: Any) -> tuple[Run, Judgement]:
    run = work_off(order(arena, *judges, **fields))
    return run, run.judgements.order_by("-settled_at", "pk").first()


def verdict_page(client: Client, run: Run, one: Judgement, **query: Any) -> str:
    return page_text(client, verdict_url(run, one.pk, **query))


def test_both_answers_and_both_orders_are_next_to_each_other(
    client: Client, local: FakeServer
) -> None:
    local.script.extend([better_is("A"), better_is("B")])
    run, one = run_with_verdict(make_arena(2, 1))
    html = verdict_page(client, run, one)
    comparison = one.comparison
    assert comparison.left_response.text in html
    assert comparison.right_response.text in html
    assert html.count("It is better.") == 2
    assert "The judge saw the left answer as A, the right one as B." in html
    assert "The judge saw the right answer as A, the left one as B." in html
    better = one.outcome
    assert html.count(f"{better.capitalize()} answer is better") == 3
    for fact in ("judge-7b-2024-07-01", "fp_1", "<dd>100, 20</dd>"):
        assert fact in html
    assert "$0.00" in verdict_page(signed_in("boss", staff=True), run, one)


def test_a_copied_verdict_is_labelled_and_adds_no_vote(client: Client) -> None:
    arena, judge = make_arena(2, 1), "scripted:scripted-1"
    _, own = run_with_verdict(arena, judge)
    jury, _ = run_with_verdict(arena, judge, "scripted:scripted-2")
    shared = jury.judgements.get(epoch=own.epoch)
    html = verdict_page(client, jury, shared)
    assert html.count("Copied from another run") == 2
    assert ("so this adds no vote" in html) == bool(shared.outcome)
    assert "Copied from" not in verdict_page(client, own.run, own)


def test_a_judge_that_changed_its_mind_is_shown_doing_so(client: Client, local: FakeServer) -> None:
    local.otherwise = better_is("A")
    run, one = run_with_verdict(make_arena(2, 1))
    html = verdict_page(client, run, one)
    assert "Inconsistent when swapped" in html
    assert "<strong>Left answer is better</strong>" in html
    assert "<strong>Right answer is better</strong>" in html


def test_names_are_sent_only_on_request(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    html = verdict_page(client, run, one)
    assert "<summary>Candidates</summary>" in html
    assert "candidate-" not in html
    assert str(one.comparison.key) not in html
    shown = page_text(client, verdict_url(run, one.pk, names=1), headers=HX)
    assert "candidate-0" in shown
    assert "<html" not in shown
    assert "candidate-0" in verdict_page(client, run, one, names=1)


def test_only_a_comparison_with_a_vote_that_counts_is_linked(
    client: Client, local: FakeServer
) -> None:
    local.otherwise = better_is("TIE")
    run, one = run_with_verdict(make_arena(2, 1))
    link = one.comparison.get_absolute_url()
    assert link in verdict_page(client, run, one, names=1)
    Vote.objects.update(voided_at=timezone.now(), void_reason="wrong")
    assert link not in verdict_page(client, run, one, names=1)


def test_what_a_model_or_a_candidate_wrote_is_never_html(client: Client, local: FakeServer) -> None:
    arena = make_arena(2, 1)
    arena.prompts.update(text="<script>alert(1)</script>", reference="<script>alert(5)</script>")
    rewrite_answers("<img src=x onerror=alert(2)> **bold**")
    local.otherwise = says("<script>alert(3)</script>", model="<script>alert(4)</script>")
    run, one = run_with_verdict(arena)
    html = verdict_page(client, run, one)
    for raw in ("<script>alert", "<img src=x"):
        assert raw not in html
    assert "&lt;script&gt;alert(3)" in html
    assert "&lt;script&gt;alert(4)" in html
    assert "<strong>bold</strong>" in html


def test_repair_turn_is_shown(client: Client, local: FakeServer) -> None:
    local.script.extend([says("Hm."), better_is("A"), better_is("B")])
    run, one = run_with_verdict(make_arena(2, 1))
    html = verdict_page(client, run, one)
    assert "when asked for the verdict only" in html
    assert "Hm." in html


def test_the_reasoning_of_a_structured_reply_is_text_to_be_read(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    reply = json.dumps({"reasoning": 'It says "no".\n\n<b>Why?</b>', "verdict": "A"})
    Call.objects.filter(pk=one.forward_id).update(reply=reply)
    html = verdict_page(client, run, one)
    assert "<p>It says &quot;no&quot;.</p>" in html
    assert "<p>&lt;b&gt;Why?&lt;/b&gt;</p>" in html
    assert "Raw reply" in html


@pytest.mark.parametrize("reply", ["[" * 100_000, "[1]", '{"reasoning": 3}', '"text"', "{", ""])
def test_any_other_reply_is_shown_as_it_came(client: Client, reply: str) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    Call.objects.filter(pk__in=[one.forward_id, one.reverse_id]).update(reply=reply)
    assert "Raw reply" not in verdict_page(client, run, one)


@pytest.mark.parametrize(
    ("rubric", "words"),
    [
        ("score-1-4", "Shown alone."),
        ("additive", "<strong>Score "),
        ("listwise", "List reversed"),
        ("pairwise-note", "Grading note, written before"),
        ("prometheus-absolute", "<strong>Score "),
    ],
)
def test_every_form_of_judging_can_be_read(client: Client, rubric: str, words: str) -> None:
    run, one = run_with_verdict(make_arena(3, 2), f"scripted:scripted-1@{rubric}")
    assert words in verdict_page(client, run, one)


def test_places_in_a_list_are_those_of_the_two_answers(client: Client) -> None:
    run, one = run_with_verdict(make_arena(4, 1), "scripted:scripted-1@listwise")
    call = Call.objects.get(pk=one.forward_id)
    shown = [int(pk) for pk in call.subject.split(",")]
    Call.objects.filter(pk=call.pk).update(verdict={"order": [[3], [2], [1], [0]]})
    left = 4 - shown.index(one.comparison.left_response_id)
    right = 4 - shown.index(one.comparison.right_response_id)
    html = verdict_page(client, run, one)
    assert f"Left answer in place {left}, right answer in place {right} of 4" in html


def test_soft_verdict_probabilities_follow_the_page_s_sides(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    verdict = {"outcome": "left", "p": {"left": 0.7, "right": 0.2, "tie": 0.1}}
    Call.objects.filter(pk=one.reverse_id).update(verdict=verdict)
    html = verdict_page(client, run, one)
    assert "left answer is better 20%" in html
    assert "right answer is better 70%" in html


def test_a_jurys_count_uses_the_sides_shown_on_the_page(client: Client) -> None:
    jury = [f"scripted:scripted-{number}" for number in (1, 2, 3)]
    run, _ = run_with_verdict(make_arena(3, 6), *jury, per_pair=6)
    turned = set()
    for one in run.judgements.select_related("comparison"):
        verdict = one.jury_verdicts.select_related("comparison").get()
        swapped = verdict.comparison.left_response_id != one.comparison.left_response_id
        counts = {"left": 2, "right": 1}
        verdict.counts = counts
        verdict.save()
        left, right = (1, 2) if swapped else (2, 1)
        words = f"(left answer is better: {left}, right answer is better: {right})"
        assert words in verdict_page(client, run, one)
        turned.add(swapped)
        if len(turned) == 2:
            break
    assert turned == {True, False}


def test_one_leafs_through_the_filtered_list(client: Client, local: FakeServer) -> None:
    arena = make_arena(2, 3)
    local.script.extend([better_is("TIE")] * 2 + [better_is("A")] * 2 + [better_is("TIE")] * 2)
    run, newest = run_with_verdict(arena, per_pair=3)
    voted = list(run.judgements.filter(state="voted").order_by("-settled_at", "pk"))
    assert len(voted) == 2
    html = verdict_page(client, run, voted[0], state="voted")
    assert verdict_url(run, voted[1].pk, state="voted") in html
    assert 'rel="prev"' not in html
    html = verdict_page(client, run, voted[1], state="voted")
    assert verdict_url(run, voted[0].pk, state="voted") in html
    assert 'rel="next"' not in html
    between = run.judgements.get(state="abstained")
    assert verdict_url(run, between.pk) in verdict_page(client, run, newest)


def test_verdicts_of_one_moment_are_each_passed_once(client: Client) -> None:
    run, _ = run_with_verdict(make_arena(3, 2), "scripted", per_pair=2)
    run.judgements.update(settled_at=timezone.now())
    ids = list(run.judgements.order_by("pk").values_list("pk", flat=True))
    for before, after in pairwise(ids):
        here, there = (verdict_url(run, pk) for pk in (before, after))
        assert re.search(rf'rel="next" href="{there}"', page_text(client, here))
        assert re.search(rf'rel="prev" href="{here}"', page_text(client, there))


def test_verdict_page_needs_its_own_run_and_a_settled_state(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    other = order(make_arena(2, 1), "scripted")
    assert client.get(verdict_url(other, one.pk)).status_code == 404
    assert client.get(verdict_url(other, other.judgements.get().pk)).status_code == 404
    assert client.get(verdict_url(run, one.pk, state="rubbish")).status_code == 404
    hide_arena(run.arena)
    assert client.get(verdict_url(run, one.pk)).status_code == 404


@pytest.mark.parametrize("members", [1, 3])
def test_the_page_takes_few_queries(
    client: Client, django_assert_max_num_queries: Any, members: int
) -> None:
    judges = [f"scripted:scripted-{number}" for number in range(1, members + 1)]
    run, one = run_with_verdict(make_arena(3, 6), *judges)
    verdict_page(client, run, one)  # renders the texts once and for all
    with django_assert_max_num_queries(6):
        verdict_page(client, run, one)


def vote_url(run: Run, one: Judgement) -> str:
    return reverse("vote_on_verdict", args=[run.arena.slug, run.pk, one.pk])


def test_a_reader_votes_on_the_same_two_blind(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    answer = client.post(vote_url(run, one))
    mine = Comparison.objects.get(rater__kind="person")
    assert answer.url == f"{reverse('vote', args=[run.arena.slug])}?pair={mine.key}"
    assert {mine.left_response_id, mine.right_response_id} == {
        one.comparison.left_response_id,
        one.comparison.right_response_id,
    }
    assert mine.draw_probability is None
    html = page_text(client, answer.url)
    assert str(mine.key) in html
    assert "candidate-" not in html
    client.post(reverse("cast_vote", args=[run.arena.slug, mine.key]), {"outcome": "left"})
    assert Vote.objects.of_people().count() == 1


def test_a_chosen_vote_shows_the_answers_and_does_not_count(client: Client) -> None:
    """Another browser may have shown its rater the names before."""
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    page_text(Client(), verdict_url(run, one.pk, names=1))
    assert "does not count on leaderboards" in page_text(client, verdict_url(run, one.pk))
    client.post(vote_url(run, one))
    mine = Comparison.objects.get(rater__kind="person")
    arena, outcome = run.arena, {"outcome": "left", "seconds": "60"}
    Comparison.objects.filter(pk=mine.pk).update(issued_at=timezone.now() - timedelta(minutes=1))
    client.post(reverse("cast_vote", args=[arena.slug, mine.key]), outcome)
    assert Vote.objects.of_people().get().uncounted == "chosen"
    own = page_text(client, reverse("my_votes", args=[arena.slug]))
    assert "Not counted: you chose this pair yourself" in own


def test_nobody_chooses_a_pair_whose_answers_are_hidden(client: Client) -> None:
    """One browser is told the names of each pair, another reads the two answers: an answer in two
    pairs is by the candidate in both."""
    arena = make_arena(2, 1, team=make_team(), open_answers=False)
    run, one = run_with_verdict(arena, "scripted")
    assert vote_url(run, one) not in page_text(client, verdict_url(run, one.pk))
    assert "blind" in client.post(vote_url(run, one), follow=True).content.decode()
    assert not Comparison.objects.filter(rater__kind="person").exists()
    client.force_login(make_member(arena.team).user)
    assert vote_url(run, one) in page_text(client, verdict_url(run, one.pk))
    client.post(vote_url(run, one))
    assert Comparison.objects.filter(rater__kind="person").exists()


def test_nobody_votes_on_the_same_two_twice(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    client.post(vote_url(run, one))
    mine = Comparison.objects.get(rater__kind="person")
    client.post(reverse("cast_vote", args=[run.arena.slug, mine.key]), {"outcome": "left"})
    html = client.post(vote_url(run, one), follow=True).content.decode()
    assert "You have already seen these two answers" in html
    assert Comparison.objects.filter(rater__kind="person").count() == 1


@pytest.mark.parametrize("headers", [{}, HX])
def test_anyone_who_has_seen_the_names_gets_no_vote_on_them(
    client: Client, headers: dict[str, str]
) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    assert vote_url(run, one) in verdict_page(client, run, one)
    shown = page_text(client, verdict_url(run, one.pk, names=1), headers=headers)
    assert "You’ve seen which candidates these are" in shown
    assert vote_url(run, one) not in shown
    html = client.post(vote_url(run, one), follow=True).content.decode()
    assert re.search(r'role="alert"\s*>\s*You’ve seen which candidates these are', html)
    assert vote_url(run, one) not in html
    assert not Comparison.objects.filter(rater__kind="person").exists()


def test_names_seen_with_one_judge_spoil_others_verdicts(client: Client) -> None:
    arena = make_arena(2, 1)
    first, one = run_with_verdict(arena, "scripted")
    second, other = run_with_verdict(arena, "scripted:scripted-2")
    verdict_page(client, first, one, names=1)
    client.post(vote_url(second, other))
    assert not Comparison.objects.filter(rater__kind="person").exists()


def test_seen_names_spoil_only_that_pair_and_reader(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 2), "scripted")
    verdict_page(client, run, one, names=1)
    other = run.judgements.exclude(pk=one.pk).get()
    client.post(vote_url(run, other))
    Client().post(vote_url(run, one))
    assert Comparison.objects.filter(rater__kind="person").count() == 2


def test_signing_in_makes_nobody_forget_the_names(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    verdict_page(client, run, one, names=1)
    client.force_login(get_user_model().objects.create_user("ann"))
    client.post(vote_url(run, one))
    assert not Comparison.objects.filter(rater__kind="person").exists()


def test_the_names_that_are_remembered_have_a_bound(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "MOST_REMEMBERED", 2)
    run, _ = run_with_verdict(make_arena(2, 3), "scripted", per_pair=3)
    seen = list(run.judgements.order_by("pk"))
    for one in (*seen, seen[1]):
        verdict_page(client, run, one, names=1)
    assert client.session[verdicts.SESSION_KEY] == [seen[2].responses, seen[1].responses]


def test_where_names_are_wanted_a_stranger_signs_in_first(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1, voters="signed_in"), "scripted")
    assert client.post(vote_url(run, one)).url.startswith("/sign-in/")
    assert signed_in("ann").post(vote_url(run, one)).url.startswith(f"/a/{run.arena.slug}/vote/")


def test_anyone_who_is_blocked_gets_no_pair(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    client.post(vote_url(run, one))
    rater = Comparison.objects.get(rater__kind="person").rater
    rater.blocked_at = timezone.now()
    rater.save()
    html = client.post(vote_url(run, one), follow=True).content.decode()
    assert "excluded your votes" in html


def mark(client: Client, run: Run, one: Judgement, said: str, **kwargs: Any) -> Any:
    return client.post(marks_url(run, one.pk), {"mark": said}, **kwargs)


def test_signed_in_people_rate_reasoning_and_may_change_it() -> None:
    ann = signed_in("ann")
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    html = verdict_page(ann, run, one)
    assert html.count('aria-pressed="true"') == 0
    questions = re.findall(r"<legend>(\w+): ", html)
    assert questions == ["Consistent", "Specific", "Critical"]
    assert mark(ann, run, one, "coherent:yes").url == f"{verdict_url(run, one.pk)}#marks"
    mark(ann, run, one, "critical:no")
    html = mark(ann, run, one, "coherent:no", headers=HX).content.decode()
    assert html.count('aria-pressed="true"') == 2
    assert set(Mark.objects.values_list("kind", "holds")) == {
        ("coherent", False),
        ("critical", False),
    }


def test_strangers_read_and_do_not_mark(client: Client) -> None:
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    assert "Rate the reasoning" not in verdict_page(client, run, one)
    assert mark(client, run, one, "coherent:yes").status_code == 403
    assert not Mark.objects.exists()


def test_an_unknown_mark_is_reported() -> None:
    ann = signed_in("ann")
    run, one = run_with_verdict(make_arena(2, 1), "scripted")
    assert "not one of coherent" in mark(ann, run, one, "kind:yes", follow=True).content.decode()


@pytest.fixture
def trial() -> Run:
    labels = LabelSet.objects.create(name="labels", kind="pairs", digest="1" * 64)
    texts = {"prompt": "<b>Why?</b>", "response_1": "One.", "response_2": "Two **strong**."}
    LabelItem.objects.create(labels_in=labels, key="k", **texts)
    epoch = register_judge(spec=spec_named("scripted"))
    now = timezone.now()
    return work_off(order_label_run(epoch=epoch, items=list(labels.items.all()), cap=None, now=now))


def trial_urls(run: Run) -> list[str]:
    one = run.judgements.get().pk
    return [
        reverse("trial_runs"),
        reverse("trial_run", args=[run.pk]),
        reverse("trial_verdict", args=[run.pk, one]),
    ]


def test_staff_read_label_runs_with_their_texts(trial: Run) -> None:
    boss = signed_in("boss", staff=True)
    listed, run, verdict = (page_text(boss, url) for url in trial_urls(trial))
    assert f"Run {trial.pk}" in listed
    assert "trial on labelled items" in run
    assert "become votes" not in run
    assert "&lt;b&gt;Why?" in run
    assert "<strong>strong</strong>" in verdict
    assert "Vote on this pair" not in verdict


def test_nobody_else_does(trial: Run, client: Client) -> None:
    one = trial.judgements.get()
    for url in trial_urls(trial):
        assert client.get(url).status_code == 302
        assert signed_in(f"ann-{url[-5:-1]}").get(url).status_code == 403
    assert mark(signed_in("bob"), trial, one, "coherent:yes").status_code == 403
