"""Two candidates' answers to a showcased prompt, with their names."""

from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import override

from arena.actors import CLI
from arena.models import Arena, Candidate, Comparison
from arena.services.arenas import update_arena
from arena.services.prompts import showcase_prompt
from ranking import candidate_votes
from ranking.candidate_votes import VoteFilters
from ranking.models import BoardPage, Standing
from ranking.specimens import specimens_context
from tests.factories import make_arena, make_vote, rewrite_answers
from tests.ranking.helpers import fill, publish, rank_anyway, words

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]


@pytest.fixture
def arena() -> Arena:
    """Four candidates; the prompts p0 to p2 are in the showcase, two of them of one category."""
    arena = make_arena(4, 43, open_answers=False)
    for number in range(3):
        prompt = arena.prompts.get(external_id=f"p{number}")
        showcase_prompt(prompt=prompt, by=CLI, now=timezone.now())
    return arena


def standings(arena: Arena) -> list[Standing]:
    candidates = arena.candidates.order_by("pk")
    return [
        Standing(candidate=candidate, rank=n, sure_rank_low=n, sure_rank_high=n + 1)
        for n, candidate in enumerate(candidates, 1)
    ]


def address(**parameters: str) -> str:
    return f"/x?raters=people&{urlencode(parameters)}"


def context(arena: Arena, a: Any = None, b: Any = None, number: Any = None, **more: Any) -> Any:
    return specimens_context(arena, standings(arena), a, b, number, address, **more)


def names(arena: Arena, *asked: Any, **more: Any) -> list[str]:
    return [str(side.candidate)[-1] for side in context(arena, *asked, **more)["specimen"]["sides"]]


def page(arena: Arena, **more: Any) -> str:
    return render_to_string("ranking/_specimens.html", {"arena": arena} | context(arena, **more))


def test_without_a_showcase_there_is_nothing_and_one_query() -> None:
    arena = make_arena(2, 2)
    rows = standings(arena)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert specimens_context(arena, rows, None, None, None, address) == {}
    assert len(queries) == 1
    assert not page(arena).strip()


def test_the_best_stands_beside_the_best_that_clearly_differs(arena: Arena) -> None:
    ids = [row.candidate_id for row in standings(arena)]
    tiers = [ids[:2], ids[2:]]
    assert names(arena) == ["0", "1"]
    assert names(arena, tiers=tiers) == ["0", "2"]
    assert names(arena, ids[2], tiers=tiers) == ["2", "0"]
    assert names(arena, None, ids[0]) == ["1", "0"]
    assert names(arena, ids[3], ids[1]) == ["3", "1"]
    assert names(arena, ids[1], ids[1]) == ["1", "0"]
    assert names(arena, 10**9, 10**9) == ["0", "1"]
    assert context(arena, 10**9, chosen="b") == {}
    assert names(arena, ids[1], chosen="b") == ["1", "0"]


def test_links_keep_the_pair_the_specimen_and_the_anchor(arena: Arena) -> None:
    first, second, third, _ = (row.candidate_id for row in standings(arena))
    specimen = context(arena, first, second, 2)["specimen"]
    assert [link.label for link in specimen["links"]] == [
        "1 of 3 · category-0",
        "2 of 3 · category-0",
        "3 of 3 · category-1",
    ]
    assert [link.chosen for link in specimen["links"]] == [False, True, False]
    assert f"/x?raters=people&a={third}&b={second}&specimen=2#specimens" in [
        link.url for link in specimen["a_links"]
    ]
    assert str(first) not in [link.url.split("b=")[1] for link in specimen["b_links"]]
    assert context(arena, number=99)["specimen"]["prompt"].external_id == "p1"


