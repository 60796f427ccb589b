"""Starting a judge run in the browser: the quote, the judge's prompts, then the order."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.calls.models import Capability, Price
from arena.models import Call, Response, Run
from judges.models import Judge
from judges.services.registry import register_judge, spec_named
from tests.described import undescribed
from tests.factories import NOW, make_arena, make_person, rewrite_answers
from tests.judges.fake_server import FakeServer, says
from tests.judges.helpers import (
    QUOTE,
    add_endpoint,
    hide_arena,
    issue_pair,
    order,
    order_on_page,
    order_url,
    page_text,
    post_order,
    quote_mark,
    quote_page,
    run_url,
    signed_in,
    vote_on,
    work_off,
)

pytestmark = pytest.mark.django_db


def test_a_stranger_is_asked_to_sign_in_and_cannot_post(client: Client) -> None:
    arena = make_arena()
    answer = client.get(order_url(arena))
    assert answer.status_code == 302
    assert answer.url == f"/sign-in/?next={order_url(arena)}"
    assert post_order(client, arena, do="order").status_code == 403
    assert client.post(reverse("arena_criteria", args=[arena.slug])).status_code == 403


def test_anyone_who_is_not_of_the_staff_is_refused() -> None:
    ann, arena = signed_in("ann"), make_arena()
    refused = ann.get(order_url(arena))
    assert refused.status_code == 403
    assert "This is for site staff only" in refused.content.decode()
    assert post_order(ann, arena, do="order").status_code == 403
    assert ann.post(reverse("arena_criteria", args=[arena.slug])).status_code == 403
    assert not Run.objects.exists()


def test_another_site_cannot_order_in_somebodys_name(staff: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = staff.cookies
    assert post_order(strict, make_arena(), do="order").status_code == 403


def test_a_hidden_arena_takes_no_orders(staff: Client) -> None:
    arena = make_arena()
    hide_arena(arena)
    assert staff.get(order_url(arena)).status_code == 404


def test_without_a_model_the_scripted_judges_are_offered_first(staff: Client) -> None:
    html = page_text(staff, order_url(make_arena()))
    assert "No models are set up here yet." in html
    assert html.index("scripted:scripted-3") < html.index("Models by name")


def test_quote_keeps_what_was_filled_in(staff: Client) -> None:
    arena = make_arena(3, 4)
    html = quote_page(
        staff, arena, per_pair="3", own_family="on", quorum="", rubric="pairwise-note"
    )
    assert "<strong>3 pairs</strong>, 9 comparisons" in html
    assert re.search(r'name="per_pair" value="3"', html)
    assert re.search(r'name="own_family"[^>]* checked', html)
    assert '<option value="pairwise-note" selected>' in html
    assert not Run.objects.exists()
    assert not Call.objects.exists()
    assert not Judge.objects.exists()


def test_the_quote_says_what_is_left_out(staff: Client) -> None:
    arena = make_arena(3, 4)
    Response.objects.filter(pk=Response.objects.first().pk).update(text="  \n")
    assert "1 answer is blank and left out." in quote_page(staff, arena)


def test_unknown_price_is_shown_before_the_order(staff: Client, settings: Any) -> None:
    add_endpoint(settings, "paid")
    html = quote_page(staff, make_arena(), scripted=[], typed="paid:judge-2024-07-01")
    assert "price unknown" in html
    assert "manage.py price paid judge-2024-07-01" in html


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"scripted": []}, "Choose at least one judge, or name a model."),
        ({"typed": "nowhere:model"}, "nowhere"),
        ({"typed": "nobody"}, "There is no judge called"),
        ({"scripted": [], "typed": "scripted:gpt-latest"}, "latest"),
        ({"typed": "scripted:nope"}, "The scripted judges are: scripted-1, scripted-2"),
        ({"rubric": "score-1-4", "order_policy": "tie"}, "needs no order policy"),
        ({"rubric": "pairwise-reference"}, "reference"),
        ({"quorum": "2"}, "more verdicts than it has judges"),
        ({"quorum": "10"}, "less than or equal to 9"),
        ({"per_pair": "0"}, "greater than or equal to 1"),
        ({"cap": "-1"}, "greater than or equal to 0"),
        ({"like_run": "12345"}, "no such judge run"),
        ({"like_run": "abc"}, "no such judge run"),
        ({"rubric": "unknown"}, "not one of the available choices"),
    ],
)
def test_what_cannot_be_is_reported(staff: Client, fields: dict[str, Any], sentence: str) -> None:
    html = quote_page(staff, make_arena(), **fields)
    assert sentence in html
    assert not undescribed(html)
    assert not Run.objects.exists()


def test_both_texts_are_shown_as_they_are_sent(staff: Client) -> None:
    arena = make_arena(2, 2, question="Which one?")
    rewrite_answers("<script>alert(1)</script>")
    html = quote_page(staff, arena)
    assert "<h4>System</h4>" in html
    assert "<h4>User</h4>" in html
    assert "VERDICT-0123456789abcdef" in html
    assert "&lt;script&gt;alert(1)" in html
    assert "<script>alert(1)" not in html


def test_the_schema_is_shown_where_the_model_takes_one(staff: Client) -> None:
    Capability.objects.create(endpoint="scripted", model="scripted-1", json_schema=True)
    html = quote_page(staff, make_arena(2, 2))
    assert "JSON schema of the reply" in html
    assert "&quot;enum&quot;: [" in html
    assert "VERDICT-0123456789abcdef" not in html


def test_the_grading_note_is_shown_before_the_verdict(staff: Client) -> None:
    html = quote_page(staff, make_arena(2, 2), rubric="pairwise-note")
    assert html.index("First, for its grading note") < html.index("One order of the two")
    assert "own grading note goes here" in html


@pytest.mark.parametrize("rubric", ["score-1-4", "additive", "listwise", "prometheus-absolute"])
def test_every_form_of_judging_can_be_looked_at(staff: Client, rubric: str) -> None:
    html = quote_page(staff, make_arena(3, 2), rubric=rubric)
    assert "<h4>User</h4>" in html
    assert "of the list" in html if rubric == "listwise" else "Score of one answer" in html


def test_one_leafs_through_the_comparisons(staff: Client) -> None:
    arena = make_arena(2, 2)
    first, second = quote_page(staff, arena), quote_page(staff, arena, preview="2")
    assert "Comparison 1 of 2" in first
    assert "Comparison 2 of 2" in second
    asked = [re.search(r"Question \d", html[html.index("<h4>User") :]) for html in (first, second)]
    assert asked[0].group() != asked[1].group()
    assert "Comparison 2 of 2" in quote_page(staff, arena, preview="999")
    assert "Comparison 1 of 2" in quote_page(staff, arena, preview="rubbish")


def test_an_order_opens_a_run_and_leads_to_it(staff: Client) -> None:
    arena = make_arena(3, 4)
    answer = order_on_page(staff, arena, scripted=["scripted:scripted-1", "scripted:scripted-2"])
    run = Run.objects.get()
    assert answer.status_code == 302
    assert answer.url == f"{run_url(run)}#main"
    assert (run.state, run.created_by.username, run.per_pair) == ("open", "boss", 2)
    assert run.run_judges.count() == 3
    work_off(run)
    assert run.state == "done"


def test_an_order_that_differs_from_its_quote_is_quoted_again(staff: Client) -> None:
    arena = make_arena(3, 4)
    mark = quote_mark(quote_page(staff, arena, per_pair="1"))
    answer = post_order(staff, arena, do="order", quoted=mark, per_pair="4")
    assert "have changed since the quote" in answer.content.decode()
    assert not Run.objects.exists()


def test_nothing_is_ordered_unseen(staff: Client) -> None:
    post_order(staff, make_arena(), do="order")
    assert not Run.objects.exists()


def test_the_options_and_the_cap_arrive(staff: Client, local: FakeServer) -> None:
    local.otherwise = says("Yes.")
    fields = {
        "scripted": [],
        "typed": "local:judge-7b-2024-07-01",
        "cap": "1.50",
        "order_policy": "tie",
        "soft": "on",
        "any_length": "on",
        "own_family": "on",
    }
    assert order_on_page(staff, make_arena(), **fields).status_code == 302
    judge, run = Judge.objects.get(), Run.objects.get()
    assert (judge.order_policy, judge.soft, judge.length_neutral) == ("tie", True, False)
    assert run.cap == 1_500_000_000
    assert run.run_judges.get().own_family


def test_judges_are_chosen_from_a_list_with_their_prices(staff: Client, settings: Any) -> None:
    add_endpoint(settings, "paid")
    Price.objects.create(
        endpoint="paid",
        model="judge-2024-07-01",
        input_per_million=10**9,
        output_per_million=2 * 10**9,
        entered_at=NOW,
    )
    register_judge(spec=spec_named("scripted:scripted-2@pairwise-note"))
    arena = make_arena()
    html = page_text(staff, order_url(arena))
    listed = re.search(r'value="paid:judge-2024-07-01".*?about \$([\d.]+) per 1,000', html, re.S)
    assert listed
    assert re.search(r"scripted-2@pairwise-note.*?free", html, re.S)
    quote = quote_page(staff, arena, scripted=[], models=["paid:judge-2024-07-01"], per_pair="4")
    expected = re.search(r"<strong>\$([\d.]+)</strong> expected", quote)
    assert expected
    # Three pairs of four comparisons each, all with texts of the usual length.
    assert float(expected[1]) * 1000 / 12 == pytest.approx(float(listed[1]), rel=0.1)


def test_a_registered_judge_comes_as_it_was_registered(staff: Client) -> None:
    epoch = register_judge(spec=spec_named("scripted:scripted-2@pairwise-note"))
    fields = {"scripted": [], "registered": [epoch.judge.name], "order_policy": "tie"}
    assert order_on_page(staff, make_arena(), **fields).status_code == 302
    assert Run.objects.get().run_judges.get().epoch == epoch


def test_another_judge_is_asked_the_same(staff: Client) -> None:
    arena = make_arena(3, 6)
    first = order(arena, "scripted:scripted-1", per_pair=2)
    html = page_text(staff, order_url(arena, like_run=first.pk))
    assert f'name="like_run" value="{first.pk}"' in html
    order_on_page(staff, arena, scripted=["scripted:scripted-2"], like_run=str(first.pk))
    second = Run.objects.latest("pk")
    asked = [set(run.judgements.values_list("responses", flat=True)) for run in (first, second)]
    assert asked[0] == asked[1]


def test_repeating_a_run_needs_no_choice_of_pairs(staff: Client) -> None:
    """Only the page's form fields are sent, as a browser does."""
    arena = make_arena(3, 6)
    first = order(arena, "scripted:scripted-1")
    page = page_text(staff, order_url(arena, like_run=first.pk))
    form = page[page.index('id="order"') : page.index('id="offer"')]
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))
    assert 'type="radio" name="pairs"' not in form
    shown = {name: value for name, value in QUOTE.items() if name != "pairs"}
    answer = staff.post(
        order_url(arena), {**shown, **hidden, "scripted": "scripted:scripted-2", "do": "quote"}
    )
    assert 'name="quoted"' in answer.content.decode()


