"""Runs of human votes: opened, updated, requested again where a comparison expired, closed."""

from collections import Counter
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Candidate, Comparison, Run
from arena.outcomes import Uncounted
from arena.services import comparisons, orders, raters, voting
from arena.services.comparisons import TIME_TO_VOTE
from arena.services.pairs import sync_pairs
from arena.tasks import reconcile_runs
from ranking.services import leases
from tests.factories import known, make_arena, make_member, make_person, make_team, make_user

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def ordered(arena, per_pair):
    run = orders.order_people_run(arena=arena, per_pair=per_pair, by=CLI)
    return orders.reconcile_people_run(run=run, now=NOW)


def vote(arena, rater=None, now=NOW):
    rater = rater or make_person()
    comparison = comparisons.next_comparison(arena=arena, rater=rater, now=now)
    voting.cast_vote(comparison=comparison, rater=rater, outcome="left", now=now)
    return comparison


def test_the_task_opens_an_ordered_run():
    run = orders.order_people_run(arena=make_arena(), per_pair=2, by=CLI)
    assert run.state == Run.State.ORDERED
    reconcile_runs()
    run.refresh_from_db()
    assert (run.state, run.votes_wanted) == (Run.State.OPEN, 6)
    assert sum(run.demands.values_list("remaining", flat=True)) == 6


def test_an_open_run_is_served_first_and_closes_when_complete():
    arena = make_arena()
    run = ordered(arena, per_pair=3)
    issued = [vote(arena) for _ in range(9)]
    assert all(comparison.run == run for comparison in issued)
    pairs = Counter(frozenset([c.left_id, c.right_id]) for c in issued)
    assert set(pairs.values()) == {3}
    run = orders.reconcile_people_run(run=run, now=NOW)
    assert (run.state, run.votes_done) == (Run.State.DONE, 9)
    assert run.closed_at == NOW
    assert vote(arena).run is None


def test_an_expired_comparison_is_retried():
    arena = make_arena(2, 2)
    run = ordered(arena, per_pair=1)
    comparisons.next_comparison(arena=arena, rater=make_person(), now=NOW)
    assert orders.reconcile_people_run(run=run, now=NOW).demands.get().remaining == 0
    later = NOW + TIME_TO_VOTE + timedelta(seconds=1)
    assert orders.reconcile_people_run(run=run, now=later).demands.get().remaining == 1
    assert vote(arena, now=later).run == run
    assert orders.reconcile_people_run(run=run, now=later).state == Run.State.DONE


def test_a_skipped_or_undone_comparison_is_retried():
    arena, rater = make_arena(2, 3), make_person()
    run = ordered(arena, per_pair=1)
    comparison = comparisons.next_comparison(arena=arena, rater=rater, now=NOW)
    voting.skip_comparison(comparison=comparison, rater=rater, now=NOW)
    assert orders.reconcile_people_run(run=run, now=NOW).demands.get().remaining == 1
    undone = vote(arena, rater)
    voting.undo_vote(comparison=undone, rater=rater, now=NOW)
    assert orders.reconcile_people_run(run=run, now=NOW).demands.get().remaining == 1


def test_an_undo_after_the_last_vote_opens_the_run_again():
    arena, rater = make_arena(2, 3), make_person()
    run = ordered(arena, per_pair=1)
    comparison = vote(arena, rater)
    assert orders.reconcile_people_run(run=run, now=NOW).state == Run.State.DONE
    voting.undo_vote(comparison=comparison, rater=rater, now=NOW)
    run = orders.reconcile_people_run(run=run, now=NOW)
    assert (run.state, run.votes_done, run.closed_at) == (Run.State.OPEN, 0, None)
    assert run.demands.get().remaining == 1


def test_a_run_drops_demands_for_a_retired_candidate():
    arena = make_arena(3, 2)
    run = ordered(arena, per_pair=2)
    gone = arena.candidates.first()
    Candidate.objects.filter(pk=gone.pk).update(retired_at=NOW)
    sync_pairs(arena=arena)
    orders.reconcile_people_run(run=run, now=NOW)
    for _ in range(2):
        comparison = vote(arena)
        assert gone.pk not in (comparison.left_id, comparison.right_id)
    run = orders.reconcile_people_run(run=run, now=NOW)
    assert (run.state, run.votes_wanted) == (Run.State.DONE, 2)


def test_tending_twice_changes_nothing():
    arena = make_arena()
    run = ordered(arena, per_pair=2)
    vote(arena)
    first, second = (orders.reconcile_people_run(run=run, now=NOW) for _ in range(2))
    assert (first.votes_done, first.state) == (second.votes_done, second.state) == (1, "open")


