"""A team's decision page: who may read it, what it says, and how many queries it takes."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, Candidate, Reason, Role, Run, Team
from arena.services.orders import cancel_people_run
from judges.models import Baseline
from judges.services.decisions import write_decisions
from ranking.board_data import BoardQuery
from ranking.comparison import CHECKS, read_difference_boards
from ranking.models import Snapshot
from tests.arena.rest import member_of
from tests.factories import make_arena, make_vote, make_votes
from tests.judges.helpers import (
    candidates_of,
    decision_url,
    join,
    make_team,
    order,
    page_text,
    published_arena,
    signed_in,
    team_arena,
    vote_by_strength,
    work_off,
)
from tests.ranking.helpers import publish

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("quiet_boards")]

SURE = "candidate-1 is better than candidate-0 for this one rater"


def test_the_sentence_is_the_heading(team: Team, clear_lead: Arena) -> None:
    page = join(team).get(decision_url(team, clear_lead)).text
    heading = page.partition("<h1")[2].partition("</h1>")[0]
    assert "% of the time (" in heading
    assert SURE in heading
    assert "One rater says nothing about others." in page
    assert 'data-known="ahead"' in heading


def test_long_names_are_short_in_the_heading(team: Team, clear_lead: Arena) -> None:
    long = "customer-support-assistant-with-retrieval-and-tools-"
    for number, candidate in enumerate(candidates_of(clear_lead)):
        Candidate.objects.filter(pk=candidate.pk).update(name=f"{long}v{number}")
    publish(clear_lead)
    member = join(team)
    page = member.get(decision_url(team, clear_lead)).text
    heading = page.partition("<h1")[2].partition("</h1>")[0]
    assert long not in heading
    assert "eval-and-tools-v1 is better than customer-support-as…" in heading
    assert f"{long}v0" in page
    for number, candidate in enumerate(candidates_of(clear_lead)):
        Candidate.objects.filter(pk=candidate.pk).update(name=f"{long}v{number}{'-' * 20}")
    heading = member.get(decision_url(team, clear_lead)).text.partition("<h1")[2]
    assert f"{long}v1{'-' * 20} is better" in heading.partition("</h1>")[0]  # both would be equal


def test_the_figures_are_those_of_the_public_comparison(team: Team, clear_lead: Arena) -> None:
    client = join(team)
    old, new = candidates_of(clear_lead)
    public = page_text(client, f"/a/{clear_lead.slug}/compare/?a={new.pk}&b={old.pk}")
    page = page_text(client, decision_url(team, clear_lead))
    (share,) = re.findall(rf"<strong>([\d.]+%)</strong> for {new}", public)
    assert f"<strong>{share}</strong> of the time" in page
    assert "intervals hold at every look" in page
    assert "<strong>100</strong> between the two" in page


def test_members_of_any_role_read_it_and_others_get_404(team: Team, clear_lead: Arena) -> None:
    url = decision_url(team, clear_lead)
    for role in Role.values:
        assert SURE in page_text(join(team, role), url)
    assert SURE in page_text(signed_in("boss", staff=True), url)
    assert signed_in("stranger").get(url).status_code == 404
    assert join(make_team("Others", "others")).get(url).status_code == 404
    assert "/sign-in/" in Client().get(url).headers["Location"]


def test_a_private_arena_of_another_team_is_not_found(team: Team) -> None:
    other = make_team("Others", "others")
    arena = team_arena(other, visibility="private")
    assert join(team).get(decision_url(team, arena)).status_code == 404
    arena.candidates.update(team=team)
    assert Client().get(decision_url(team, arena)).status_code == 302


def test_own_undisclosed_names_are_shown_others_are_hidden(team: Team) -> None:
    arena = team_arena(team, (0.0, 1.5, 0.5))
    _, new, theirs = candidates_of(arena)
    others = make_team("Others", "others")
    arena.candidates.filter(pk=theirs.pk).update(team=others, name="their secret")
    arena.candidates.filter(pk=new.pk).update(name="our secret")
    arena.candidates.update(disclosed_at=None, private_until_votes=5000)
    publish(arena)
    page = page_text(join(team), decision_url(team, arena))
    assert "our secret is better than candidate-0" in page
    assert "their secret" not in page
    assert f"Undisclosed {theirs.pk}" in page
    guests = page_text(join(others), decision_url(others, arena, baseline=new.pk))
    assert "the only candidate" not in guests
    assert "our secret" not in guests
    assert f"their secret is worse than Undisclosed {new.pk}" in guests


def test_members_choose_the_baseline_and_viewers_do_not(team: Team, clear_lead: Arena) -> None:
    url, (_, new) = decision_url(team, clear_lead), candidates_of(clear_lead)
    viewer = join(team, Role.VIEWER)
    assert "Save baseline" not in page_text(viewer, url)
    assert viewer.post(url, {"candidate": new.pk}).status_code == 403
    assert not Baseline.objects.exists()
    member = join(team)
    assert "Save baseline" in page_text(member, url)
    page = member.post(url, {"candidate": new.pk}, follow=True).content.decode()
    assert "Baseline changed to candidate-1." in page
    assert "candidate-0 is worse than candidate-1" in page
    assert Baseline.objects.get().candidate == new


@pytest.mark.parametrize("sent", ["", "x", "-1", "99999999999999999999", "0"])
def test_a_baseline_that_is_none_is_refused_with_a_reason(
    team: Team, clear_lead: Arena, sent: str
) -> None:
    answer = join(team).post(decision_url(team, clear_lead), {"candidate": sent}, follow=True)
    assert "Choose a candidate as the baseline." in answer.content.decode()
    assert not Baseline.objects.exists()


def test_candidates_of_other_arenas_are_not_found(team: Team, clear_lead: Arena) -> None:
    elsewhere = make_arena().candidates.all()[0].pk
    client, url = join(team), decision_url(team, clear_lead)
    assert client.post(url, {"candidate": elsewhere}).status_code == 404
    assert client.get(url, {"candidate": elsewhere}).status_code == 404
    assert client.get(url, {"baseline": elsewhere}).status_code == 404
    assert client.get(url, {"candidate": "x"}).status_code == 404
    assert client.get(url, {"page": "99999999999", "category": "none"}).status_code == 200


def test_before_the_first_votes_it_says_so(team: Team) -> None:
    arena = make_arena(2, 4, team=team)
    page = page_text(join(team), decision_url(team, arena))
    assert "No votes yet: nobody has compared candidate-1 with candidate-0." in page


def test_with_no_or_one_candidate_it_says_what_is_missing(team: Team) -> None:
    client = join(team)
    for n, sentence in (
        (0, "Help centre has no candidates in this arena yet."),
        (1, "candidate-0 is the only candidate so far."),
    ):
        arena = make_arena(n, 2, team=team)
        assert sentence in page_text(client, decision_url(team, arena))
    arena.candidates.update(retired_at=timezone.now())
    assert "All candidates of Help centre are archived." in page_text(
        client, decision_url(team, arena)
    )


def test_what_was_lost_is_listed_newest_first_in_pages(team: Team, clear_lead: Arena) -> None:
    old, new = candidates_of(clear_lead)
    prompt = clear_lead.prompts.all()[0]
    votes = [make_vote(clear_lead, old, new, "left", prompt) for _ in range(25)]
    client, url = join(team), decision_url(team, clear_lead)
    first, second = page_text(client, url), page_text(client, f"{url}?page=2")
    assert str(votes[-1].comparison.key) in first
    assert str(votes[14].comparison.key) not in first
    assert str(votes[14].comparison.key) in second
    assert "page=2#lost" in first
    won = clear_lead.votes.filter(outcome="right", comparison__left=old).first()
    assert won is not None
    assert str(won.comparison.key) not in first + second


def test_open_differences_show_votes_needed_and_judge_cost(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.45))
    client, url = join(team), decision_url(team, arena)
    page = page_text(client, url)
    assert "for this one rater and prompts" in page.partition("</h1>")[0]
    assert re.search(r"<strong>about \d+ more prompts?</strong>", page)
    assert "With LLM judges: no price yet" in page
    run = order(arena, "scripted:scripted-1")
    page = page_text(client, url)
    assert "<strong>free</strong>" in page
    Run.objects.filter(pk=run.pk).update(settled=2 * 10**9, votes_done=100)
    page = page_text(client, url)
    assert "$0.0200 per vote" in page
    Run.objects.filter(pk=run.pk).update(votes_done=0, expected_cost=None)
    assert "With LLM judges: no price yet" in page_text(client, url)


@pytest.mark.usefixtures("careful_scripts")
def test_what_is_missing_costs_the_votes_times_what_one_costs(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.45))
    run = order(arena, "scripted:scripted-1", per_pair=1)
    Run.objects.filter(pk=run.pk).update(settled=2 * 10**9, votes_done=100)  # 2 cents each
    viewer = member_of(team, "viewer")
    found = viewer.get(f"arenas/{arena.slug}/decision/").json()
    assert found["votes_to_go"] > 1
    assert found["cost_to_go"] == pytest.approx(0.02 * found["votes_to_go"])
    page = page_text(viewer.client, decision_url(team, arena))
    assert f"<strong>${found['cost_to_go']:,.2f}</strong>" in page


def test_only_prompts_of_the_category_are_counted_as_supply(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.45), has_categories=True)
    category = arena.prompts.order_by("pk").first().category  # type: ignore[union-attr]
    of_it = arena.prompts.filter(category=category).count()
    assert 0 < of_it < arena.prompts.count()
    page = page_text(join(team), decision_url(team, arena, category=category))
    assert f"only {of_it} shared prompts are left" in page


def rows(page: str, section: str) -> dict[str, dict[str, str]]:
    """A table's cells: by the name of the row, by their labels."""
    table = page.partition(f'id="{section}"')[2].partition("</table>")[0]
    found = {}
    for row in table.partition("<tbody>")[2].split("<tr")[1:]:
        name = re.search(r'class="name">(.*?)</th>', row, re.S)
        cells = re.findall(r'<td data-label="(.*?)".*?>(.*?)</td>', row, re.S)
        assert name, row
        found[_plain(name[1])] = {label: _plain(cell) for label, cell in cells}
    return found