def test_a_server_that_is_down_is_reported_before_a_run_exists(
    staff: Client, settings: Any
) -> None:
    add_endpoint(settings, "down", timeout=0.5)
    Price.objects.create(
        endpoint="down", model="judge-2024-07-01", input_per_million=0, output_per_million=0
    )
    answer = order_on_page(staff, make_arena(), scripted=[], typed="down:judge-2024-07-01")
    assert "down:judge-2024-07-01 cannot be asked" in answer.content.decode()
    assert not Run.objects.exists()


def test_edited_criteria_reach_the_judge(staff: Client) -> None:
    arena = make_arena()
    criteria = reverse("arena_criteria", args=[arena.slug])
    answer = staff.post(criteria, {"criteria": "Rhymes are better."}, follow=True)
    assert "Criteria saved." in answer.content.decode()
    assert "Rhymes are better." in quote_page(staff, arena).split("<h4>System</h4>")[1]


def test_criteria_are_not_changed_under_a_run(staff: Client) -> None:
    arena = make_arena()
    run = order(arena, "scripted")
    criteria = reverse("arena_criteria", args=[arena.slug])
    html = staff.post(criteria, {"criteria": "Other words."}).content.decode()
    assert f"Run {run.pk} uses the current criteria." in html
    assert "Other words." in html


