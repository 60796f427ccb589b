"""Every shipped rubric judges an arena from the order to the votes."""

import re
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.calls.models import Call
from arena.models import Arena, Vote
from judges.core.rubric import load_rubric, rubric_slugs
from judges.core.spec import JudgeSpec
from judges.models import Epoch, Judgement
from judges.services.calibration import summarise_costs
from judges.services.label_runs import order_label_run, quote_label_run
from judges.services.orders import prepare_order
from judges.services.planning import OrderOptions
from judges.services.quotes import probe_judges, quote_for
from judges.services.registry import JudgeError, Switches, register_judge, spec_named
from tests.factories import DOLLAR, make_arena
from tests.judges.fake_server import (
    Answer,
    FakeServer,
    Sent,
    answers_in,
    completion,
    is_probe,
    nonce_of,
)
from tests.judges.helpers import LOCAL, order, page_text, pair_row, store_labels, work_off

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


def arena_with_references(candidates: int = 3, prompts: int = 4) -> Arena:
    arena = make_arena(candidates, prompts)
    arena.prompts.update(reference="A good answer.")
    return arena


@pytest.mark.parametrize("slug", rubric_slugs())
def test_every_rubric_brings_votes(slug: str) -> None:
    arena = arena_with_references(4, 5)
    run = work_off(order(arena, f"scripted:scripted-1@{slug}", per_pair=5))
    assert run.state == "done"
    settled = Judgement.objects.exclude(state__in=["refused", "unreadable"])
    assert settled.filter(state__in=["voted", "abstained"]).count() == settled.count() > 15
    assert Vote.objects.count() == Judgement.objects.filter(state="voted").count() > 5


def test_a_direct_assessment_is_bought_once_per_answer() -> None:
    run = work_off(order(arena_with_references(4, 3), "scripted:scripted-1@score-1-4", per_pair=3))
    assert run.judgements.count() == 18
    assert Call.objects.count() == 12
    assert set(Call.objects.values_list("requests", flat=True)) <= {1, 2}


def answers_by_sample(*wins: str) -> Answer:
    """For each sample, identified by its nonce, the answer with this sign wins; unreadable without
    one."""
    nonces: list[str] = []

    def answer(body: dict[str, Any]) -> Sent:
        if is_probe(body):
            return completion("Yes.")
        nonce = nonce_of(body)
        if nonce not in nonces:
            nonces.append(nonce)
        sign = wins[nonces.index(nonce)]
        first, _ = answers_in(body)
        verdict = ("A" if sign in first else "B") if sign else "or not"
        return completion(f"Reasons.\nVERDICT-{nonce}: {verdict}")

    return answer


@pytest.mark.parametrize(
    ("wins", "outcome"),
    [(("-0 of", "-1 of", "-0 of"), "-0 of"), (("-1 of", "", "-1 of"), "-1 of"), (("", "", ""), "")],
)
def test_several_samples_of_a_judge_are_one_vote(
    local: FakeServer, staff: Client, wins: tuple[str, ...], outcome: str
) -> None:
    local.otherwise = answers_by_sample(*wins)
    arena = make_arena(2, 4)
    run = work_off(order(arena, LOCAL, per_pair=4, switches=Switches(readings=3)))
    assert (run.state, run.votes_wanted) == ("done", 4)
    assert Call.objects.count() == 4 * 2 * 3
    assert Judgement.objects.count() == 4
    judge = Epoch.objects.get().judge
    assert (judge.readings, str(judge).endswith("+samples3")) == (3, True)
    votes = Vote.objects.select_related("comparison__left_response")
    assert votes.count() == run.votes_done == (4 if outcome else 0)
    for vote in votes:
        assert vote.outcome == (
            "left" if outcome in vote.comparison.left_response.text else "right"
        )
    costs = summarise_costs(Judgement.objects.all())
    assert (costs["calls"], costs["cost"]) == (24, sum(call.cost for call in Call.objects.all()))
    assert not Judgement.objects.filter(state="waiting").exists()
    address = reverse("judge_verdict", args=[arena.slug, run.pk, run.judgements.earliest("pk").pk])
    page = page_text(staff, address)
    assert page.count(", sample 3") == 2
    work_off(order(make_arena(2, 2), LOCAL, per_pair=2))
    assert Epoch.objects.count() == 2  # the judge that is asked once is another one


def test_samples_are_quoted_and_count_for_scores_and_labels(tmp_path: Path) -> None:
    arena = make_arena(2, 4)
    spec = spec_named("scripted@score-1-4", Switches(readings=3))
    plan = prepare_order(arena=arena, specs=[spec], options=OrderOptions(4))
    assert sum(one.calls for one in quote_for(plan).judges) == 4 * 2 * 3
    work_off(order(arena, "scripted@score-1-4", per_pair=4, switches=Switches(readings=3)))
    assert Call.objects.count() == 24
    labels = store_labels(tmp_path, [pair_row(i) for i in range(3)])
    pairwise_spec = spec_named("scripted", Switches(readings=2))
    assert quote_label_run(spec=pairwise_spec, items=list(labels.items.all())).judges[0].calls == 12
    epoch = register_judge(spec=pairwise_spec)
    work_off(
        order_label_run(epoch=epoch, items=list(labels.items.all()), cap=None, now=timezone.now())
    )
    assert epoch.judgements.count() == 3
    assert not epoch.judgements.filter(state="waiting").exists()


