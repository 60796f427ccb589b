"""The voting page over HTTP: blind, plain forms and htmx, limits, other people's pairs."""

import re
from base64 import urlsafe_b64decode
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from arena.models import (
    Arena,
    Candidate,
    Comparison,
    PairDemand,
    RateLimit,
    Rater,
    Response,
    Run,
    Vote,
)
from arena.outcomes import OUTCOMES
from arena.services.ballots import html_of
from arena.services.pairs import sync_pairs
from arena.views.ballots import RoundProgress, ballot_of, reveal_of
from arena.views.raters import COOKIE_AGE, known_rater_id
from arena.views.voting import NOTICES
from tests.factories import known, make_arena, make_vote, rewrite_answers

pytestmark = pytest.mark.django_db
UUID = r"[0-9a-f]{8}-[0-9a-f-]{27}"
KNOWN = UUID + r'|csrfmiddlewaretoken" value="\w+"'
SEALED = r'name="sealed" value="([^"]+)"'
HTMX = {"HX-Request": "true"}


def url(arena):
    return reverse("vote", args=[arena.slug])


def open_page(client, arena):
    page = known(client).get(url(arena))
    assert page.status_code == 200
    key = re.search(r'data-key="([0-9a-f-]{36})"', page.text)[1]
    return page, Comparison.objects.get(key=key)


def post(client, comparison, outcome, *, headers=None, **form):
    target = reverse("cast_vote", args=[comparison.arena.slug, comparison.key])
    return client.post(target, form | {"outcome": outcome}, headers=headers)


def test_the_page_shows_the_question_the_prompt_and_both_answers(client, arena):
    page, comparison = open_page(client, arena)
    for text in (arena.question, comparison.prompt.text, comparison.left_response.text):
        assert text in page.text


def test_nothing_in_the_page_gives_a_candidate_away(client):
    arena = make_arena(3, 3, slug="named-so")
    for number, candidate in enumerate(arena.candidates.all()):
        candidate.name, candidate.model = f"secretname{number}", f"secretmodel{number}"
        candidate.variant = f"secretvariant{number}"
        candidate.save()
    page, comparison = open_page(client, arena)
    ahead = client.get(reverse("next_pair", args=[arena.slug]), {"besides": comparison.key})
    for body in (page.text, ahead.text):
        assert "secret" not in body
        allowed = {str(c.key) for c in Comparison.objects.all()}
        assert set(re.findall(UUID, body)) <= allowed
        assert not re.search(r'(id|key|value|action)="[^"]*\d', re.sub(KNOWN, "", body))


def test_an_open_pairs_outcome_page_reveals_nothing(client, arena):
    _, comparison = open_page(client, arena)
    after = client.get(url(arena), {"after": comparison.key})
    assert comparison.left.name not in after.text


def test_a_plain_post_counts_and_leads_to_names_and_next_pair(client, arena):
    _, comparison = open_page(client, arena)
    answer = post(client, comparison, "left")
    assert answer.status_code == 302
    page = client.get(answer.url)
    assert f"You chose <strong>{comparison.left}</strong> over {comparison.right}." in page.text
    assert "<strong>1</strong> of 10" in page.text
    for candidate in (comparison.left, comparison.right):
        assert f"<strong>{candidate}</strong>" in page.text.split('class="answers"')[1]
    assert comparison.left_response.text in page.text
    assert 'class="choices"' not in page.text
    assert str(comparison.key) not in client.get(url(arena)).text


def test_the_tenth_vote_leads_to_what_the_round_has_moved(client):
    arena = make_arena(4, 2)
    for n in range(1, 12):
        _, comparison = open_page(client, arena)
        answer = post(client, comparison, "left", headers=HTMX).text
        assert ('data-round="rounds/1/"' in answer) == (n == 10)
    assert "<strong>1</strong> of 10" in answer


