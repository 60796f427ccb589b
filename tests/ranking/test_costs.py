"""The cost and time of answers beside the scores, and value for money."""

import csv
import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from arena.models import Arena, Import, Response
from arena.signals import announce, answers_changed
from ranking.costs import CostAndSpeed, add_wins, expected_wins, read_costs
from ranking.models import Standing
from ranking.templatetags.ranking_tags import figures
from tests.factories import make_arena
from tests.ranking.helpers import make_voted_arena, publish, rank_anyway

NANO = 10**9
SCALE = 400.0


def weighed(*candidates: tuple[float | None, CostAndSpeed]) -> dict[int, CostAndSpeed]:
    """Weigh candidates 1, 2, ... of these scores."""
    standings = [
        Standing(candidate_id=i, score=score) for i, (score, _) in enumerate(candidates, 1)
    ]
    values = {i: value for i, (_, value) in enumerate(candidates, 1)}
    return add_wins(values, standings, SCALE)


def marked(*candidates: tuple[float | None, CostAndSpeed]) -> list[int]:
    return [i for i, value in weighed(*candidates).items() if value.unbeaten]


def costs(dollars: float) -> CostAndSpeed:
    return CostAndSpeed(price=round(dollars * NANO), n_priced=4)


def test_wins_are_those_against_the_average_candidate() -> None:
    assert expected_wins(0, SCALE) == 0.5
    assert expected_wins(400, SCALE) == pytest.approx(10 / 11)
    assert expected_wins(-400, SCALE) == pytest.approx(1 / 11)
    assert expected_wins(191, SCALE) == pytest.approx(0.75, abs=1e-3)


def test_a_dollar_and_a_second_buy_so_many_wins() -> None:
    cheap = CostAndSpeed(price=2 * NANO, n_priced=4, seconds=0.5, n_timed=4)
    found = weighed((1200.0, cheap), (800.0, CostAndSpeed()))[1]
    # The average is 1000, so it wins 1 / (1 + 10^-0.5); an answer costs $0.002.
    wins = 1 / (1 + 10**-0.5)
    assert found.wins_per_dollar == pytest.approx(wins / 0.002)
    assert found.wins_per_second == pytest.approx(wins / 0.5)


def test_what_is_free_instant_or_unranked_has_no_such_figure() -> None:
    free = CostAndSpeed(price=0, n_priced=4, seconds=0.0, n_timed=4)
    unranked = CostAndSpeed(price=NANO, n_priced=4, seconds=1.0, n_timed=4)
    found = weighed((1000.0, free), (None, unranked))
    assert [(v.wins_per_dollar, v.wins_per_second) for v in found.values()] == [(None, None)] * 2
    assert found[2].price == NANO
    assert weighed((None, unranked))[1] == unranked


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([(1100.0, costs(2)), (900.0, costs(1)), (800.0, costs(1.5))], [1, 2]),
        ([(1100.0, costs(1)), (900.0, costs(2))], [1]),
        ([(1000.0, costs(1)), (1000.0, costs(2))], [1]),
        ([(1100.0, costs(1)), (900.0, costs(1))], [1]),
        ([(1000.0, costs(1)), (1000.0, costs(1))], [1, 2]),
        ([(1000.0, costs(0)), (1100.0, costs(1))], [1, 2]),
        ([(1000.0, costs(1)), (1100.0, CostAndSpeed())], []),
        ([(1000.0, costs(1)), (None, costs(0.5))], []),
    ],
)
def test_candidates_undominated_on_score_and_price_are_marked(
    candidates: list[tuple[float | None, CostAndSpeed]], expected: list[int]
) -> None:
    assert marked(*candidates) == expected


@given(
    st.lists(
        st.tuples(st.integers(800, 1200).map(float), st.integers(0, 5).map(costs)),
        min_size=2,
        max_size=8,
    )
)
def test_an_unmarked_candidate_is_beaten_by_a_marked_one(
    candidates: list[tuple[float | None, CostAndSpeed]],
) -> None:
    best = [candidates[i - 1] for i in marked(*candidates)]
    assert best
    for score, value in candidates:
        assert score is not None
        assert value.price is not None
        assert any((one or 0) >= score and (other.price or 0) <= value.price for one, other in best)


@pytest.mark.parametrize(
    ("value", "written"),
    [(None, "–"), (0.5123, "0.512"), (12.345, "12.3"), (840.4, "840"), (12345.6, "12,346")],
)
def test_figures_are_short(value: float | None, written: str) -> None:
    assert figures(value) == written


def row_of(page: str, name: str) -> dict[str, str]:
    """The cells of a candidate in the board's table, by column."""
    table = page[page.index('<table class="board') :].partition("</table>")[0]
    head, _, body = table.partition("</thead>")
    columns = re.findall(r'<th\s+scope="col".*?</th>', head, re.DOTALL)
    (row,) = [part for part in body.split("<tr") if f'title="{name}"' in part]
    cells = re.findall(r"<t[hd][^>]*>.*?</t[hd]>", row, re.DOTALL)
    return dict(zip(map(words_of, columns), map(words_of, cells), strict=True))