def test_the_better_score_wins_and_equal_scores_tie() -> None:
    work_off(order(arena_with_references(4, 3), "scripted:scripted-1@score-1-4", per_pair=3))
    for one in Judgement.objects.filter(state="voted").select_related("forward", "reverse"):
        assert one.forward.verdict is not None
        assert one.reverse.verdict is not None
        left, right = one.forward.verdict["score"], one.reverse.verdict["score"]
        assert one.outcome == ("tie" if left == right else "left" if left > right else "right")
        assert one.forward.subject == str(one.comparison.left_response_id)


def test_the_expected_score_decides_where_probabilities_are_known() -> None:
    soft = Switches(soft=True)
    name = "scripted:scripted-1@score-1-4"
    probe_judges(specs=[spec_named(name, soft)], now=timezone.now())
    work_off(order(arena_with_references(4, 3), name, per_pair=3, switches=soft))
    voted = Judgement.objects.filter(state="voted").select_related("forward", "reverse")
    finer = 0
    for one in voted:
        left, right = (call.verdict["expected"] for call in (one.forward, one.reverse))
        lead = 0 if left == pytest.approx(right) else left - right
        assert one.outcome == ("left" if lead > 0 else "right" if lead < 0 else "tie")
        finer += bool(lead) and one.forward.verdict["score"] == one.reverse.verdict["score"]
    assert finer


def test_the_same_answers_can_be_judged_both_ways_by_one_model() -> None:
    arena = arena_with_references()
    work_off(order(arena, "scripted:scripted-1@score-1-4"))
    work_off(order(arena, "scripted:scripted-1@pairwise"))
    assert Judgement.objects.values("epoch").distinct().count() == 2
    responses = set(Judgement.objects.values_list("responses", flat=True))
    assert 2 * len(responses) >= Judgement.objects.count()


def test_a_list_of_answers_is_asked_twice_for_all_its_pairs() -> None:
    run = work_off(order(arena_with_references(4, 2), "scripted:scripted-1@listwise", per_pair=2))
    assert run.judgements.count() == 12
    assert Call.objects.count() == 4
    shown = [call.subject.split(",") for call in Call.objects.order_by("pk")]
    assert {len(one) for one in shown} == {4}
    assert shown[0][::-1] in shown


def test_many_answers_are_cut_into_lists_of_three_to_eight() -> None:
    order(make_arena(11, 1), "scripted:scripted-1@listwise", per_pair=1)
    assert sorted({call.subject.count(",") + 1 for call in Call.objects.all()}) == [5, 6]


def test_grading_note_is_written_once_per_prompt_first() -> None:
    run = order(arena_with_references(3, 2), "scripted:scripted-1@pairwise-note", per_pair=2)
    notes = Call.objects.filter(subject__startswith="note:")
    assert (notes.count(), Call.objects.count()) == (2, 14)
    assert set(Call.objects.exclude(pk__in=notes).values_list("needs", flat=True)) == set(
        notes.values_list("pk", flat=True)
    )
    work_off(run)
    for call in Call.objects.exclude(needs=None).select_related("needs"):
        assert call.needs is not None
        assert call.finished_at is not None
        assert call.needs.finished_at is not None
        assert call.needs.finished_at <= call.finished_at


def test_rubric_with_references_skips_prompts_without() -> None:
    arena = arena_with_references(2, 3)
    arena.prompts.filter(external_id="p0").update(reference="")
    spec = spec_named("scripted:scripted-1@pairwise-reference")
    prepared = prepare_order(arena=arena, specs=[spec], options=OrderOptions(3))
    assert len(prepared.picks) == 2
    assert any("lack the reference answer" in said for said in prepared.left_out)
    arena.prompts.update(reference="")
    with pytest.raises(JudgeError, match="lack the reference answer"):
        prepare_order(arena=arena, specs=[spec], options=OrderOptions(3))


def test_an_order_policy_turns_flips_into_ties_or_averages() -> None:
    arena = make_arena(4, 12)
    for policy in ("tie", "average"):
        switches = Switches(swap_policy=policy)
        run = work_off(order(arena, "scripted:scripted-1", per_pair=12, switches=switches))
        flipped = run.judgements.filter(flipped=True)
        assert flipped.exists()
        assert set(flipped.values_list("state", flat=True)) == {"voted"}
        soft = flipped.exclude(preference=None).count()
        assert soft == (flipped.count() if policy == "average" else 0)


def test_an_arenas_criteria_and_a_prompts_rubric_reach_the_judge(local) -> None:  # type: ignore[no-untyped-def]
    arena = make_arena(2, 2)
    arena.criteria = "Only rhyme counts."
    arena.save()
    arena.prompts.filter(external_id="p1").update(rubric="Only brevity counts.")
    work_off(order(arena, per_pair=2))
    sent = [str(body["messages"]) for body in local.requests]
    assert sum("Only rhyme counts." in one for one in sent) == 2
    assert sum("Only brevity counts." in one for one in sent) == 2