def test_reasons_are_asked_for_before_the_names_where_the_arena_says_so(client, arena):
    Arena.objects.update(reasons_first=True)
    _, comparison = open_page(client, arena)
    answer = post(client, comparison, "left", headers=HTMX).text
    assert "candidate-" not in answer
    assert "Show the names" in answer
    where = reverse("give_reasons", args=[arena.slug, comparison.key])
    told = client.post(where, {"left": ["clear"], "show": "1"}, headers=HTMX).text
    assert f"<strong>{comparison.right}</strong>" in told
    assert Vote.objects.get().reasons.get().tag == "clear"
    page = client.get(client.post(where, {"left": ["clear"], "show": "1"}).url).text
    assert f"<strong>{comparison.right}</strong>" in page


def test_with_htmx_the_names_come_back_alone(client, arena):
    _, comparison = open_page(client, arena)
    answer = post(client, comparison, "right", headers=HTMX)
    assert f"You chose <strong>{comparison.right}</strong> over {comparison.left}." in answer.text
    assert 'id="ballot"' not in answer.text


def test_with_htmx_the_next_pair_comes_if_none_was_fetched(client, arena):
    _, comparison = open_page(client, arena)
    target = reverse("cast_vote", args=[arena.slug, comparison.key])
    answer = client.post(target, {"outcome": "tie", "with_next": "1"}, headers=HTMX)
    assert 'id="ballot" hx-swap-oob="innerHTML"' in answer.text
    assert 'class="choices"' in answer.text


@pytest.mark.parametrize("language", ["en", "fr"])
@pytest.mark.parametrize("outcome", [*OUTCOMES, "skip"])
def test_a_prepared_answer_reads_like_the_template(client, arena, outcome, language):
    for number, candidate in enumerate(arena.candidates.all()):
        Candidate.objects.filter(pk=candidate.pk).update(name=f"<i>%s 10% {number}")
    _, comparison = open_page(client, arena)
    target = reverse("cast_vote", args=[arena.slug, comparison.key])
    form = {"outcome": outcome, "with_next": "1", "csrfmiddlewaretoken": "t0ken"}
    answer = client.post(target, form, headers=HTMX | {"Accept-Language": language})
    issued = Comparison.objects.with_texts().exclude(pk=comparison.pk).get()
    vote = comparison.votes.first()
    last = Comparison.objects.with_texts().get(pk=comparison.pk)
    context = {
        "arena": arena,
        "last": last,
        "reveal": vote and reveal_of(last, vote),
        "skipped": vote is None,
        "round": RoundProgress(int(vote is not None), is_revealing=vote is not None),
        "with_next": True,
        "ballot": ballot_of(issued),
        "csrf_token": "t0ken",
    }
    with translation.override(language):
        assert answer.text == render_to_string("arena/_after.html", context)


def test_an_answer_has_the_names_of_its_own_pair_alone(client, arena):
    other = make_arena(2, 3, slug="other")
    for candidate in Candidate.objects.all():
        Candidate.objects.filter(pk=candidate.pk).update(
            name=f"{candidate.arena.slug}-{candidate.pk}"
        )
    texts = [
        post(client, open_page(client, a)[1], "left", headers=HTMX).text for a in (arena, other)
    ]
    assert [f"<strong>{arena.slug}-" in text for text in texts] == [True, False]
    assert ["<strong>other-" in text for text in texts] == [False, True]