def test_a_cancelled_run_asks_for_nothing_more():
    arena = make_arena()
    run = ordered(arena, per_pair=2)
    orders.cancel_people_run(run=run, by=CLI, now=NOW)
    assert vote(arena).run is None
    assert orders.reconcile_people_run(run=run, now=NOW).state == Run.State.CANCELLED


@pytest.mark.parametrize("per_pair", [0, -1, orders.MAX_PER_PAIR + 1])
def test_an_impossible_number_of_votes_is_refused(per_pair):
    with pytest.raises(ValidationError, match="between 1 and"):
        orders.order_people_run(arena=make_arena(), per_pair=per_pair, by=CLI)


def test_an_arena_without_pairs_takes_no_run():
    with pytest.raises(ValidationError, match="No two candidates"):
        orders.order_people_run(arena=make_arena(1), per_pair=1, by=CLI)


def test_the_command_orders_and_the_voting_page_shows_progress(client, capsys):
    arena = make_arena()
    call_command("order_votes", arena.slug, per_pair=2)
    assert "6 votes requested" in capsys.readouterr().out
    reconcile_runs()
    for _ in range(2):
        vote(arena)
    reconcile_runs()
    page = known(client).get(reverse("vote", args=[arena.slug]))
    assert "2 of 6 requested votes collected" in page.text


HTMX = {"HX-Request": "true"}
END = "You’ve cast all 3 requested votes. Thank you."
ALL_IN = "All 3 requested votes are in. Thank you."


def vote_in_browser(client, arena, page="cast_vote", pair=None):
    """Vote on the pair that the voting page shows, as the page does; or undo the vote on `pair`."""
    shown = known(client).get(reverse("vote", args=[arena.slug])).context["ballot"]
    address = reverse(page, args=[arena.slug, pair or shown.key])
    response = client.post(address, {"outcome": "left", "seconds": 9}, headers=HTMX)
    return str(shown.key), response.text


def test_a_named_raters_progress_moves_with_each_vote_and_ends_with_thanks(client):
    arena, ada, bob = make_arena(3, 4), make_user(), make_person()
    rater = raters.rater_of_person(user_id=ada.pk)
    ordered_of([rater, bob], arena)
    client.force_login(ada)
    vote_page = reverse("vote", args=[arena.slug])
    assert "0 of 3 requested votes collected" in known(client).get(vote_page).text
    for n in (1, 2):
        _, after = vote_in_browser(client, arena)
        assert f"{n} of 3 requested votes collected" in after
        assert f"{n} of 3 requested votes collected" in known(client).get(vote_page).text
    pair, after = vote_in_browser(client, arena)
    assert END in after
    assert f'href="{reverse("board", args=[arena.slug])}"' in after
    page = known(client).get(vote_page).text
    assert END in page
    assert 'class="choices"' in page  # who likes to can go on
    _, after = vote_in_browser(client, arena, page="undo_vote", pair=pair)
    assert "2 of 3 requested votes collected" in after
    assert END not in after


def test_whoever_voted_for_an_order_to_anybody_sees_its_end(client):
    arena = make_arena(3, 4)
    ordered(arena, per_pair=1)
    vote_page = reverse("vote", args=[arena.slug])
    vote(arena)
    assert "1 of 3 requested votes collected" in known(client).get(vote_page).text
    assert "2 of 3 requested votes collected" in vote_in_browser(client, arena)[1]
    assert ALL_IN in vote_in_browser(client, arena)[1]
    assert ALL_IN in known(client).get(vote_page).text
    reconcile_runs()
    assert ALL_IN in known(client).get(vote_page).text
    assert "requested votes" not in vote_in_browser(client, arena)[1]  # not one of them
    assert "requested votes" not in Client().get(vote_page).text


def test_a_new_order_is_shown_in_place_of_the_thanks_for_an_earlier_one(client):
    arena, ada = make_arena(3, 4), make_user()
    rater = raters.rater_of_person(user_id=ada.pk)
    run = ordered_of([rater], arena)
    for _ in range(3):
        vote_again(arena, rater, run)
    client.force_login(ada)
    vote_page = reverse("vote", args=[arena.slug])
    assert END in known(client).get(vote_page).text
    ordered_of([rater], arena, per_pair=2)
    assert "0 of 6 requested votes collected" in known(client).get(vote_page).text