def _plain(cell: str) -> str:
    return " ".join(re.sub(r"<svg.*?</svg>|<[^>]*>", " ", cell, flags=re.S).split())


def test_figures_are_shown_per_candidate_and_category(
    team: Team, clear_lead_by_category: Arena
) -> None:
    old, new = candidates_of(clear_lead_by_category)
    for snapshot in Snapshot.objects.current().filter(board__arena=clear_lead_by_category):
        scores = {
            str(new.pk): {"score": 1041.0, "low": 1030.0, "high": 1050.0},
            str(old.pk): {"score": 1000.0, "low": 990.0, "high": 1010.0},
        }
        snapshot.findings["style"] = {"scores": scores}
        Snapshot.objects.filter(pk=snapshot.pk).update(findings=snapshot.findings)
    viewer = member_of(team, "viewer")
    page = page_text(viewer.client, decision_url(team, clear_lead_by_category))
    said = viewer.get(f"arenas/{clear_lead_by_category.slug}/decision/").json()

    line = rows(page, "others")[str(new)]
    assert line["Wins"] == f"{100 * said['wins']:.0f}%"
    assert line["Elo"].startswith("+")
    assert line["Direct votes"] == str(said["between"])
    assert line["Status"] == "better for this one rater and prompts like these"
    by_category = rows(page, "categories")
    assert by_category["All prompts"]["Wins"] == line["Wins"]
    assert by_category["All prompts"]["Style-controlled"] == "+41"
    votes = [int(one["Direct votes"]) for one in by_category.values()]
    assert 2 * votes[0] == sum(votes)
    facts = page.partition('id="others"')[0]
    assert "+41" in facts
    assert (said["style_elo"], said["style_low"], said["style_high"]) == (41.0, 20.0, 60.0)
    assert "intervals hold at every look" in facts