def test_a_double_click_is_one_vote(client, arena):
    _, comparison = open_page(client, arena)
    answers = [post(client, comparison, "left", headers=HTMX) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert Vote.objects.count() == 1


def test_after_the_back_button_the_first_vote_counts(client, arena):
    _, comparison = open_page(client, arena)
    post(client, comparison, "left")
    page = client.get(post(client, comparison, "right").url)
    assert "your first vote counts" in page.text
    assert Vote.objects.get().outcome == "left"


def test_two_tabs_show_the_same_pair_and_make_one_vote(client, arena):
    first, second = (open_page(client, arena)[1] for _ in range(2))
    assert first == second
    post(client, first, "left")
    post(client, second, "left")
    assert Vote.objects.count() == 1


def test_an_expired_pair_gets_a_sentence_and_a_fresh_pair(client, arena):
    _, comparison = open_page(client, arena)
    Comparison.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    answer = post(client, comparison, "left", headers=HTMX)
    page = client.get(answer.headers["HX-Redirect"])
    assert "expired before you voted" in page.text
    assert not Vote.objects.exists()


def test_a_vote_for_another_persons_pair_is_refused_with_a_reason(client, arena):
    _, comparison = open_page(client, arena)
    stranger = Client()
    page = stranger.get(post(stranger, comparison, "left").url)
    assert "assigned to another rater" in page.text
    assert not Vote.objects.exists()


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("assigned to another rater", lambda browser: browser.cookies.pop("rater")),
        (
            "expired before you voted",
            lambda _: Comparison.objects.update(expires_at=timezone.now() - timedelta(seconds=1)),
        ),
        ("You skipped this pair", lambda _: Comparison.objects.update(skipped_at=timezone.now())),
        ("closed voting for you", lambda _: Rater.objects.update(blocked_at=timezone.now())),
        ("Sign in to vote", lambda _: Arena.objects.update(voters="signed_in")),
        (None, lambda _: Arena.objects.update(visibility="private")),
    ],
)
def test_a_refused_vote_that_asks_for_the_next_pair_leaves_nothing(client, arena, words, refused):
    _, comparison = open_page(client, arena)
    counted = list(RateLimit.objects.values_list("key", "hits"))
    refused(client)
    answer = post(client, comparison, "left", with_next="1", headers=HTMX)
    if words is None:
        assert answer.status_code == 404
    else:
        notice = parse_qs(urlsplit(answer.headers["HX-Redirect"]).query)["notice"][0]
        assert words in str(NOTICES[notice])
    assert not Vote.objects.exists()
    assert list(RateLimit.objects.values_list("key", "hits")) == counted
    assert Comparison.objects.count() == 1


@pytest.mark.parametrize("reported", ["", "0.25", "30", "-1", "9999", "inf", "much"])
def test_a_vote_that_brings_the_next_pair_is_stored_like_one_that_does_not(arena, reported):
    kept = []
    for more in ({}, {"with_next": "1"}):
        browser = Client()
        _, comparison = open_page(browser, arena)
        Comparison.objects.update(issued_at=timezone.now() - timedelta(seconds=90))
        for _ in range(2):
            assert post(browser, comparison, "tie", seconds=reported, **more, headers=HTMX).text
        (vote,) = comparison.votes.values("outcome", "rushed", "channel", "uncounted", "seconds")
        kept.append({**vote, "seconds": round(vote["seconds"] / 30)})
        assert RateLimit.objects.get(key=f"issue:{comparison.rater_id}").hits == 1 + 2 * len(more)
    assert kept[0] == kept[1]


def test_a_forged_cookie_is_nobody(client, arena):
    _, comparison = open_page(client, arena)
    forger = Client()
    forger.cookies["rater"] = f"{comparison.rater_id}:forged"
    post(forger, comparison, "left")
    assert not Vote.objects.exists()


def test_a_cookie_that_was_good_is_nobodys_after_a_year(client, arena, monkeypatch):
    _, comparison = open_page(client, arena)
    request = RequestFactory().get("/")
    request.COOKIES["rater"] = client.cookies["rater"].value
    assert known_rater_id(request) == comparison.rater_id
    later = timezone.now() + COOKIE_AGE + timedelta(days=1)
    monkeypatch.setattr("time.time", later.timestamp)
    monkeypatch.setattr("arena.views.voting.timezone.now", lambda: later)
    assert known_rater_id(request) is None


def test_an_unknown_outcome_is_refused_with_a_reason(client, arena):
    _, comparison = open_page(client, arena)
    assert "Unknown outcome" in client.get(post(client, comparison, "x").url).text


def test_a_skip_records_no_vote_and_shows_the_next_pair(client, arena):
    _, comparison = open_page(client, arena)
    page = client.get(post(client, comparison, "skip").url)
    assert "Skipped" in page.text
    assert comparison.left.name not in page.text
    assert not Vote.objects.exists()
    assert open_page(client, arena)[1] != comparison