def test_two_candidates_can_be_chosen_of_many(staff: Client) -> None:
    arena = make_arena(4, 3)
    first, second, *_ = arena.candidates.order_by("pk")
    html = quote_page(staff, arena, candidates=[first.pk, second.pk])
    assert "<strong>1 pair</strong>, 2 comparisons" in html
    order_on_page(staff, arena, candidates=[first.pk, second.pk])
    asked = {frozenset(pair) for pair in Run.objects.get().comparisons.values_list("left", "right")}
    assert asked == {frozenset({first.pk, second.pk})}


def test_too_few_or_foreign_candidates_are_refused(staff: Client) -> None:
    arena, other = make_arena(3, 3), make_arena(2, 3)
    mine, theirs = arena.candidates.first(), other.candidates.first()
    assert "Choose at least two candidates" in quote_page(staff, arena, candidates=[mine.pk])
    assert "not one of the available choices" in quote_page(staff, arena, candidates=[theirs.pk])


def test_a_link_fills_in_the_two_and_how_often(staff: Client) -> None:
    arena = make_arena(3, 3)
    first, second, third = arena.candidates.order_by("pk")
    query = f"?candidate={first.pk}&candidate={second.pk}&again=1&per_pair=3"
    html = page_text(staff, order_url(arena) + query)
    boxes = re.findall(r'name="candidates" value="(\d+)"[^>]*checked', html)
    assert boxes == [str(first.pk), str(second.pk)]
    assert re.search(r'name="again"[^>]*checked', html)
    assert 'name="per_pair" value="3"' in html
    assert str(third) in html