def test_draft_without_votes_does_not_replace_the_verdict(team: Team, clear_lead: Arena) -> None:
    draft = clear_lead.candidates.create(name="draft", team=team)
    elsewhere = clear_lead.candidates.create(name="elsewhere", team=team)
    voter = clear_lead.votes.all()[0].rater
    for outcome, prompt in zip(("left", "right"), clear_lead.prompts.all(), strict=False):
        make_vote(clear_lead, elsewhere, candidates_of(clear_lead)[1], outcome, prompt, voter)
    publish(clear_lead)
    page = page_text(join(team), decision_url(team, clear_lead))
    assert SURE in page.partition("</h1>")[0]
    asked = page_text(join(team, Role.VIEWER), decision_url(team, clear_lead, candidate=draft.pk))
    assert "No votes yet: nobody has compared draft" in asked.partition("</h1>")[0]


def test_boards_and_categories_can_be_switched(
    team: Team, clear_lead: Arena, clear_lead_by_category: Arena, judge_votes: Any
) -> None:
    client = join(team)
    judges = page_text(client, decision_url(team, clear_lead, raters="judges"))
    assert "for this judge and prompts like these" in judges.partition("</h1>")[0]
    one = page_text(client, decision_url(team, clear_lead_by_category, category="category-1"))
    assert "On “category-1” prompts, " in one.partition("</h1>")[0]
    assert "candidate-1 by category" in one