def test_an_undo_voids_the_vote(client, arena):
    _, comparison = open_page(client, arena)
    post(client, comparison, "left")
    page = client.get(client.post(reverse("undo_vote", args=[arena.slug, comparison.key])).url)
    assert "Vote withdrawn" in page.text
    assert Vote.objects.get().void_reason


def test_csrf_is_checked(arena):
    browser = Client(enforce_csrf_checks=True)
    _, comparison = open_page(browser, arena)
    assert post(browser, comparison, "left").status_code == 403
    assert not Vote.objects.exists()


def test_one_browser_is_one_rater(client, arena):
    for _ in range(2):
        open_page(client, arena)
    assert Rater.objects.count() == 1


def test_anonymous_raters_are_sent_to_sign_in_if_required(client, admin_user):
    arena = make_arena(voters="signed_in")
    assert client.get(url(arena)).url == f"/sign-in/?next=/a/{arena.slug}/vote/"
    client.force_login(admin_user)
    _, comparison = open_page(client, arena)
    assert comparison.rater.user == admin_user
    post(client, comparison, "left")
    assert Vote.objects.get().rater.user == admin_user


def test_asking_too_fast_is_answered_with_a_break(client, arena, settings):
    settings.VOTES_PER_MINUTE = 3
    codes = [known(client).get(url(arena)).status_code for _ in range(5)]
    assert codes == [200, 200, 200, 429, 429]


def test_a_vote_that_comes_too_fast_counts_and_leads_to_a_break(client, arena, settings):
    settings.VOTES_PER_MINUTE = 1
    _, comparison = open_page(client, arena)
    target = reverse("cast_vote", args=[arena.slug, comparison.key])
    answer = client.post(target, {"outcome": "left", "with_next": "1"}, headers=HTMX)
    assert "You chose" in client.get(answer.headers["HX-Redirect"]).text
    assert client.get(url(arena)).status_code == 429
    assert Vote.objects.count() == 1


def test_one_address_cannot_become_any_number_of_raters(arena, settings):
    settings.NEW_RATERS_PER_HOUR = 2
    forged = {"X-Forwarded-For": "203.0.113.9"}
    codes = []
    for browser in (Client(headers=forged), Client(headers=forged), Client()):
        address, fields, _ = look(arena)
        refused = browser.get(browser.post(address, fields).url)
        codes.append(refused.status_code)
    assert codes == [200, 200, 429]
    assert "Many people on your network have started to vote" in refused.text
    assert "Your votes so far" not in refused.text


def test_an_arena_without_texts_has_nothing_to_vote_on(client):
    arena = make_arena(2, 1)
    left, right = arena.candidates.order_by("pk")
    make_vote(arena, left, right, "left")
    Response.objects.all().delete()
    sync_pairs(arena=arena)
    page = client.get(url(arena))
    assert "imported with its votes but without the answers" in page.text


def test_an_arena_being_set_up_says_what_it_lacks(client):
    page = client.get(url(make_arena(2, 0)))
    assert "Nothing to vote on yet" in page.text
    assert "without the answers" not in page.text


def test_a_rater_who_has_seen_everything_is_thanked(client):
    arena = make_arena(2, 1)
    _, comparison = open_page(client, arena)
    assert client.get(post(client, comparison, "left").url).status_code == 200
    assert client.get(url(arena)).url == reverse("round", args=[arena.slug, 1])


def test_an_unknown_or_hidden_arena_is_not_found(client):
    assert client.get("/a/nowhere/vote/").status_code == 404


def test_what_a_model_wrote_reaches_the_page_sanitised(client):
    arena = make_arena(2, 1)
    rewrite_answers("<script>alert(1)</script> **bold** [x](javascript:alert(1))")
    page, _ = open_page(client, arena)
    assert "<script>alert" not in page.text
    assert 'href="javascript' not in page.text
    assert "<strong>bold</strong>" in page.text