def words_of(cell: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", cell).split())


@pytest.fixture
def arena(db: None) -> Arena:
    """Three candidates, four prompts in two categories, 24 votes of one person."""
    return make_voted_arena(n_prompts=4, rounds=2)


@pytest.fixture
def priced_arena(arena: Arena) -> Arena:
    """The first candidate's answers cost $1 for 1,000 and take 2 s, but for one of which no cost is
    known; the second one's cost $4; of the third nothing is known."""
    first, second, _ = arena.candidates.order_by("pk")
    answers = first.responses.order_by("prompt")
    answers.update(cost=NANO // 1000, seconds=2.0)
    Response.objects.filter(pk=answers[0].pk).update(cost=None)
    second.responses.update(cost=4 * NANO // 1000)
    return arena


def test_means_are_over_the_answers_of_which_something_is_known(priced_arena: Arena) -> None:
    first, second, third = priced_arena.candidates.order_by("pk").values_list("pk", flat=True)
    found = read_costs(priced_arena, "")
    assert found[first] == CostAndSpeed(price=NANO, n_priced=3, seconds=2.0, n_timed=4)
    assert found[second] == CostAndSpeed(price=4 * NANO, n_priced=4)
    assert third not in found


def test_answer_with_only_tokens_known_counts_them(arena: Arena) -> None:
    first = arena.candidates.order_by("pk")[0]
    answers = first.responses.order_by("prompt")
    known = ((100, 10), (200, None), (None, 40), (None, None))
    for answer, (sent, got) in zip(answers, known, strict=True):
        Response.objects.filter(pk=answer.pk).update(tokens_in=sent, tokens_out=got)
    assert read_costs(arena, "") == {
        first.pk: CostAndSpeed(tokens_in=150.0, tokens_out=25.0, n_counted=3)
    }


def test_the_board_and_its_files_tell_the_tokens_of_an_answer(client: Client, arena: Arena) -> None:
    first, second, _ = arena.candidates.order_by("pk")
    first.responses.update(tokens_in=1203, tokens_out=412)
    second.responses.update(tokens_out=95)
    publish(arena)
    rank_anyway(arena)
    page = client.get("/a/support/?columns=details").text
    shown = [row_of(page, f"candidate-{n}")["Tokens"] for n in range(3)]
    assert shown == ["1.2k → 412", "– → 95", "–"]
    lines = csv.DictReader(io.StringIO(client.get("/a/support/results.csv").text))
    told = {line["candidate"]: line for line in lines}["candidate-0"]
    assert (told["tokens_in_per_answer"], told["tokens_out_per_answer"]) == ("1203.0", "412.0")
    assert told["answers_with_tokens"] == "4"


def test_a_category_s_board_counts_its_own_prompts(priced_arena: Arena) -> None:
    first = priced_arena.candidates.order_by("pk")[0]
    first.responses.filter(prompt__category="category-1").update(cost=F("cost") * 3)
    assert read_costs(priced_arena, "category-1")[first.pk].price == 3 * NANO
    assert read_costs(priced_arena, "category-0")[first.pk].price == NANO
    assert read_costs(priced_arena, "category-0")[first.pk].n_timed == 2


def test_costs_of_a_blind_category_take_one_query(
    priced_arena: Arena, django_assert_num_queries: Callable[..., Any]
) -> None:
    priced_arena.open_answers = False
    with django_assert_num_queries(1):
        read_costs(priced_arena, "category-1")


def test_answers_of_an_import_that_is_hidden_do_not_count(priced_arena: Arena) -> None:
    source = Import.objects.create(arena=priced_arena, sha256="0" * 64, started_at=timezone.now())
    for number, answer in enumerate(Response.objects.all()):
        Response.objects.filter(pk=answer.pk).update(source=source, source_row=number)
    assert read_costs(priced_arena, "") == {}


def test_the_board_shows_prices_and_times(client: Client, priced_arena: Arena) -> None:
    publish(priced_arena)
    rank_anyway(priced_arena)
    page = client.get("/a/support/").text
    shown = [row_of(page, f"candidate-{n}") for n in range(3)]
    assert [row["$ / 1,000 answers"] for row in shown] == ["$1.00", "$4.00", "–"]
    assert [row["Time"] for row in shown] == ["2.0 s", "–", "–"]
    assert "Wins per" not in page
    assert 'id="cost"' in client.get("/a/support/about/").text


@pytest.mark.parametrize("sort", ["price", "wins_per_dollar", "seconds", "wins_per_second"])
def test_the_board_is_sorted_by_what_is_paid_and_waited_for(
    client: Client, priced_arena: Arena, sort: str
) -> None:
    publish(priced_arena)
    rank_anyway(priced_arena)
    page = client.get(f"/a/support/?sort={sort}").content.decode()
    names = re.findall(r'<a [^>]+title="(candidate-\d)"', page)
    assert names[0] == "candidate-0"
    assert names[-1] == "candidate-2"
    turned = client.get(f"/a/support/?sort=-{sort}").content.decode()
    again = re.findall(r'<a [^>]+title="(candidate-\d)"', turned)
    assert again[-1] == "candidate-2", "what is not known comes last either way"


@pytest.mark.usefixtures("arena")
def test_a_board_without_costs_has_no_such_columns(client: Client, arena: Arena) -> None:
    publish(arena)
    rank_anyway(arena)
    page = client.get("/a/support/").content.decode()
    assert "$ / 1,000" not in page
    assert ">Time<" not in page
    assert "/price/" not in page
    assert "Tokens" not in client.get("/a/support/?columns=details").text


def test_the_files_say_the_same(client: Client, priced_arena: Arena) -> None:
    publish(priced_arena)
    rank_anyway(priced_arena)
    found = json.loads(client.get("/a/support/results.json").content)
    rows = {row["candidate"]: row for row in found["standings"]}
    first = rows["candidate-0"]
    assert first["dollars_per_1000_answers"] == 1.0
    assert (first["answers_with_cost"], first["answers_with_seconds"]) == (3, 4)
    assert first["seconds_per_answer"] == 2.0
    share = expected_wins(first["score"] - 1000, SCALE)
    assert first["wins_per_dollar"] == pytest.approx(share / 0.001, rel=1e-3)
    assert first["wins_per_second"] == pytest.approx(share / 2.0, rel=1e-3)
    assert rows["candidate-2"]["dollars_per_1000_answers"] is None
    assert [name for name, row in rows.items() if row["unbeaten_for_its_price"]] != []
    lines = list(csv.DictReader(io.StringIO(client.get("/a/support/results.csv").content.decode())))
    assert lines[0].keys() >= {"dollars_per_1000_answers", "wins_per_second"}
    by_name = {line["candidate"]: line for line in lines}
    assert by_name["candidate-1"]["dollars_per_1000_answers"] == "4.0"


def test_answers_that_come_without_votes_show_at_once(
    client: Client, arena: Arena, django_capture_on_commit_callbacks: Any
) -> None:
    publish(arena)
    rank_anyway(arena)
    assert "$ / 1,000" not in client.get("/a/support/").text
    Response.objects.update(cost=NANO // 1000)
    with django_capture_on_commit_callbacks(execute=True):
        announce(answers_changed, arena_id=arena.pk)
    assert "$ / 1,000" in client.get("/a/support/").text


@pytest.mark.django_db
def test_the_length_of_a_single_answer_on_a_blind_ballot_is_not_told() -> None:
    arena = make_arena(2, 12, open_answers=False)  # every category has six prompts
    Response.objects.update(tokens_out=F("prompt"))
    alone = arena.prompts.filter(category="category-1").order_by("pk")
    alone.filter(pk__in=list(alone.values_list("pk", flat=True)[:5])).update(category="others")
    names = ("category-0", "category-1", "others", "")
    shown = {name: len(read_costs(arena, name)) for name in names}
    # With both other categories, that of the one answer would be what they leave of the whole.
    assert shown == {"category-0": 2, "category-1": 0, "others": 0, "": 2}
    Response.objects.filter(prompt__category="category-0").update(tokens_out=None)
    one = Response.objects.filter(prompt__category="category-0").first()
    Response.objects.filter(pk=one.pk).update(tokens_out=7, cost=7)
    assert len(read_costs(arena, "")) == 1  # the price of one answer
    assert len(read_costs(arena, "category-0")) == 0
    arena.prompts.update(retired_at=timezone.now())  # everybody may read them now
    assert len(read_costs(arena, "category-1")) == 2
    arena.prompts.update(retired_at=None)
    arena.open_answers = True
    assert len(read_costs(arena, "category-1")) == 2


@pytest.mark.django_db
def test_a_new_answer_s_length_is_not_the_difference_of_two_means_on_a_blind_ballot() -> None:
    """Whoever asked before and after an answer was generated knew its tokens, and so its author."""
    arena = make_arena(1, 40, open_answers=False)
    # No mean of these is halfway between two multiples, where the last bit would decide.
    lengths = [45 + 7 * number for number in range(40)]
    answers = list(arena.candidates.get().responses.order_by("pk"))
    told, errors = None, []
    for number, (answer, tokens) in enumerate(zip(answers, lengths, strict=True), 1):
        Response.objects.filter(pk=answer.pk).update(tokens_out=tokens, seconds=tokens / 100)
        (cost,) = read_costs(arena, "").values() or (CostAndSpeed(),)
        assert cost.tokens_out is None or cost.seconds == pytest.approx(cost.tokens_out / 100)
        if told and cost.tokens_out:
            errors.append(abs(number * cost.tokens_out - (number - 1) * told - tokens))
        told = cost.tokens_out
    assert sum(error < 50 for error in errors) <= len(errors) / 4
    assert told == pytest.approx(sum(lengths) / 40, rel=0.05)