def test_a_cancelled_order_thanks_nobody(client):
    arena = make_arena()
    run = ordered(arena, per_pair=1)
    vote_in_browser(client, arena)
    orders.cancel_people_run(run=run, by=CLI, now=NOW)
    assert "requested votes" not in known(client).get(reverse("vote", args=[arena.slug])).text


@pytest.mark.parametrize(
    ("slug", "per_pair", "rater"),
    [("nowhere", 1, []), ("known", 0, []), ("known", 1, ["a stranger"])],
)
def test_the_command_reports_errors(slug, per_pair, rater):
    make_arena(slug="known")
    with pytest.raises(CommandError, match=r"no arena|between 1 and|no user"):
        call_command("order_votes", slug, per_pair=per_pair, rater=rater)


def ordered_of(raters, arena, per_pair=1, **options):
    run = orders.order_people_run(
        arena=arena, per_pair=per_pair, by=CLI, raters=raters, hides_names=True, **options
    )
    return orders.reconcile_people_run(run=run, now=NOW)


def vote_again(arena, rater, run, outcome="left"):
    """The rater's next vote for the run, with its demands brought up to date before and after."""
    comparison = comparisons.next_comparison(arena=arena, rater=rater, now=NOW)
    voting.cast_vote(comparison=comparison, rater=rater, outcome=outcome, now=NOW)
    orders.reconcile_people_run(run=run, now=NOW)
    return comparison


def test_only_named_raters_get_an_order_and_each_has_their_own_progress():
    arena, (ada, bob) = make_arena(3, 4), (make_person(), make_person())
    run = ordered_of([ada, bob], arena, per_pair=2)
    assert run.votes_wanted == 12
    assert vote(arena).run is None
    issued = [vote_again(arena, ada, run) for _ in range(6)]
    assert {comparison.run for comparison in issued} == {run}
    pairs = Counter(frozenset([c.left_id, c.right_id]) for c in issued)
    assert set(pairs.values()) == {2}
    assert vote(arena, ada).run is None
    progress = orders.progress_for(arena=arena, rater=bob)
    assert (progress.done, progress.wanted) == (0, 6)
    named = run.raters.get(rater=ada)
    assert (named.votes_done, named.votes_wanted) == (6, 6)
    assert orders.progress_for(arena=arena, rater=make_person()) is None
    assert all(comparison.hides_names for comparison in issued)
    for _ in range(6):
        vote_again(arena, bob, run)
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert not Comparison.objects.get(pk=issued[0].pk).hides_names


def test_a_pair_that_waited_before_the_order_gives_no_names_away():
    arena, ada, bob = make_arena(3, 4), make_person(), make_person()
    waiting = comparisons.next_comparison(arena=arena, rater=ada, now=NOW)
    others = comparisons.next_comparison(arena=arena, rater=bob, now=NOW)
    run = ordered_of([ada], arena)
    issued = comparisons.next_comparison(arena=arena, rater=ada, now=NOW)
    assert (issued.run, issued.hides_names) == (run, True)
    assert issued != waiting
    assert comparisons.next_comparison(arena=arena, rater=bob, now=NOW) == others
    orders.reconcile_people_run(run=run, now=NOW)
    assert comparisons.next_comparison(arena=arena, rater=ada, now=NOW) == issued


def test_an_order_asks_a_rater_no_more_than_they_have_not_seen():
    arena, ada = make_arena(2, 3), make_person()
    vote(arena, ada)
    run = ordered_of([ada], arena, per_pair=3)
    assert run.votes_wanted == 2
    comparison = comparisons.next_comparison(arena=arena, rater=ada, now=NOW)
    voting.skip_comparison(comparison=comparison, rater=ada, now=NOW)
    vote_again(arena, ada, run)
    run.refresh_from_db()
    assert (run.state, run.votes_wanted) == (Run.State.DONE, 1)


def test_more_named_raters_cost_no_more_queries():
    counted = []
    for n_raters in (2, 6):
        raters = [make_person() for _ in range(n_raters)]
        arena = make_arena(3, 6, slug=f"with-{n_raters}")
        run = ordered_of(raters, arena, repeats=2)
        for rater in raters:
            vote_again(arena, rater, run)
        with CaptureQueriesContext(connection) as queries:
            orders.reconcile_people_run(run=run, now=NOW)
        counted.append(len(queries))
    assert counted[0] == counted[1]