@pytest.mark.parametrize(("language", "summary"), [("en", "Thought"), ("fr", "Réflexion")])
def test_the_thought_of_an_answer_is_folded_on_both_sides(client, language, summary):
    arena = make_arena(2, 1)
    rewrite_answers("<think>Let me see.</think>\n\nIt is **four**.")
    arena.prompts.update(text="<think>Not a thought</think> Two and two?")
    client.defaults["HTTP_ACCEPT_LANGUAGE"] = language
    page, comparison = open_page(client, arena)
    fold = f'<details class="thought"><summary>{summary}</summary>'
    assert page.text.count(fold) == 2
    assert page.text.count("<strong>four</strong>") == 2
    assert "&lt;think&gt;Not a thought" in page.text
    comparison.left_response.refresh_from_db()
    assert comparison.left_response.text.startswith("<think>Let me see.</think>\n\nIt is")


def test_the_texts_are_rendered_once_and_stored(client, arena):
    open_page(client, arena)
    stored = Response.objects.exclude(html=None)
    assert stored.count() == 2
    stored.update(html="<p>from the store</p>")
    assert open_page(client, arena)[0].text.count("from the store") == 2


def test_a_retired_candidate_is_not_shown_any_more(client):
    arena = make_arena()
    gone = Candidate.objects.filter(arena=arena).first()
    Candidate.objects.filter(pk=gone.pk).update(retired_at=timezone.now())
    sync_pairs(arena=Arena.objects.get(pk=arena.pk))
    for _ in range(4):
        _, comparison = open_page(client, arena)
        post(client, comparison, "tie")
    assert not Comparison.objects.filter(left=gone).exists()
    assert not Comparison.objects.filter(right=gone).exists()


def test_another_arenas_cookie_does_not_bypass_sign_in(client, arena):
    closed = make_arena(voters="signed_in")
    _, comparison = open_page(client, arena)
    for key in (comparison.key, "nonsense"):
        answer = client.get(reverse("next_pair", args=[closed.slug]), {"besides": key})
        assert answer.status_code == 204
    assert not closed.comparisons.exists()


def test_fetching_ahead_gives_no_pair_whose_vote_is_on_its_way(client, arena):
    _, first = open_page(client, arena)
    url = reverse("next_pair", args=[arena.slug])

    def key_besides(*keys):
        page = client.get(url, {"besides": keys})
        return re.search(r'data-key="([0-9a-f-]{36})"', page.text)[1]

    second = key_besides(first.key)
    third = key_besides(second, first.key)
    assert len({str(first.key), second, third}) == 3


def test_fetching_ahead_takes_only_ones_own_pair(client, arena):
    _, comparison = open_page(Client(), arena)
    open_page(client, arena)
    page = client.get(reverse("next_pair", args=[arena.slug]), {"besides": comparison.key})
    assert page.status_code == 204


def test_a_blocked_rater_sees_why(client, arena):
    _, comparison = open_page(client, arena)
    Rater.objects.update(blocked_at=timezone.now())
    post(client, comparison, "left")
    page = client.get(url(arena))
    assert page.status_code == 403
    assert "excluded your votes" in page.text
    assert not Vote.objects.exists()


def test_a_cookie_that_nobody_was_given_is_forgotten(client):
    client.cookies["sessionid"] = "abc\0def"
    assert client.get("/sign-in/").status_code == 200


def test_crawlers_are_kept_off_the_voting_pages(client):
    assert "Disallow: /*/vote/" in client.get("/robots.txt").text


def look(arena):
    """The address, the fields and the answers of a pair that nobody was issued."""
    page = Client().get(url(arena))
    assert page.status_code == 200
    key, sealed = re.search(r'data-key="(\S{36})"', page.text)[1], re.search(SEALED, page.text)[1]
    fields = {"outcome": "left", "seconds": "", "sealed": sealed}
    return reverse("cast_vote", args=[arena.slug, key]), fields, page.text


def test_whoever_only_looks_is_no_rater_and_locks_nobody_out(client, arena, settings):
    settings.NEW_RATERS_PER_HOUR = 1
    for _ in range(3):
        look(arena)
    assert not Rater.objects.exists()
    assert not Comparison.objects.exists()
    open_page(client, arena)


