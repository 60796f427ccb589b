"""An arena's judge runs, newest first, readable by everybody."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from arena.actors import CLI
from arena.models import Arena, Rater, Response, Run
from arena.services.orders import order_people_run
from judges.models import Calibration
from judges.services.voted_pairs import judged_where_people_voted
from judges.tasks import measure_judge
from judges.views.arena_judges import judges_in
from tests.factories import make_arena, make_person, make_vote
from tests.judges.fake_server import FakeServer, Sent, completion, is_probe, nonce_of
from tests.judges.helpers import (
    hide_arena,
    issue_pair,
    order,
    page_text,
    signed_in,
    vote_on,
    work_off,
)
from tests.ranking.helpers import publish

pytestmark = pytest.mark.django_db


def url(arena: Arena) -> str:
    return reverse("judge_runs", args=[arena.slug])


def test_runs_are_listed_newest_first_with_progress_and_cost() -> None:
    arena = make_arena(2, 4)
    old = work_off(order(arena, "scripted:scripted-1"))
    new = order(arena, "scripted:scripted-1", "scripted:scripted-2")
    Run.objects.filter(pk=old.pk).update(cap=5 * 10**9, settled=10**8)
    html = page_text(signed_in("boss", staff=True), url(arena))
    assert html.index(f"Run {new.pk}<") < html.index(f"Run {old.pk}<")
    assert "2 of 2" in html
    assert f"0 of {new.judgements.count()}" in html
    assert "$0.10" in html
    assert "of $5.00" in html
    assert "Jury of 2" not in html


def test_an_arena_without_runs_says_so(client: Client) -> None:
    html = page_text(client, url(make_arena()))
    assert "No judge runs yet." in html
    assert "imported" not in html


def test_votes_of_models_without_a_run_were_imported(client: Client) -> None:
    arena = make_arena()
    make_vote(arena, *arena.candidates.all()[:2], "left", rater=Rater.objects.create(kind="judge"))
    publish(arena)
    assert "The judge and jury votes here were imported." in page_text(client, url(arena))


def test_it_is_one_of_the_views_of_the_arena(client: Client) -> None:
    arena = make_arena()
    html = page_text(client, url(arena))
    assert re.search(r'href="/a/\S+/about/" aria-current="page" *>About<', html)
    assert "<h2>Judge runs</h2>" in html
    assert re.search(rf'href="/a/{arena.slug}/[^"]*" *>Leaderboard<', html)
    assert re.search(rf'href="/a/{arena.slug}/vote/" *>', html)


def test_runs_of_human_votes_and_of_other_arenas_are_not_among_them(client: Client) -> None:
    arena = make_arena(2, 2)
    order_people_run(arena=arena, per_pair=1, by=CLI)
    order(make_arena(2, 2), "scripted")
    assert "No judge runs yet." in page_text(client, url(arena))


def test_a_hidden_arena_has_no_list(client: Client) -> None:
    arena = make_arena()
    hide_arena(arena)
    assert client.get(url(arena)).status_code == 404


def test_only_staff_are_led_to_the_order(client: Client) -> None:
    arena = make_arena()
    order_url = reverse("order_run", args=[arena.slug])
    assert order_url not in page_text(client, url(arena))
    assert order_url not in page_text(signed_in("ann"), url(arena))
    assert order_url in page_text(signed_in("boss", staff=True), url(arena))


RUBRICS = ["pairwise", "pairwise-note"]


@pytest.mark.parametrize("runs", [1, 4])
def test_the_list_takes_as_many_queries_however_many_runs(
    client: Client, django_assert_num_queries: Any, runs: int
) -> None:
    arena = make_arena(2, 8)
    for number in range(runs):
        both = [f"scripted:scripted-{n}@{RUBRICS[number // 2]}" for n in (number % 2 + 1, 3)]
        order(arena, *both, per_pair=1)
    with django_assert_num_queries(8):
        page_text(client, url(arena))


def header(html: str) -> str:
    return html[html.index("<header") : html.index("</header>")]


def test_a_stranger_is_led_to_the_sign_in_and_back(client: Client) -> None:
    arena = make_arena()
    runs = reverse("judge_runs", args=[arena.slug])
    assert f'href="/sign-in/?next={runs}%3Fpage%3D2"' in header(page_text(client, f"{runs}?page=2"))


def test_anyone_who_is_signed_in_signs_out_by_a_form() -> None:
    ann = signed_in("ann")
    html = header(page_text(ann, reverse("judges")))
    assert '<a href="/sign-in/" title="Signed in as ann">' in html
    assert '<form method="post" action="/sign-out/">' in page_text(ann, "/sign-in/")
    assert "Sign in<" not in html
    assert ann.post("/sign-out/").url == "/"
    assert "Sign in<" in header(page_text(ann, reverse("judges")))


def test_a_stored_page_leads_to_the_account_of_anyone_who_reads_it(client: Client) -> None:
    account = '<a href="/sign-in/"> <span class="for-anybody">Account</span>'
    assert account in " ".join(header(page_text(client, "/")).split())
    assert header(page_text(signed_in("bob"), "/")) == header(page_text(client, "/"))
    assert "signed in as <strong>ann</strong>" in page_text(signed_in("ann"), "/sign-in/")
    assert "<h1>Sign in</h1>" in page_text(client, "/sign-in/")


def test_no_foreign_address_is_led_to_from_the_account() -> None:
    assert "evil.example" not in page_text(signed_in("ann"), "/sign-in/?next=https://evil.example/")


def test_staff_is_offered_an_order_in_each_arena(client: Client) -> None:
    one = make_arena(slug="one", name="One")
    order = reverse("order_run", args=[one.slug])
    boss = signed_in("boss", staff=True)
    assert f'href="{order}">Start a judge run</a>' in page_text(boss, reverse("judges"))
    make_arena(slug="two", name="Two")
    assert f'href="{order}">One</a>' in page_text(boss, reverse("judges"))
    assert order not in page_text(client, reverse("judges"))


def test_only_those_who_start_runs_measure_judges_and_only_where_people_voted() -> None:
    arena = make_arena(2, 2)
    work_off(order(arena, "scripted:scripted-1"))
    measure = reverse("measure_judges", args=[arena.slug])
    assert measure not in page_text(signed_in("ann"), url(arena))
    boss = signed_in("boss", staff=True)
    assert measure in page_text(boss, url(arena))
    assert "none was measured" in page_text(boss, boss.post(measure).url)
    assert Calibration.objects.count() == 0


def test_a_run_of_pairs_with_human_votes_takes_no_others() -> None:
    arena, person = make_arena(2, 4), make_person()
    for number in (0, 2):
        vote_on(issue_pair(arena, person, number, turned=number == 2), person, "left")
    run = work_off(order(arena, "scripted:scripted-1", per_pair=4, pairs="voted"))
    judged = set(run.judgements.values_list("comparison__prompt", flat=True))
    voted = set(arena.votes.of_people().values_list("comparison__prompt", flat=True))
    assert judged == voted
    assert len(judged) == 2
    [epoch] = judged_where_people_voted(judges_in(arena), arena)
    assert epoch == run.judgements.get(comparison__prompt=min(voted)).epoch
    arena.votes.of_people().delete()
    assert not judged_where_people_voted(judges_in(arena), arena)


ITEMS = 48
FAULTY = {
    "good": "",
    "first": "Swapping the answers changes its verdict on 100.0% of",
    "longer": "nothing shows that it goes by more than length.",
    "timid": "It reached a verdict on 50.0% of 48 items, which is below the 70% required.",
}


def planted(body: dict[str, Any]) -> Sent:
    """A judge that is right, and three with a fault, by the name of the model."""
    if is_probe(body):
        return completion("Yes.")
    judge, asked = body["model"].split("-")[0], body["messages"][1]["content"]
    shown = dict(re.findall(r"<answer-([ab])-\w+>\n(.*?)\n</", asked, re.DOTALL))
    number = int(re.findall(r"Question (\d+)\?", asked)[0])
    if judge == "timid" and number % 4 < 2:
        return completion("I'm sorry, but I can't assist with that.")
    better = "a" if f"{number}-0 of" in shown["a"] else "b"
    if judge == "first":
        better = "a"
    if judge == "longer":
        better = max(shown, key=lambda letter: len(shown[letter]))
    return completion(f"Reasons.\nVERDICT-{nonce_of(body)}: {better.upper()}")


def test_the_page_says_which_judge_to_trust_and_why_not_the_others(
    local: FakeServer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.STOP_HOPELESS_JUDGES = False  # or the first would not be asked about all
    arena, people = make_arena(2, ITEMS), [make_person() for _ in range(3)]
    for number, prompt in enumerate(arena.prompts.order_by("pk")):
        answers = list(prompt.responses.order_by("pk"))
        padded = answers[number // 2 % 2]
        Response.objects.filter(pk=padded.pk).update(text=padded.text + " Well, well." * 9)
        for person in people:
            turned = number % 2 == 0
            vote_on(
                issue_pair(arena, person, number, turned=turned),
                person,
                "right" if turned else "left",
            )
    local.otherwise = planted
    monkeypatch.setattr(measure_judge, "delay", measure_judge)
    boss = signed_in("boss", staff=True)
    for judge in FAULTY:
        name = f"local:{judge}-7b-2024-07-01"
        work_off(order(arena, name, per_pair=ITEMS))
        assert (
            f"{name}@pairwise</a>" in page_text(boss, url(arena)).split("Not measured here yet")[1]
        )
    assert boss.post(reverse("measure_judges", args=[arena.slug])).url == f"{url(arena)}#main"
    html = page_text(boss, url(arena))
    assert "The judges are being measured." in html
    assert ">Measure again<" in html
    assert "Not measured here yet" not in html
    trust = html.split("Which judges can be trusted here")[1]
    rows = re.findall(r"<tr>.*?</tr>", trust, re.DOTALL)[1:]
    assert len(rows) == len(FAULTY)
    assert "good-7b" in rows[0]
    for judge, reason in FAULTY.items():
        [row] = [one for one in rows if f"{judge}-7b" in one]
        failed = row.split("All conditions")[0]
        assert ("> Trusted <" in failed) == (judge == "good"), judge
        assert reason in failed, judge