def test_pairs_asked_twice_measure_self_agreement_and_never_count():
    arena, ada = make_arena(3, 6), make_person()
    run = ordered_of([ada], arena, per_pair=4, repeats=3)
    issued = []
    while Run.objects.get(pk=run.pk).state == Run.State.OPEN:
        issued.append(vote_again(arena, ada, run))
    again = [comparison for comparison in issued if comparison.repeats_id]
    firsts = {comparison.pk: comparison for comparison in issued}
    assert (len(issued), len(again)) == (15, 3)
    for comparison in again:
        first = firsts[comparison.repeats_id]
        assert comparison.prompt == first.prompt
        assert issued.index(comparison) - issued.index(first) > 1
        vote_on_it = comparison.votes.get()
        assert vote_on_it.uncounted == Uncounted.REPEAT
        voting.apply_rules(arena=arena)
    assert arena.votes.live().count() == 12
    named = run.raters.get()
    same = sum(c.left_id == firsts[c.repeats_id].left_id for c in again)  # "left" every time
    assert (named.votes_done, named.repeats_done, named.repeats_same) == (12, 3, same)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"hides_names": True}, "choose who votes"),
        ({"repeats": 2}, "hide the names"),
        ({"repeats": 101}, "at most 100"),
    ],
)
def test_an_order_that_cannot_be_is_refused(options, words):
    with pytest.raises(ValidationError, match=words):
        orders.order_people_run(arena=make_arena(2, 2), per_pair=1, by=CLI, **options)


def test_only_pairs_of_the_chosen_candidates_are_asked_for():
    arena, ada = make_arena(4, 6), make_person()
    a, b, c, _ = arena.candidates.order_by("pk")
    chosen = {"arena": arena, "by": CLI, "candidates": [a.pk, b.pk, c.pk]}
    run = orders.order_people_run(per_pair=2, raters=[ada], **chosen)
    assert (run.votes_wanted, run.raters.get().votes_wanted) == (6, 6)
    assert not run.demands.filter(remaining__gt=0).exists()
    for _ in range(2):  # the second time as after a restart
        run = orders.reconcile_people_run(run=run, now=NOW)
    assert (run.state, run.votes_wanted) == (Run.State.OPEN, 6)
    issued = [vote_again(arena, ada, run) for _ in range(6)]
    assert {frozenset([each.left_id, each.right_id]) for each in issued} == {
        frozenset([a.pk, b.pk]),
        frozenset([a.pk, c.pk]),
        frozenset([b.pk, c.pk]),
    }
    run.refresh_from_db()
    assert (run.state, run.votes_done) == (Run.State.DONE, 6)


def test_a_run_that_an_earlier_release_ordered_asks_about_all_pairs():
    run = orders.order_people_run(arena=make_arena(), per_pair=2, by=CLI)
    run.demands.all().delete()
    assert orders.reconcile_people_run(run=run, now=NOW).votes_wanted == 6


def test_candidates_that_cannot_be_asked_about_are_refused():
    arena, other = make_arena(3, 2), make_arena(2, 2)
    one, two, gone = arena.candidates.order_by("pk")
    Candidate.objects.filter(pk=gone.pk).update(retired_at=NOW)
    for ids, words in [
        ([one.pk], "at least two"),
        ([one.pk, gone.pk], "archived"),
        ([one.pk, other.candidates.first().pk], "another arena"),
    ]:
        with pytest.raises(ValidationError, match=words):
            orders.order_people_run(arena=arena, per_pair=1, by=CLI, candidates=ids)
    two.responses.all().delete()
    sync_pairs(arena=arena)
    with pytest.raises(ValidationError, match="No two of these candidates"):
        orders.order_people_run(arena=arena, per_pair=1, by=CLI, candidates=[one.pk, two.pk])
    assert not Run.objects.exists()


def test_raters_who_may_vote_on_no_chosen_pair_are_not_asked():
    arena, guests = make_arena(2, 2, team=make_team()), make_team()
    one, two = arena.candidates.order_by("pk")
    Candidate.objects.filter(pk=one.pk).update(team=guests)
    rater = raters.rater_of_person(user_id=make_member(guests, "member").user_id)
    with pytest.raises(ValidationError, match="their own team’s"):
        orders.order_people_run(
            arena=arena, per_pair=1, by=CLI, raters=[rater], candidates=[one.pk, two.pk]
        )
    assert not Run.objects.exists()