def test_a_vote_on_a_previewed_pair_counts_and_makes_its_rater(client, arena):
    address, fields, page = look(arena)
    answer = client.post(address, fields)
    vote = Vote.objects.select_related("comparison__left_response").get()
    comparison = vote.comparison
    assert (vote.outcome, vote.rater, Rater.objects.count()) == ("left", comparison.rater, 1)
    assert 0 < comparison.draw_probability <= 1
    left, right = comparison.left_response.text, comparison.right_response.text
    assert page.index(left) < page.index(right)
    assert f"over {comparison.right}." in client.get(answer.url).text
    assert Rater.objects.count() == 1


def test_a_previewed_pair_can_be_voted_on_once(client, arena):
    address, fields, _ = look(arena)
    client.post(address, fields)
    for browser in (Client(), client):
        answer = browser.post(address, fields | {"outcome": "right"})
        assert "notice=" in answer.url
    assert Vote.objects.get().outcome == "left"
    assert Rater.objects.count() == 1


def test_a_known_rater_cannot_choose_among_previews(client, arena):
    open_page(client, arena)
    for address, fields, _ in (look(arena), look(arena)):
        assert "notice=NotIssuedToYou" in client.post(address, fields).url
    assert not Vote.objects.exists()


def test_a_forged_preview_is_refused(client, arena):
    address, fields, _ = look(arena)
    _, other, _ = look(arena)
    for sealed in ("", "x", "é", fields["sealed"][:-8] + "AAAAAAA=", other["sealed"]):
        assert client.post(address, fields | {"sealed": sealed}).status_code == 404
    elsewhere = address.replace(arena.slug, make_arena(3, 3, slug="elsewhere").slug)
    assert client.post(elsewhere, fields).status_code == 404
    assert not Rater.objects.exists()


def test_a_preview_expires_as_a_pair_does(client, arena, monkeypatch):
    address, fields, _ = look(arena)
    monkeypatch.setattr("arena.services.comparisons.TIME_TO_VOTE", timedelta(0))
    assert "notice=Expired" in client.post(address, fields).url
    assert not Vote.objects.exists()


def test_a_retired_answer_is_voted_on_in_no_preview(client, arena):
    address, fields, _ = look(arena)
    Candidate.objects.update(retired_at=timezone.now())
    assert "notice=Retired" in client.post(address, fields).url
    assert not Vote.objects.exists()


def test_a_preview_says_no_more_than_a_pair_does(arena):
    names = "".join(arena.candidates.values_list("name", flat=True))
    _, fields, page = look(arena)
    assert not any(name in page for name in names.split())
    assert len(fields["sealed"]) > 100
    with pytest.raises(UnicodeDecodeError):
        urlsafe_b64decode(fields["sealed"]).decode()


def test_a_previewed_vote_of_one_more_rater_than_allowed_waits(client, arena, settings):
    settings.NEW_RATERS_PER_HOUR = 1
    address, fields, _ = look(arena)
    client.post(address, fields)
    client.cookies.clear()
    Vote.objects.all().delete()
    address, fields, _ = look(arena)
    assert client.get(client.post(address, fields).url).status_code == 429
    assert not Vote.objects.exists()


def test_whoever_only_looks_writes_nothing(arena):
    for answer in Response.objects.all():  # which are rendered once
        html_of(answer)
        html_of(answer.prompt)
    with CaptureQueriesContext(connection) as queries:
        Client().get(url(arena))
    assert not re.search("INSERT|UPDATE|DELETE", "".join(q["sql"] for q in queries))


def test_a_run_that_asks_whoever_comes_asks_a_new_rater_at_once(arena):
    run = Run.objects.create(arena=arena, kind=Run.Kind.PERSON, state=Run.State.OPEN)
    pair = arena.pairs.first()
    PairDemand.objects.create(arena=arena, pair=pair, run=run, remaining=1)
    Client().get(url(arena))
    assert Comparison.objects.get().run == run