@pytest.fixture
def judge_votes(clear_lead: Arena) -> None:
    from arena.models import Rater

    judge = Rater.objects.create(kind=Rater.Kind.JUDGE, name="strict")
    old, new = candidates_of(clear_lead)
    for n, prompt in enumerate(clear_lead.prompts.all()):
        make_vote(clear_lead, new, old, "left" if n % 4 else "right", prompt, judge)
    publish(clear_lead)


@pytest.mark.usefixtures("careful_scripts")
@pytest.mark.parametrize(
    ("raters", "said"), [("people", "Still missing"), ("judges", "for this judge")]
)
def test_candidates_cost_no_queries(team: Team, raters: str, said: str) -> None:
    client = join(team)
    counted = []
    for n in (3, 30):
        arena = team_arena(team, (0.0, 0.3), slug=f"with-{n}")
        make_more(arena, team, n)
        work_off(order(arena, "scripted:scripted-1"))
        publish(arena)
        newest = candidates_of(arena)[1]
        url = decision_url(team, arena, candidate=newest.pk, raters=raters)
        page_text(client, url)  # remembers the earlier checks of this snapshot
        with CaptureQueriesContext(connection) as found:
            page = page_text(client, url)
        assert page.count('data-label="Status"') == n - 1
        assert said in page
        counted.append(len(found))
    assert counted[1] <= counted[0] <= 20


def make_more(arena: Arena, team: Team, n: int) -> None:
    first = candidates_of(arena)[0]
    for i in range(2, n):
        candidate = Candidate.objects.create(arena=arena, team=team, name=f"candidate-{i}")
        for turn, prompt in enumerate(arena.prompts.all()[:6]):
            make_vote(arena, first, candidate, "left" if turn % 2 else "right", prompt)


def test_order_link_names_both_and_at_most_shared_prompts(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.45))
    old, new = candidates_of(arena)
    page = page_text(join(team), decision_url(team, arena))
    link = re.search(r'href="([^"]+)">Start a judge run</a>', page).group(1).replace("&amp;", "&")
    assert link.endswith(f"new/?candidate={new.pk}&candidate={old.pk}&again=1&per_pair=50")
    assert "A judge votes once per prompt, and only 50 shared prompts are left" in page
    assert "Start a judge run</a>" not in page_text(
        join(team, Role.VIEWER), decision_url(team, arena)
    )


def test_more_prompts_are_needed_once_judges_saw_all(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.45))
    client, url = join(team), decision_url(team, arena)
    run = order(arena, "scripted:scripted-1", per_pair=30)
    assert "only 20 shared prompts are left" in page_text(client, url)
    order(arena, "scripted:scripted-1", per_pair=30)
    page = page_text(client, url)
    assert "The judges have already judged all 50 shared prompts" in page
    assert f"/a/{arena.slug}/manage/prompts/" in page
    assert "Start a judge run</a>" not in page
    cancel_people_run(run=run, by=CLI, now=timezone.now())
    assert "only 30 shared prompts are left" in page_text(client, url)
    order(arena, "scripted:scripted-1", "scripted:scripted-2", per_pair=45)
    assert "only 5 shared prompts are left" in page_text(client, url)