def test_the_page_asks_about_chosen_candidates_and_names_them(client):
    arena = make_arena(3, 2, team=make_team())
    one, two, _ = arena.candidates.order_by("pk")
    client.force_login(make_member(arena.team, "owner").user)
    url = reverse("vote_orders", args=[arena.slug])
    refused = client.post(url, {"per_pair": 2, "candidates": [one.pk]})
    assert "Choose at least two candidates" in refused.text
    page = client.post(url, {"per_pair": 2, "candidates": [one.pk, two.pk]}, follow=True).text
    assert "2 votes requested." in page
    assert f"2 per pair, among {one}, {two}, requested by" in " ".join(page.split())
    with CaptureQueriesContext(connection) as few:
        client.get(url)
    for _ in range(3):
        client.post(url, {"per_pair": 1})
    with CaptureQueriesContext(connection) as many:
        page = client.get(url).text
    assert len(many) == len(few)
    assert page.count("among") == 1


def test_the_command_asks_about_named_candidates():
    arena = make_arena(3, 2)
    one, _, three = arena.candidates.order_by("pk")
    call_command("order_votes", arena.slug, per_pair=1, candidate=[one.name, str(three.pk)])
    pair = Run.objects.get().demands.get().pair
    assert (pair.low, pair.high) == (one, three)


@pytest.mark.parametrize("number", [0, 10_001])
def test_a_number_of_votes_out_of_range_is_refused_in_plain_words(client, number):
    arena = make_arena(2, 2, team=make_team())
    client.force_login(make_member(arena.team, "owner").user)
    page = client.post(reverse("vote_orders", args=[arena.slug]), {"per_pair": number})
    assert "Enter a number from 1 to 10,000." in page.text


def test_names_stay_hidden_on_pages_until_everyone_has_voted(client):
    arena = make_arena(2, 2, team=make_team())
    users = [make_member(arena.team, "owner").user for _ in range(2)]
    client.force_login(users[0])
    url = reverse("vote_orders", args=[arena.slug])
    data = {"per_pair": 1, "raters": [user.pk for user in users], "hides_names": "on"}
    assert "2 votes requested" in client.post(url, data, follow=True).text
    reconcile_runs()
    run = Run.objects.get()
    rater = raters.rater_of_person(user_id=users[0].pk)
    comparison = comparisons.next_comparison(arena=arena, rater=rater, now=timezone.now())
    Comparison.objects.update(issued_at=NOW - timedelta(minutes=5))  # so the vote is not rushed
    cast = reverse("cast_vote", args=[arena.slug, comparison.key])
    pages = {
        "vote": client.post(cast, {"outcome": "left"}, follow=True).text,
        "facts": client.get(reverse("vote_facts", args=[arena.slug, comparison.key])).text,
        "votes": client.get(reverse("my_votes", args=[arena.slug])).text,
    }
    assert [name for name, page in pages.items() if "candidate-" in page] == []
    assert "Vote saved. You will see the names once everyone has voted." in pages["vote"]
    shown = reverse("comparison", args=[arena.slug, comparison.key])
    own = comparison.left
    lists = [
        shown,
        reverse("candidate", args=[arena.slug, own.pk]),
        f"/api/v1/arenas/{arena.slug}/battles/",
        *(f"/api/v1/arenas/{arena.slug}/exports/{name}.jsonl" for name in ("battles", "lmarena")),
    ]
    texts = [
        reverse("manage_candidate", args=[arena.slug, own.pk]),
        f"/api/v1/arenas/{arena.slug}/candidates/{own.pk}/responses/",
        f"/api/v1/arenas/{arena.slug}/exports/arena.zip",
    ]
    # The other has yet to vote on the same answers; signed out, either could look them up.
    for reader in (users[0], users[1], None):
        client.logout()
        if reader:
            client.force_login(reader)
        found = [url for url in lists if str(comparison.key) in said(client, url)]
        assert found == []
        assert [url for url in texts if client.get(url).status_code == 200] == []
    client.force_login(users[0])
    reconcile_runs()
    page = client.get(url).text
    assert "1 of 2 votes" in page
    assert users[1].get_username() in page
    client.post(reverse("cancel_order", args=[arena.slug, run.pk]), follow=True)
    leases.drop_pages(arena_id=arena.pk)  # as the refresh that follows does
    assert all(str(comparison.key) in said(client, url) for url in lists[1:])
    assert {client.get(url).status_code for url in [shown, *texts]} == {200}
    assert "candidate-" in client.get(reverse("my_votes", args=[arena.slug])).text


def said(client, url):
    """What a page, or a file that is streamed, says."""
    response = client.get(url)
    if response.status_code == 404:
        return ""
    return response.getvalue().decode() if response.streaming else response.text