def test_a_quote_counts_each_answer_once_and_knows_what_was_made() -> None:
    arena = arena_with_references(3, 4)
    spec = spec_named("scripted:scripted-1@score-1-4")
    prepared = prepare_order(arena=arena, specs=[spec], options=OrderOptions(4))
    quote = quote_for(prepared)
    assert (quote.pairs, quote.comparisons, quote.calls) == (3, 12, 12)
    assert (quote.expected, quote.worst) == (0, 0)
    assert quote.judges[0].tokens_in > 12 * 50
    arena.prompts.filter(external_id="p0").update(retired_at=timezone.now())
    assert quote_for(prepare_order(arena=arena, specs=[spec], options=OrderOptions(4))).calls == 9


def test_shipped_rubrics_are_those_of_the_readme() -> None:
    assert len(rubric_slugs()) == 12
    assert all(load_rubric(slug).title for slug in rubric_slugs())


def begins_alike(first: str, second: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )


def test_requests_about_one_prompt_follow_each_other_and_begin_alike(local: FakeServer) -> None:
    arena = arena_with_references(4, 3)
    work_off(order(arena, per_pair=3))
    asked = ["".join(one["content"] for one in body["messages"]) for body in local.requests]
    assert len(asked) == 36
    prompts = [body["messages"][1]["content"].split("Answer A:")[0] for body in local.requests]
    assert [prompt for prompt, _ in groupby(prompts)] == list(dict.fromkeys(prompts))
    firsts = [body["messages"][1]["content"].split("Answer B:")[0] for body in local.requests]
    assert len(list(groupby(firsts))) == len(set(firsts)) == 12
    system = len(local.requests[0]["messages"][0]["content"])
    assert all(begins_alike(*two) > system for two in pairwise(asked))


def test_a_note_is_asked_for_with_a_nonce_of_its_own(local: FakeServer) -> None:
    run = order(arena_with_references(2, 2), f"{LOCAL}@pairwise-note", per_pair=2)
    notes = Call.objects.filter(run=run, subject__startswith="note:")
    others = Call.objects.filter(run=run).exclude(pk__in=notes)
    assert len(set(others.values_list("nonce", flat=True))) == 1
    nonces = set(Call.objects.filter(run=run).values_list("nonce", flat=True))
    assert len(nonces) == 1 + notes.count() == 3


def as_asked(spec: JudgeSpec) -> Answer:
    """Replies as long as the rubric asks for: so many words for each answer or item."""
    reasons = " ".join(["It says what matters, and one could act on it at once."] * 4)

    def answer(body: dict[str, Any]) -> Sent:
        asked = "".join(one["content"] for one in body["messages"])
        shown = max(1, len(re.findall(r"^<answer(?:-[a-z])?-\w+>$", asked, re.M)))
        nonce = (re.findall(r"VERDICT-([0-9a-f]+)", asked) or [""])[-1]
        text = f"{reasons * shown}\nVERDICT-{nonce}: {'A' if shown == 2 else 3}"
        if spec.rubric.items:
            said = [f"The answer does say so.\nVERDICT-{nonce} {i}: YES" for i in range(1, 6)]
            text = "\n".join(said)
        if spec.rubric.slug == "additive":  # the points one by one
            told = "It says what matters, so it earns the point. 1 point.\n"
            text = f"{told * 5}\nVERDICT-{nonce}: 5"
        if spec.rubric.verdict == "prometheus":
            verdict = "A" if spec.protocol == "pairwise" else 3
            text = f"Feedback: {reasons} {reasons} [RESULT] {verdict}"
        elif not nonce:
            text = "- It must say why, and be brief about it.\n" * 10
        return completion(text, tokens_in=len(asked) // 4, tokens_out=len(text) // 4)

    return answer


@pytest.mark.parametrize(
    "slug",
    [
        "pairwise", "pairwise-note", "score-1-4", "checklist", "additive", "additive-points",
        "prometheus-absolute", "prometheus-relative",
    ],
)  # fmt: skip
def test_a_first_quote_is_near_what_such_replies_cost(
    slug: str, paid: FakeServer, tmp_path: Path
) -> None:
    words = "A long answer that says one thing after another, as such answers do. " * 20
    rows = [pair_row(i, reference=words * 2) for i in range(4)]
    for row in rows:
        row |= {name: f"{row[name]} {words}" for name in ("response_1", "response_2")}
    spec = spec_named(f"{LOCAL}@{slug}")
    paid.otherwise = as_asked(spec)
    items = list(store_labels(tmp_path, rows).items.all())
    quoted = quote_label_run(spec=spec, items=items).expected
    run = order_label_run(
        epoch=register_judge(spec=spec), items=items, cap=DOLLAR, now=timezone.now()
    )
    work_off(run)
    assert quoted is not None
    assert Judgement.objects.filter(state__in=["voted", "abstained"]).count() == 4
    assert 1 / 1.5 < quoted / run.settled < 1.5