def test_the_link_below_the_measurements_chooses_voted_pairs(
    staff: Client, local: FakeServer
) -> None:
    arena = make_arena(3, 3)
    order(arena)
    page = page_text(staff, reverse("judge_runs", args=[arena.slug]))
    (query,) = re.findall(rf'href="{order_url(arena)}(\?[^"]*)">run of the pairs', page)
    chosen = re.findall(
        r'name="pairs" value="(\w+)"[^>]*checked', page_text(staff, order_url(arena) + query)
    )
    assert chosen == ["voted"]
    asked = page_text(staff, order_url(arena) + query)
    assert 'name="per_pair" value="3"' in asked  # one for each prompt: all pairs with human votes
    assert 'value="all"' in page_text(staff, order_url(arena) + "?pairs=some")


@pytest.mark.parametrize("query", ["?candidate=x&candidate=%00", "?per_pair=-1", "?per_pair=٣٣٣٣٣"])
def test_a_link_that_is_none_fills_nothing_in(staff: Client, query: str) -> None:
    html = page_text(staff, order_url(make_arena(3, 3)) + query)
    assert 'name="per_pair" value="5"' in html
    assert not re.search(r'name="candidates"[^>]*checked', html)


def test_quote_says_when_prompts_are_too_few(staff: Client) -> None:
    arena = make_arena(3, 4)
    html = quote_page(staff, arena, per_pair="73")
    assert "3 pairs have fewer than 73 comparisons left, so this is 12 instead of 219." in html
    assert "more votes need more prompts" in html
    assert "more votes need more prompts" not in quote_page(staff, arena, per_pair="4")


def test_quote_of_pairs_with_human_votes_says_that_these_are_few(staff: Client) -> None:
    arena, person = make_arena(2, 4), make_person()
    vote_on(issue_pair(arena, person, 1), person, "left")
    html = quote_page(staff, arena, pairs="voted", per_pair="3")
    assert "1 pair has fewer than 3 comparisons left, so this is 1 instead of 3." in html
    assert "here only on those with human votes on the pair." in html
    assert "more votes need more prompts" not in html  # more human votes would do
    assert "can be judged again" not in html  # the lead plays no part here
    order_on_page(staff, arena, pairs="voted", per_pair="3")
    html = quote_page(staff, arena, pairs="voted", per_pair="3")
    assert "No pair with human votes is left to judge. Choose “All pairs” instead." in html


def test_quote_of_pairs_with_human_votes_says_how_many_it_leaves_out(staff: Client) -> None:
    arena, person = make_arena(2, 4), make_person()
    for number in range(4):
        vote_on(issue_pair(arena, person, number), person, "left")
    html = quote_page(staff, arena, pairs="voted", per_pair="1")
    assert "3 more comparisons with human votes" in html
    assert "4 comparisons per pair would include them" in html
    assert "more comparisons with human votes" not in quote_page(
        staff, arena, pairs="voted", per_pair="4"
    )
    assert "more comparisons with human votes" not in quote_page(staff, arena, per_pair="1")