def test_before_the_first_vote_there_is_a_way_on(team: Team) -> None:
    arena = make_arena(2, 6, team=team)
    publish(arena)
    page = page_text(join(team), decision_url(team, arena))
    assert f'href="{reverse("vote", args=[arena.slug])}">Vote</a>' in page
    assert page.count('class="judge-buttons"') == 1


def test_one_next_step_follows_from_the_result(
    team: Team, clear_lead: Arena, judge_votes: Any
) -> None:
    url, (old, new) = decision_url(team, clear_lead), candidates_of(clear_lead)
    step, member = "Make candidate-1 the baseline</button>", join(team)
    assert step in page_text(member, url)
    assert step not in page_text(join(team, Role.VIEWER), url)
    lost = decision_url(team, clear_lead, candidate=old.pk, baseline=new.pk)
    assert 'href="#lost">View lost votes</a>' in page_text(member, lost)
    page = member.post(url, {"candidate": new.pk}, follow=True).content.decode()
    assert "Baseline changed to candidate-1." in page


def test_what_newer_votes_do_not_support_any_more_is_not_acted_on(
    team: Team, clear_lead: Arena
) -> None:
    url, (old, new) = decision_url(team, clear_lead), candidates_of(clear_lead)
    member = join(team)
    assert "Make candidate-1 the baseline</button>" in page_text(member, url)
    prompts = list(clear_lead.prompts.order_by("pk"))
    against = [(old, new, "left", prompt) for prompt in prompts for _ in range(4)]
    make_votes(clear_lead, against, clear_lead.votes.first().rater)
    publish(clear_lead)
    page = page_text(member, url)
    assert "ewer votes no longer support it" in page
    assert "Make candidate-1 the baseline</button>" not in page


def test_chart_ends_with_the_verdict_and_marks_when_it_was_decided(
    team: Team, clear_lead: Arena
) -> None:
    viewer, two = member_of(team, "viewer"), candidates_of(clear_lead)
    page = page_text(viewer.client, decision_url(team, clear_lead))
    assert page.count('class="judge-buttons"') <= 1
    assert page.count("<dt>") == 4
    said = viewer.get(f"arenas/{clear_lead.slug}/decision/").json()
    among = [candidate.pk for candidate in two]
    board = read_difference_boards(clear_lead, BoardQuery(), among).chosen
    assert board is not None
    then = board.claims_over_time(two[1].pk, two[0].pk)
    assert 10 < len(then) <= CHECKS
    assert (then[-1][1].win_rate, then[-1][1].low) == (said["wins"], said["wins_low"])
    first = next(votes for votes, found in then if found.is_decided)
    assert f"First decided after {first} votes" in page
    assert not then[0][1].is_decided


def test_open_result_has_no_mark(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.1))
    page = page_text(join(team), decision_url(team, arena))
    assert "As votes came in" in page
    assert "decision-moment" not in page


def test_reasons_against_the_candidate_are_shown(team: Team, clear_lead: Arena) -> None:
    old, new = candidates_of(clear_lead)
    client, url = join(team), decision_url(team, clear_lead)
    assert "named these faults" not in page_text(client, url)
    fault = clear_lead.faults.splitlines()[0]
    vote = make_vote(clear_lead, new, old, "right", clear_lead.prompts.all()[0])
    Reason.objects.create(vote=vote, side="left", tag=fault)
    publish(clear_lead)
    page = page_text(client, url)
    assert "named these faults of candidate-1" in page
    assert f"{fault}" in page.partition('id="lost"')[2]
    other = decision_url(team, clear_lead, candidate=old.pk, baseline=new.pk)
    assert "named these faults" not in page_text(client, other)