def test_votes_of_people_on_these_answers_are_counted(arena: Arena) -> None:
    first, second, third, _ = arena.candidates.order_by("pk")
    prompt = arena.prompts.get(external_id="p0")
    make_vote(arena, first, second, "left", prompt)
    make_vote(arena, second, first, "right", prompt)
    make_vote(arena, second, first, "tie", prompt)
    make_vote(arena, second, first, "both_bad", prompt)
    make_vote(arena, third, first, "left", prompt)
    make_vote(arena, second, first, "left", arena.prompts.get(external_id="p1"))
    rows = standings(arena)
    with CaptureQueriesContext(connection) as queries:
        specimen = specimens_context(arena, rows, None, None, None, address)["specimen"]
    assert len(queries) <= 3 + 3  # texts are rendered once
    assert ([side.won for side in specimen["sides"]], specimen["ties"]) == ([2, 0], 1)
    assert specimen["votes"] == 3
    assert "3 votes on these two answers: candidate-0 2, candidate-1 0, tie 1." in words(
        page(arena)
    )


def test_answers_are_sanitised_and_a_missing_one_is_named(arena: Arena) -> None:
    prompt = arena.prompts.get(external_id="p0")
    first, second, *_ = prompt.responses.order_by("candidate")
    first.text, first.cost, first.seconds = "<script>x</script> **bold**", 13_000_000, 11.2
    first.save()
    second.delete()
    shown = page(arena)
    assert "<strong>bold</strong>" in shown
    assert "<script>" not in shown
    assert "$13.00" in shown
    assert "11.2 s" in shown
    assert "No answer to this prompt." in shown


def test_undisclosed_candidates_show_nothing(arena: Arena) -> None:
    hidden = arena.candidates.order_by("pk")[0]
    arena.candidates.filter(pk=hidden.pk).update(disclosed_at=None, private_until_votes=9)
    assert names(arena, hidden.pk) == ["1", "2"]
    assert context(arena, hidden.pk, chosen="b") == {}


def test_everybody_reads_a_vote_on_a_specimen_and_lists_have_no_other(arena: Arena) -> None:
    first, second, *_ = arena.candidates.order_by("pk")
    for number in (0, 5):
        prompt = arena.prompts.get(external_id=f"p{number}")
        vote = make_vote(arena, first, second, "left", prompt)
        left, right = prompt.responses.order_by("candidate")[:2]
        Comparison.objects.filter(pk=vote.comparison_id).update(
            left_response=left, right_response=right
        )
    filters = VoteFilters("people", "", None)
    (listed,) = candidate_votes.list_votes(first, filters, "1").object_list
    assert listed.vote.comparison.prompt.external_id == "p0"
    assert candidate_votes.list_votes(first, filters, "1", CLI).paginator.count == 2
    url = reverse("comparison", args=[arena.slug, listed.vote.comparison.key])
    text = words(Client().get(url).content.decode())
    assert "Answer 0-0 of somebody." in text
    assert "Hidden" not in text
    update_arena(arena=arena, by=CLI, open_answers=True)
    first = Candidate.objects.get(pk=first.pk)
    assert candidate_votes.list_votes(first, filters, "1").paginator.count == 2


def test_three_pages_show_specimens_and_store_none_that_a_reader_chose(
    arena: Arena, client: Client
) -> None:
    first, second, *_ = arena.candidates.order_by("pk")
    fill(arena, rounds=1)
    publish(arena)
    rank_anyway(arena)
    text = arena.prompts.get(external_id="p1").responses.get(candidate=first).text
    start = f"/a/{arena.slug}/"
    for path in ("", f"candidates/{first.pk}/", f"compare/?a={first.pk}&b={second.pk}"):
        plain = client.get(start + path).text
        assert 'id="specimens"' in plain, path
        n_stored = BoardPage.objects.count()
        more = "&" if "?" in path else "?"
        pair = "" if "compare" in path else f"a={first.pk}&b={second.pk}&"
        chosen = client.get(f"{start}{path}{more}{pair}specimen=3").text
        assert text in chosen, path  # by category: p0 and p2, then p1
        assert BoardPage.objects.count() == n_stored, path
    hidden = arena.prompts.get(external_id="p7").responses.get(candidate=first).text
    assert hidden not in client.get(start).text


def test_the_thought_of_an_answer_is_folded_in_the_readers_language(arena: Arena) -> None:
    rewrite_answers("<think>Let me see.</think>Yes.")
    for language, summary in (("en", "Thought"), ("fr", "Réflexion")):
        with override(language):
            fold = f'<details class="thought"><summary>{summary}</summary>'
            assert page(arena).count(fold) == 2