@pytest.fixture
def careful_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripted judges without moods or noise: a jury of them never splits, whatever the ids."""
    for quirk in ("FLIPS", "REFUSALS", "UNREADABLE_SHARE", "NOISE"):
        monkeypatch.setattr(f"arena.calls.providers.scripted.{quirk}", 0)


@pytest.mark.usefixtures("careful_scripts")
def test_votes_of_scripts_are_called_so_under_the_sentence(team: Team, clear_lead: Arena) -> None:
    for judges in (["scripted:scripted-1"], ["scripted:scripted-1", "scripted:scripted-2"]):
        work_off(order(clear_lead, *judges, per_pair=10))
    publish(clear_lead)
    client, said = join(team), "Demo only: these votes come from a script"
    for raters in ("judges", "juries"):
        assert said in page_text(client, decision_url(team, clear_lead, raters=raters))
    for raters in ("people", "combined"):
        assert said not in page_text(client, decision_url(team, clear_lead, raters=raters))
    combined = page_text(client, decision_url(team, clear_lead, raters="combined"))
    assert "By human votes, candidate-1 is better than candidate-0" in combined


def test_votes_of_real_judges_are_not(team: Team, clear_lead: Arena, judge_votes: Any) -> None:
    page = page_text(join(team), decision_url(team, clear_lead, raters="judges"))
    assert "Votes of scripted judges" not in page


def shut_out(team: Team, prompts: int, won: str = "left") -> Arena:
    """The first of two wins or loses on each of some prompts."""
    arena = make_arena(2, 20, team=team)
    arena.candidates.update(team=team)
    old, new = candidates_of(arena)
    for prompt in arena.prompts.order_by("pk")[:prompts]:
        make_vote(arena, old, new, won, prompt)
    publish(arena)
    return arena


def test_who_loses_on_enough_prompts_is_known_to_be_worse(team: Team) -> None:
    page = page_text(join(team), decision_url(team, shut_out(team, 8)))
    assert "candidate-1 is worse than candidate-0 for these 8 raters" in page
    assert "it wins 0% of the time (0 to 47)" in page


def test_a_winner_on_too_few_prompts_sees_how_many_are_missing(team: Team) -> None:
    page = page_text(join(team), decision_url(team, shut_out(team, 7, "right")))
    assert "for these 7 raters and prompts" in page
    assert re.search(r"<strong>about \d+ more prompts?</strong>", page)


def test_many_votes_on_one_prompt_are_one_prompt(team: Team) -> None:
    arena = shut_out(team, 1)
    old, new = candidates_of(arena)
    for _ in range(30):
        make_vote(arena, new, old, "right", arena.prompts.order_by("pk").first())
    publish(arena)
    page = page_text(join(team), decision_url(team, arena))
    assert "for these 31 raters and prompts" in page
    assert member_of(team).get(f"arenas/{arena.slug}/decision/").json()["groups_to_go"] == 7


def test_votes_that_found_both_bad_are_no_comparison_yet(team: Team) -> None:
    page = page_text(join(team), decision_url(team, shut_out(team, 5, "both_bad")))
    assert "Not decided yet: all 5 votes on candidate-1 and candidate-0 rated both" in page
    assert "<strong>0</strong> between the two" in page
    assert "plus 5 “both bad” between the two" in page


def test_what_was_known_is_told_beside_what_the_votes_say_now(
    team: Team, clear_lead: Arena
) -> None:
    write_decisions(now=timezone.now(), seen={})
    client, url = join(team), decision_url(team, clear_lead)
    assert "<dt>Decided</dt>" in page_text(client, url)
    vote_by_strength(clear_lead, (0.0, -1.5), each=400)
    publish(clear_lead)
    page = page_text(client, url)
    assert "candidate-1 is worse than candidate-0" in page.partition("</h1>")[0]
    assert "UTC</time>: “candidate-1 is better than candidate-0" in page


def test_of_the_retired_no_more_votes_are_asked(team: Team) -> None:
    arena = published_arena(team, (0.0, 0.3))
    arena.candidates.filter(name="candidate-1").update(retired_at=timezone.now())
    page = page_text(join(team), decision_url(team, arena))
    assert "No more votes will come, because candidate-1 is archived." in page
    assert "<dt>Still missing" not in page
    assert "Start a judge run" not in page
