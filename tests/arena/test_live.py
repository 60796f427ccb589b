"""Live questions: asked, answered in step, voted on, paid for, shared and deleted."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from threading import BoundedSemaphore, Semaphore
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.calls import scheduling
from arena.calls.models import Call
from arena.endpoints import Endpoint, ModelPrice
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    LiveConversation,
    LiveTurn,
    Prompt,
    Rater,
    Reason,
    Run,
    Vote,
)
from arena.services import expiry, live
from arena.services.arenas import delete_arena, update_arena
from arena.services.budgets import budget_left
from arena.services.candidates import merge_candidates, retire_candidate, undo_merges
from arena.services.privacy import forget_rater, personal_data
from arena.services.raters import rater_of_person
from arena.tasks import sweep_calls
from arena.views.live import _events
from ranking.costs import read_costs
from ranking.exported_votes import rater_name
from ranking.models import Board, Snapshot
from tests.factories import (
    make_arena,
    make_candidate,
    make_member,
    make_paying_team,
    make_person,
    make_user,
)
from tests.judges.conftest import Free
from tests.judges.fake_server import FakeServer, Said, Sent

pytestmark = pytest.mark.django_db
State, Problem = LiveConversation.State, LiveConversation.Problem
QUESTION = "Which parcel leaves first, and when?"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.views.live.TICK", 0.002)
    monkeypatch.setattr("arena.calls.providers.scripted.SECONDS_AT_FIRST", 0.0)
    monkeypatch.setattr("arena.calls.providers.scripted.SECONDS_PER_WORD", 0.0)
    monkeypatch.setattr("arena.pacer.DEFAULT_PACE", 100_000.0)


def open_live(arena: Arena, n: int = 3, **fields: Any) -> Arena:
    """The arena's live questions, answered by `n` scripted candidates."""
    values = {"limit": 50, "voters": Arena.Voters.ANYONE, "refused_words": ""} | fields
    for number in range(1, n + 1):
        names = {"endpoint": "scripted", "model": f"scripted-{number}"}
        make_candidate(arena, f"live-{number}", **names)
    candidates = [one for one in arena.candidates.order_by("pk") if live.can_answer_live(one)]
    return live.set_up_live(
        arena=arena, by=CLI, now=timezone.now(), **{"candidates": candidates} | values
    )


@pytest.fixture
def local(server: FakeServer, settings: Any) -> FakeServer:
    """A server that writes a short answer, free of charge."""
    endpoint = Endpoint("local", "openai", server.base_url, timeout=2.0, prices=Free())
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
    server.otherwise = writes
    return server


@pytest.fixture
def ring() -> Arena:
    return open_live(make_arena(0, 1))


def ask(ring: Arena, question: str = QUESTION, **fields: Any) -> LiveConversation:
    values: dict[str, Any] = {
        "rater": fields.pop("rater", None) or make_person(),
        "key": uuid4(),
        "shared": False,
        "now": timezone.now(),
        "also": 0,
    }
    return live.ask(arena=ring, question=question, **values | fields)


def answer(conversation: LiveConversation) -> list[str]:
    """Let the page read both answers; return the events."""
    stream = live.begin(conversation=conversation, now=timezone.now())
    events = list(_events(stream))
    conversation.refresh_from_db()
    return events


def parts(events: list[str]) -> list[dict[str, str]]:
    return [json.loads(one.split("data: ")[1]) for one in events if one.startswith("event: part")]


def address(name: str, ring: Arena, *args: object) -> str:
    assert ring.live_of is not None
    return reverse(name, args=[ring.live_of.slug, *args])


def ask_in(client: Client, ring: Arena, question: str = QUESTION, **fields: Any) -> Any:
    return client.post(address("live", ring), {"question": question, "key": str(uuid4())} | fields)


def asked_in(client: Client, ring: Arena, **fields: Any) -> LiveConversation:
    response = ask_in(client, ring, **fields)
    assert response.status_code == 302, response.context["problem"]
    return LiveConversation.objects.get(key=UUID(response["Location"].split("/")[-2]))


def read_stream(client: Client, conversation: LiveConversation) -> str:
    response = client.get(address("live_stream", conversation.arena, conversation.key))
    content = b"".join(response.streaming_content) if response.streaming else response.content
    conversation.refresh_from_db()
    return content.decode()


def vote_in(client: Client, conversation: LiveConversation, outcome: str = "left") -> Any:
    return client.post(
        address("live_vote", conversation.arena, conversation.key), {"outcome": outcome}
    )


def played_in(client: Client, ring: Arena, **fields: Any) -> LiveConversation:
    """A conversation that was asked, answered and voted on in this browser."""
    conversation = asked_in(client, ring, **fields)
    read_stream(client, conversation)
    Comparison.objects.update(issued_at=timezone.now() - timedelta(seconds=20))
    vote_in(client, conversation)
    conversation.refresh_from_db()
    return conversation


# Asking and answering


def test_a_question_is_answered_by_two_and_voted_on(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring)
    vote = Vote.objects.get()
    assert vote.comparison == conversation.comparison
    assert (vote.outcome, vote.uncounted, vote.arena) == ("left", None, ring)
    assert {vote.comparison.left, vote.comparison.right} < set(ring.candidates.all())
    turn = conversation.turns.get()
    assert turn.left_text.startswith("Scripted")
    assert turn.right_text.startswith("Scripted")
    page = client.get(address("live_conversation", ring, conversation.key)).content.decode()
    assert str(conversation.left) in page


def test_the_page_shows_no_name_before_the_vote(ring: Arena, client: Client) -> None:
    conversation = asked_in(client, ring)
    sent = read_stream(client, conversation)
    page = client.get(address("live_conversation", ring, conversation.key)).content.decode()
    for candidate in ring.candidates.all():
        assert candidate.name not in sent + page
        assert candidate.model not in sent + page


def test_the_events_join_to_both_answers(ring: Arena) -> None:
    conversation = ask(ring)
    events = answer(conversation)
    turn = conversation.turns.get()
    assert "".join(part["left"] for part in parts(events)) == turn.left_text
    assert "".join(part["right"] for part in parts(events)) == turn.right_text
    assert events[-1].startswith("event: end")


def test_a_follow_up_is_asked_of_each_with_its_own_answers(
    ring: Arena, client: Client, local: FakeServer
) -> None:
    ring = open_on_local(local)
    conversation = asked_in(client, ring)
    read_stream(client, conversation)
    client.post(address("live_ask_again", ring, conversation.key), {"question": "And then?"})
    read_stream(client, conversation)
    first, second = conversation.turns.all()
    for body in local.requests[2:]:
        question, own, again = body["messages"][-3:]
        assert question["content"] == QUESTION
        assert own["content"] in (first.left_text, first.right_text)
        assert again["content"] == "And then?"
    assert conversation.state == State.ANSWERED
    assert second.left_text


def test_a_fourth_question_is_refused(ring: Arena) -> None:
    conversation = ask(ring)
    answer(conversation)
    for _ in range(2):
        live.ask_again(conversation=conversation, question="And?", now=timezone.now())
        answer(conversation)
    with pytest.raises(live.LiveError, match="at most three"):
        live.ask_again(conversation=conversation, question="And?", now=timezone.now())


def test_a_conversation_that_was_voted_on_takes_no_question(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring)
    with pytest.raises(live.LiveError, match="has ended"):
        live.ask_again(conversation=conversation, question="And?", now=timezone.now())


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("", "Write a question"),
        (" \n ", "Write a question"),
        ("x" * 100_000, "at most 8,000"),
        ("a \x00 b", "cannot be read"),
        ("Tell me about\n SECRET  project", "does not allow"),
    ],
)
def test_a_bad_question_is_refused_in_words_and_kept_in_the_form(
    ring: Arena, client: Client, question: str, sentence: str
) -> None:
    Arena.objects.filter(pk=ring.pk).update(refused_words="gold\nsecret project")
    response = ask_in(client, ring, question)
    assert response.status_code == 422
    assert sentence in response.context["problem"]
    assert response.context["question"] == question
    assert not LiveTurn.objects.exists()


def test_html_in_questions_and_answers_is_text(client: Client, local: FakeServer) -> None:
    ring = open_on_local(local)
    local.otherwise = lambda body: Sent(Said("<img src=x onerror=alert(1)><script>1</script>"))
    conversation = asked_in(client, ring, question="<script>alert(1)</script>")
    read_stream(client, conversation)
    page = client.get(address("live_conversation", ring, conversation.key)).content.decode()
    assert "<script>alert" not in page
    assert "onerror=alert" not in page.replace("&lt;img src=x onerror=alert", "")


def test_a_later_thought_is_folded_once_the_answer_is_finished(
    client: Client, local: FakeServer
) -> None:
    ring = open_on_local(local)
    said = "One moment.\n<think>I am Claude.</think>\n**Four.**"
    local.otherwise = lambda body: Sent(Said(said))
    conversation = asked_in(client, ring)
    read_stream(client, conversation)
    page = client.get(address("live_conversation", ring, conversation.key)).content.decode()
    assert page.count('<details class="thought"><summary>Thought</summary>') == 2
    assert page.count("<strong>Four.</strong>") == 2
    conversation.refresh_from_db()
    assert conversation.names_itself  # it was read while it was written
    assert conversation.turns.get().left_text == said


def test_the_same_form_sent_twice_asks_once(ring: Arena, client: Client) -> None:
    key = str(uuid4())
    one = ask_in(client, ring, key=key)
    two = ask_in(client, ring, key=key)
    assert one["Location"] == two["Location"]
    assert LiveTurn.objects.count() == 1


def test_a_second_question_waits_for_the_end_of_the_first(ring: Arena) -> None:
    rater = make_person()
    live.begin(conversation=ask(ring, rater=rater), now=timezone.now())
    with pytest.raises(live.LiveError, match="still being answered"):
        ask(ring, rater=rater)


def test_a_second_tab_reads_nothing_and_pays_nothing(ring: Arena, client: Client) -> None:
    conversation = asked_in(client, ring)
    live.begin(conversation=conversation, now=timezone.now())
    response = client.get(address("live_stream", ring, conversation.key))
    assert response.status_code == 204
    assert Call.objects.count() == 2
    page = client.get(address("live_conversation", ring, conversation.key))
    assert b'http-equiv="refresh"' in page.content


def test_the_daily_limit_is_of_the_day_in_utc(ring: Arena) -> None:
    Arena.objects.filter(pk=ring.pk).update(live_limit=2)
    ring.refresh_from_db()
    now = timezone.now()
    for _ in range(2):
        ask(ring, now=now)
    with pytest.raises(live.LimitReachedError):
        ask(ring, now=now)
    assert ask(ring, now=now + timedelta(days=1))


def test_at_the_limit_the_page_says_when_it_opens_again(ring: Arena, client: Client) -> None:
    Arena.objects.filter(pk=ring.pk).update(live_limit=1)
    asked_in(client, ring)
    page = client.get(address("live", ring)).content.decode()
    tomorrow = live.day_of(timezone.now()) + timedelta(days=1)
    assert f"from 00:00 UTC on {tomorrow:%Y-%m-%d}" in page
    assert 'name="question"' not in page


def test_only_whom_the_team_lets_in_can_ask(client: Client) -> None:
    ring = open_live(make_arena(0, 1), voters=Arena.Voters.SIGNED_IN)
    response = client.get(address("live", ring))
    assert response["Location"].startswith(reverse("account_login"))
    client.force_login(make_user())
    assert client.get(address("live", ring)).status_code == 200


def test_nobody_else_opens_a_conversation(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring)
    stranger = Client()
    for name in ("live_conversation", "live_stream"):
        assert stranger.get(address(name, ring, conversation.key)).status_code == 404
    for name in ("live_vote", "live_ask_again", "live_change"):
        response = stranger.post(address(name, ring, conversation.key), {"outcome": "right"})
        assert response.status_code == 404
    assert Vote.objects.get().outcome == "left"


def test_a_vote_waits_for_both_answers(ring: Arena, client: Client) -> None:
    conversation = asked_in(client, ring)
    vote_in(client, conversation)
    assert not Vote.objects.exists()


def test_a_skipped_conversation_has_no_vote(ring: Arena, client: Client) -> None:
    conversation = asked_in(client, ring)
    read_stream(client, conversation)
    vote_in(client, conversation, "skip")
    assert not Vote.objects.exists()
    assert Comparison.objects.get().skipped_at


def test_a_withdrawn_vote_leads_back_to_its_conversation(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring)
    undo = reverse("undo_vote", args=[ring.slug, conversation.comparison.key])
    response = client.post(undo, follow=True)
    assert response.redirect_chain[-1][0] == address("live_conversation", ring, conversation.key)
    assert b"Vote withdrawn" in response.content


# What fails


def open_on_local(local: FakeServer, n: int = 2, **fields: Any) -> Arena:
    """Live questions that two models at the fake server answer."""
    local.otherwise = writes
    arena = make_arena(0, 1, **fields)
    for number in range(1, n + 1):
        make_candidate(arena, f"at-{number}", endpoint="local", model=f"model-{number}")
    return open_live(arena, 0)


def writes(body: dict[str, Any]) -> Sent:
    return Sent(Said(f"I, {body['model']}, answer this in a few words.", tokens_out=12))


def price(settings: Any, nano: int) -> None:
    """Set the price of a million tokens of both models at the fake server."""
    prices = {f"model-{number}": ModelPrice(nano, nano) for number in (1, 2)}
    local = replace(settings.MODEL_ENDPOINTS["local"], prices=prices)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": local}


def fails_for(model: str, sent: Callable[[], Sent]) -> Callable[[dict[str, Any]], Sent]:
    return lambda body: sent() if body["model"] == model else writes(body)


FAULTS: dict[str, Callable[[], Sent]] = {
    "an error": lambda: Sent({"error": {"message": "down"}}, status=500),
    "no such model": lambda: Sent({"error": {"message": "no model"}}, status=404),
    "a wrong key": lambda: Sent({"error": {"message": "key"}}, status=401),
    "nothing": lambda: Sent(Said("")),
    "a broken line": lambda: Sent(Said("never sent"), cut_at=0),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_model_that_fails_before_its_first_word_is_replaced(
    local: FakeServer, fault: str
) -> None:
    ring = open_on_local(local, 3)
    conversation = ask(ring)
    failing = conversation.left.model
    local.otherwise = fails_for(failing, FAULTS[fault])
    events = answer(conversation)
    assert conversation.state == State.ANSWERED
    assert conversation.was_replaced
    assert failing not in (conversation.left.model, conversation.right.model)
    assert any(event.startswith("event: replaced") for event in events)
    first_part = next(n for n, event in enumerate(events) if "event: part" in event)
    assert all("event: replaced" not in event for event in events[first_part:])
    assert not Call.objects.filter(state__in=Call.GOING_ON).exists()


def test_with_two_candidates_a_failure_voids_the_round(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    conversation = ask(ring)
    local.otherwise = fails_for(conversation.left.model, FAULTS["an error"])
    answer(conversation)
    assert (conversation.state, conversation.problem) == (State.VOID, Problem.FAILED)
    assert not Comparison.objects.exists()


def test_a_failure_after_the_first_word_voids_the_round(local: FakeServer) -> None:
    ring = open_on_local(local, 3)
    conversation = ask(ring)
    failing, long = conversation.left.model, "word " * 200
    local.otherwise = lambda body: Sent(
        Said(long), pause=0.01, cut_at=30 if body["model"] == failing else None
    )
    events = answer(conversation)
    assert (conversation.state, conversation.was_replaced) == (State.VOID, False)
    assert parts(events), "both had begun"


def test_a_refusal_is_an_answer(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    conversation = ask(ring)
    refuses = lambda: Sent(Said("I would rather not.", finish="content_filter"))  # noqa: E731
    local.otherwise = fails_for(conversation.left.model, refuses)
    answer(conversation)
    assert conversation.state == State.ANSWERED
    assert conversation.turns.get().left_text == "I would rather not."


def test_thought_is_neither_shown_nor_stored(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    local.otherwise = lambda body: Sent(Said("<think>secret plan</think>The answer is four."))
    conversation = ask(ring)
    events = answer(conversation)
    assert conversation.turns.get().left_text == "The answer is four."
    assert "secret" not in "".join(events)


def test_an_answer_without_token_counts_books_the_most(local: FakeServer, settings: Any) -> None:
    price(settings, 10**9)
    ring = open_on_local(local, 2, team=make_paying_team())
    local.otherwise = lambda body: Sent(Said("Short.", counts=False))
    answer(ask(ring))
    run = Run.objects.get()
    assert run.settled > 0
    assert run.reserved == 0
    assert run.settled == sum(Call.objects.values_list("cost", flat=True))


def test_ten_failures_in_a_row_pause_a_candidate_for_the_day(local: FakeServer) -> None:
    ring = open_on_local(local, 3)
    bad = ring.candidates.order_by("pk").first()
    assert bad is not None
    local.otherwise = fails_for(bad.model, FAULTS["an error"])
    for _ in range(60):
        conversation = ask(ring)
        answer(conversation)
        if Run.objects.get().requesters.filter(paused_at__isnull=False).exists():
            break
    assert Call.objects.filter(requester=bad.requester, state="failed").count() == 10
    for _ in range(12):
        assert bad not in (ask(ring).left, ask(ring).right)


# Closing, killing and money


def test_a_closed_page_ends_both_and_stores_what_was_shown(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    local.otherwise = lambda body: Sent(Said("word " * 2_000), pause=0.01)
    conversation = ask(ring)
    events = _events(live.begin(conversation=conversation, now=timezone.now()))
    shown = ""
    for event in events:
        shown += "".join(part["left"] for part in parts([event]))
        if len(shown) > 40:
            break
    events.close()  # type: ignore[attr-defined]
    conversation.refresh_from_db()
    assert conversation.state == State.STOPPED
    assert conversation.turns.get().left_text == shown
    assert local.left.wait(1)
    assert not Comparison.objects.exists()
    assert set(Call.objects.values_list("state", flat=True)) == {"done"}


def test_what_a_closed_page_has_used_is_booked(local: FakeServer, settings: Any) -> None:
    price(settings, 10**9)
    ring = open_on_local(local, 2, team=make_paying_team())
    local.otherwise = lambda body: Sent(Said("word " * 2_000), pause=0.01)
    events = _events(live.begin(conversation=ask(ring), now=timezone.now()))
    for event in events:
        if len(parts([event])) and Run.objects.get().reserved:
            break
    events.close()  # type: ignore[attr-defined]
    run = Run.objects.get()
    assert run.reserved == 0
    assert 0 < run.settled == run.cap


def test_a_killed_process_leaves_nothing_unsettled(
    local: FakeServer, settings: Any, client: Client
) -> None:
    price(settings, 10**9)
    ring = open_on_local(local, 2, team=make_paying_team())
    conversation = asked_in(client, ring)
    live.begin(conversation=conversation, now=timezone.now())  # and the process dies
    later = timezone.now() + live.LEASE + timedelta(seconds=1)
    scheduling.free_abandoned(now=later)
    live.settle_lost(now=later)
    conversation.refresh_from_db()
    assert (conversation.state, conversation.problem) == (State.VOID, Problem.LOST)
    run = Run.objects.get()
    assert (run.reserved, run.settled) == (0, 0)
    assert run.uncertain == sum(Call.objects.values_list("uncertain", flat=True)) > 0
    page = client.get(address("live_conversation", ring, conversation.key)).content.decode()
    assert "restarted while the answers were being written" in page


def test_a_stream_that_returns_late_changes_nothing(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    conversation = ask(ring)
    stream = live.begin(conversation=conversation, now=timezone.now())
    later = timezone.now() + live.LEASE + timedelta(seconds=1)
    scheduling.free_abandoned(now=later)
    live.settle_lost(now=later)
    list(_events(stream))
    conversation.refresh_from_db()
    assert conversation.state == State.VOID
    assert set(Call.objects.values_list("state", flat=True)) == {"failed"}
    assert not conversation.turns.get().left_text


def test_a_stream_renews_its_lease(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    conversation = ask(ring)
    stream = live.begin(conversation=conversation, now=timezone.now())
    later = timezone.now() + timedelta(seconds=15)
    assert live.renew(stream=stream, now=later)
    assert live.settle_lost(now=later + timedelta(seconds=10)) == 0
    assert set(Call.objects.values_list("lease_expires_at", flat=True)) == {later + live.LEASE}


def test_a_question_whose_page_never_opened_costs_nothing(ring: Arena) -> None:
    conversation = ask(ring)
    live.settle_lost(now=timezone.now() + timedelta(minutes=2))
    conversation.refresh_from_db()
    assert conversation.state == State.STOPPED
    assert not Call.objects.exists()


def test_the_teams_budget_is_never_exceeded(local: FakeServer, settings: Any) -> None:
    price(settings, 10**12)
    team = make_paying_team(budget=10**7)
    ring = open_on_local(local, 2, team=team)
    client = Client()
    conversation = asked_in(client, ring)
    assert "event: end" in read_stream(client, conversation)
    assert (conversation.state, conversation.problem) == (State.VOID, Problem.BUDGET)
    assert not local.requests
    page = client.get(address("live_conversation", ring, conversation.key)).content.decode()
    assert "unavailable today" in page


def test_a_day_has_one_run_which_is_closed_the_next_day(ring: Arena) -> None:
    for _ in range(3):
        answer(ask(ring))
    run = Run.objects.get()
    assert run.calls.count() == 6
    assert live.close_past_runs(now=timezone.now()) == 0
    tomorrow = timezone.now() + timedelta(days=1)
    assert live.close_past_runs(now=tomorrow) == 1
    assert Run.objects.get().state == Run.State.DONE


def test_no_worker_makes_a_live_call(ring: Arena) -> None:
    live.begin(conversation=ask(ring), now=timezone.now())
    sweep_calls()
    assert set(Call.objects.values_list("state", flat=True)) == {"running"}


# Care


def test_others_read_only_what_is_shared_and_voted_on(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring, shared="on")
    page = address("live_conversation", ring, conversation.key)
    assert Client().get(page).status_code == 200
    client.post(address("live_change", ring, conversation.key), {"action": "unshare"})
    assert Client().get(page).status_code == 404
    client.post(address("live_change", ring, conversation.key), {"action": "share"})
    assert Client().get(page).status_code == 200


def test_a_shared_conversation_is_hidden_until_its_vote(ring: Arena, client: Client) -> None:
    conversation = asked_in(client, ring, shared="on")
    read_stream(client, conversation)
    page = address("live_conversation", ring, conversation.key)
    assert Client().get(page).status_code == 404
    assert QUESTION not in Client().get(address("live", ring)).content.decode()


def test_a_deleted_conversation_keeps_its_vote_without_text(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring, shared="on")
    client.post(address("live_change", ring, conversation.key), {"action": "delete"})
    turn = conversation.turns.get()
    assert (turn.question, turn.left_text, turn.right_text) == ("", "", "")
    assert Vote.objects.live().count() == 1
    assert not exported(ring)


def test_no_text_of_a_conversation_is_anywhere_else(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring)
    turn = conversation.turns.get()
    assert Prompt.objects.get(arena=ring).text == ""
    assert not ring.prompts.filter(retired_at=None).exists()
    for call in Call.objects.all():
        assert not call.reply
        assert turn.left_text not in str(call.__dict__)


def test_a_stream_writes_nothing_into_a_deleted_conversation(ring: Arena) -> None:
    conversation = ask(ring)
    stream = live.begin(conversation=conversation, now=timezone.now())
    delete(conversation)
    list(_events(stream))
    turn = conversation.turns.get()
    assert (turn.question, turn.left_text) == ("", "")
    assert not Call.objects.filter(state__in=Call.GOING_ON).exists()


def test_a_conversation_deleted_during_an_export_is_not_in_it(
    ring: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "AT_ONCE", 1)
    one, two = (played_in(client, ring, shared="on") for _ in range(2))
    rows = live.exported_conversations(ring)
    assert next(rows)["question_id"] == str(one.key)
    delete(two)
    assert list(rows) == []


def test_unshared_conversations_are_deleted_after_their_days(ring: Arena, client: Client) -> None:
    own = played_in(client, ring)
    shared = played_in(client, ring, shared="on")
    expiry.delete_old_rows(now=timezone.now() + timedelta(days=31))
    assert own.turns.get().question == ""
    assert shared.turns.get().question == QUESTION


def test_a_forgotten_rater_leaves_no_question(ring: Arena, client: Client) -> None:
    conversation = played_in(client, ring, shared="on")
    forget_rater(rater=conversation.rater, now=timezone.now())
    assert conversation.turns.get().question == ""
    assert Vote.objects.live().exists()


def test_a_persons_data_contain_their_questions(ring: Arena, client: Client) -> None:
    user = make_user()
    client.force_login(user)
    played_in(client, ring)
    (one,) = personal_data(user=user)["live_questions"]
    assert one["turns"][0]["question"] == QUESTION


def test_a_report_tells_the_team_which_can_hide_it(client: Client) -> None:
    team = make_paying_team()
    ring = open_live(make_arena(0, 1, team=team))
    conversation = played_in(client, ring, shared="on")
    stranger = Client()
    stranger.post(address("live_report", ring, conversation.key))
    stranger.post(address("live_report", ring, conversation.key))
    assert team.notices.count() == 1
    live.set_hidden(conversation=conversation, hidden=True, by=CLI, now=timezone.now())
    page = address("live_conversation", ring, conversation.key)
    assert stranger.get(page).status_code == 404
    assert b"has hidden it" in client.get(page).content
    assert not exported(ring)


def delete(conversation: LiveConversation) -> None:
    own = LiveConversation.objects.filter(pk=conversation.pk)
    live.delete_texts(conversations=own, now=timezone.now())


def exported(ring: Arena) -> list[dict[str, Any]]:
    content = Client().get(address("live_export", ring)).text
    return [json.loads(line) for line in content.splitlines()]


def test_the_export_has_lmarenas_columns(ring: Arena, client: Client) -> None:
    played_in(client, ring)
    conversation = played_in(client, ring, shared="on")
    turn = conversation.turns.get()
    (row,) = exported(ring)
    assert row["winner"] == "model_a"
    assert (row["model_a"], row["model_b"]) == (str(conversation.left), str(conversation.right))
    assert row["conversation_a"] == [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": turn.left_text},
    ]
    assert (row["turn"], row["anony"]) == (1, True)


# Names, statistics and the arena around


@pytest.mark.parametrize(
    "question", ["Who are you?", "What is your name?", "Bist du ChatGPT? Wer bist du?"]
)
def test_a_question_for_names_follows_the_arenas_rule(
    ring: Arena, client: Client, question: str
) -> None:
    played_in(client, ring, question=question)
    assert Vote.objects.get().uncounted == "named"


def test_an_answer_that_names_itself_follows_the_arenas_rule(
    local: FakeServer, client: Client
) -> None:
    ring = open_on_local(local, 2)
    local.otherwise = lambda body: Sent(Said("I am Claude, made by Anthropic. Four."))
    played_in(client, ring)
    assert Vote.objects.get().uncounted == "named"


def test_masked_names_are_never_sent(local: FakeServer, client: Client) -> None:
    ring = open_on_local(local, 2, self_identifying="mask")
    text = "As Claude, made by Anthropic, I say: " + "four is the answer here. " * 8
    local.otherwise = lambda body: Sent(Said(text), pause=0.002)
    conversation = asked_in(client, ring)
    sent = read_stream(client, conversation)
    page = client.get(address("live_conversation", ring, conversation.key)).content.decode()
    assert "Claude" not in sent + page
    assert "Anthropic" not in sent + page
    assert "[name hidden]" in page
    assert "Claude" in conversation.turns.get().left_text


def test_votes_count_on_a_leaderboard_of_their_own(ring: Arena, client: Client) -> None:
    assert ring.live_of is not None
    played_in(client, ring)
    call_command("refresh_boards", ring.slug)
    snapshot = Snapshot.objects.current().get(
        board__arena=ring, board__raters="people", board__category=""
    )
    assert snapshot.n_votes == 1
    assert not Board.objects.filter(arena=ring.live_of).exists()
    assert client.get(reverse("board", args=[ring.slug])).status_code == 200


def test_the_same_pairs_come_up_by_their_weights(ring: Arena) -> None:
    drawn = {frozenset((one.left_id, one.right_id)) for one in (ask(ring) for _ in range(40))}
    assert len(drawn) == 3
    probabilities = LiveConversation.objects.values_list("draw_probability", flat=True)
    assert {round(p, 6) for p in probabilities} == {round(1 / 3, 6)}


def test_a_candidate_of_ones_own_team_is_never_mixed_with_others() -> None:
    team = make_paying_team()
    arena = make_arena(0, 1)
    make_candidate(arena, "ours", team=team, endpoint="scripted", model="scripted-9")
    ring = open_live(arena, 3)
    user = make_user()
    make_member(team, user=user)
    rater = rater_of_person(user_id=user.pk)
    for _ in range(12):
        conversation = ask(ring, rater=rater)
        names = {conversation.left.name, conversation.right.name, conversation.reserve.name}
        assert "ours" not in names


def test_live_questions_follow_their_arenas_settings(ring: Arena) -> None:
    assert ring.live_of is not None
    update_arena(arena=ring.live_of, by=CLI, self_identifying="keep")
    ring.refresh_from_db()
    assert ring.self_identifying == "keep"


def test_an_archived_candidate_answers_no_more(ring: Arena) -> None:
    assert ring.live_of is not None
    candidate = ring.live_of.candidates.get(name="live-1")
    retire_candidate(candidate=candidate, by=CLI, now=timezone.now())
    for _ in range(6):
        conversation = ask(ring)
        assert "live-1" not in (conversation.left.name, conversation.right.name)


def test_a_merged_candidate_answers_again_once_that_is_undone(ring: Arena) -> None:
    assert ring.live_of is not None
    names = {one.name for one in ring.candidates.active()}
    into, alias = ring.live_of.candidates.filter(name__in=names).order_by("pk")[:2]
    merge_candidates(candidates=[alias], into=into, by=CLI, now=timezone.now())
    assert {one.name for one in ring.candidates.active()} == names - {alias.name}
    undo_merges(candidates=[alias], by=CLI)
    assert {one.name for one in ring.candidates.active()} == names
    assert ring.pairs.filter(shared_prompts=0).count() == 0


def test_a_deleted_arena_takes_its_live_questions_along(ring: Arena, client: Client) -> None:
    assert ring.live_of is not None
    played_in(client, ring)
    delete_arena(arena=ring.live_of, by=CLI)
    assert not Arena.objects.exists()
    assert not LiveConversation.objects.exists()


def test_a_candidate_without_endpoint_or_with_variables_cannot_answer() -> None:
    arena = make_arena(0, 1)
    assert not live.can_answer_live(make_candidate(arena))
    fields = {"endpoint": "scripted", "model": "scripted-1"}
    assert not live.can_answer_live(
        make_candidate(arena, user_template="{{ prompt }} {{ customer }}", **fields)
    )
    assert live.can_answer_live(make_candidate(arena, **fields))


def test_the_voting_page_of_live_questions_leads_to_them(ring: Arena, client: Client) -> None:
    response = client.get(reverse("vote", args=[ring.slug]))
    assert response["Location"] == address("live", ring)


def test_the_team_turns_it_on_by_a_form(client: Client) -> None:
    team = make_paying_team()
    user = make_member(team, role="owner").user
    arena = make_arena(0, 1, team=team)
    for number in (1, 2):
        make_candidate(arena, f"m-{number}", endpoint="scripted", model=f"scripted-{number}")
    client.force_login(user)
    page = reverse("manage_live", args=[arena.slug])
    form = client.get(page).context["form"]
    assert form["voters"].initial == Arena.Voters.SIGNED_IN
    chosen = [pk for pk, _ in form.fields["candidates"].choices]
    response = client.post(page, {"limit": 5, "voters": "signed_in", "candidates": chosen[:1]})
    assert "at least two" in response.content.decode()
    client.post(page, {"limit": 5, "voters": "signed_in", "candidates": chosen})
    ring = Arena.objects.get(live_of=arena)
    assert (ring.live_limit, ring.candidates.active().count()) == (5, 2)
    client.post(page, {"limit": 0, "voters": "signed_in", "candidates": chosen})
    assert b"closed here" in client.get(address("live", ring)).content


def test_live_questions_are_listed_with_their_arena_alone(ring: Arena, client: Client) -> None:
    page = client.get(reverse("index")).content.decode()
    assert reverse("board", args=[ring.slug]) not in page


def test_the_reveal_knows_what_both_cost_and_how_long_they_took(
    local: FakeServer, settings: Any, client: Client
) -> None:
    price(settings, 10**9)
    ring = open_on_local(local, 2, team=make_paying_team())
    for _ in range(5):
        conversation = played_in(client, ring)
    assert conversation.comparison is not None
    facts = client.get(reverse("vote_facts", args=[ring.slug, conversation.comparison.key]))
    text = facts.content.decode()
    assert text.count("per 1,000 answers") == 2
    assert client.get(reverse("price", args=[ring.slug])).status_code == 200


# What was attacked


def test_no_figure_tells_who_wrote_what_before_the_vote(
    local: FakeServer, settings: Any, client: Client
) -> None:
    price(settings, 10**9)
    ring = open_on_local(local, 2, team=make_paying_team())
    for _ in range(6):
        played_in(client, ring)
    before = read_costs(ring, "")
    local.otherwise = fails_for("model-2", lambda: Sent(Said("long " * 90, tokens_out=400)))
    conversation = asked_in(client, ring)
    read_stream(client, conversation)
    assert read_costs(ring, "") == before
    vote_in(client, conversation)
    assert read_costs(ring, "") != before


def test_an_endpoint_that_is_gone_voids_the_round(local: FakeServer, settings: Any) -> None:
    conversation = ask(open_on_local(local, 2))
    settings.MODEL_ENDPOINTS = {}
    answer(conversation)
    assert (conversation.state, conversation.problem) == (State.VOID, Problem.FAILED)
    assert not Comparison.objects.exists()


def test_a_rater_is_answered_one_question_at_a_time(ring: Arena, client: Client) -> None:
    one, two = (asked_in(client, ring) for _ in range(2))
    one.refresh_from_db()
    assert (one.state, two.state) == (State.STOPPED, State.WAITING), "they have gone on"
    LiveConversation.objects.filter(pk=one.pk).update(state=State.WAITING)
    live.begin(conversation=two, now=timezone.now())
    with pytest.raises(live.AlreadyBegunError):
        live.begin(conversation=one, now=timezone.now())


def test_only_so_many_streams_keep_the_servers_threads(
    ring: Arena, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = asked_in(client, ring)
    monkeypatch.setattr("arena.views.live._streams", BoundedSemaphore(1))
    with BoundedSemaphore(1), monkeypatch.context() as full:
        full.setattr("arena.views.live._streams", Semaphore(0))
        response = client.get(address("live_stream", ring, conversation.key))
        assert response.status_code == 503
    for _ in range(3):  # each gives its place back
        assert "event: end" in read_stream(client, asked_in(client, ring))


def test_a_long_own_name_is_masked_and_the_stream_ends(local: FakeServer, client: Client) -> None:
    local.otherwise = writes
    arena = make_arena(0, 1, self_identifying="mask")
    names = [
        f"/srv/models/a-very-long-name-of-a-model-{n}-finetuned-on-support.gguf" for n in (1, 2)
    ]
    for name in names:
        make_candidate(arena, name, endpoint="local", model=name)
    ring = open_live(arena, 0)
    local.otherwise = lambda body: Sent(Said(f"The file is {body['model']}. " + "Well. " * 30))
    sent = read_stream(client, asked_in(client, ring))
    assert "srv/models" not in "".join(
        part["left"] + part["right"] for part in parts(sent.split("\n\n")[:-1])
    )
    assert LiveConversation.objects.get().state == State.ANSWERED


def test_a_deleted_conversation_takes_neither_questions_nor_votes(
    ring: Arena, client: Client
) -> None:
    conversation = asked_in(client, ring)
    read_stream(client, conversation)
    delete(conversation)
    client.post(address("live_ask_again", ring, conversation.key), {"question": "Late?"})
    vote_in(client, conversation)
    assert not LiveTurn.objects.exclude(question="").exists()
    assert not Vote.objects.exists()


def test_a_comment_on_a_live_question_is_not_public_and_goes_with_it(
    ring: Arena, client: Client
) -> None:
    conversation = played_in(client, ring)
    assert conversation.comparison is not None
    key = conversation.comparison.key
    client.post(reverse("give_reasons", args=[ring.slug, key]), {"comment": "As I asked: hush"})
    page = Client().get(reverse("comparison", args=[ring.slug, key]))
    assert b"hush" not in page.content
    assert Reason.objects.filter(comment__contains="hush").exists()
    delete(conversation)
    assert not Reason.objects.filter(comment__contains="hush").exists()


def test_what_a_server_quotes_in_its_error_is_not_kept(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    local.otherwise = lambda body: Sent(
        {"error": {"message": f"bad input: {QUESTION}"}}, status=400
    )
    answer(ask(ring))
    errors = set(Call.objects.values_list("error", flat=True))
    # The other request may have been closed before its answer came.
    assert "The server rejected the request." in errors
    assert not any(QUESTION in error for error in errors)


def test_old_conversations_without_a_vote_go_with_all_that_is_theirs(
    ring: Arena, client: Client
) -> None:
    conversation = asked_in(client, ring)
    read_stream(client, conversation)
    vote_in(client, conversation, "skip")
    Rater.objects.update(created_at=timezone.now() - timedelta(days=100))
    expiry.delete_old_rows(now=timezone.now() + timedelta(days=100))
    for model in (LiveConversation, Comparison, Rater):
        assert not model.objects.exists()
    assert not Prompt.objects.filter(arena=ring).exists()


def test_odd_characters_lose_no_round(local: FakeServer) -> None:
    ring = open_on_local(local, 2)
    local.otherwise = lambda body: Sent(Said("a\0b \ud83d\ude00 c \ud83d"))
    conversation = ask(ring)
    answer(conversation)
    assert conversation.state == State.ANSWERED
    assert conversation.turns.get().left_text == "ab \U0001f600 c "


def test_what_was_not_spent_goes_back_to_the_budget_at_once(
    local: FakeServer, settings: Any
) -> None:
    price(settings, 10**9)
    team = make_paying_team()
    ring = open_on_local(local, 2, team=team)
    answer(ask(ring))
    assert budget_left(team) == team.budget - Run.objects.get().settled


def test_an_endpoints_limit_per_minute_holds(local: FakeServer, settings: Any) -> None:
    ring = open_on_local(local, 2)
    limited = replace(settings.MODEL_ENDPOINTS["local"], requests_per_minute=2)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": limited}
    for _ in range(4):
        answer(ask(ring))
    assert len(local.requests) <= 3


def test_the_export_names_raters_as_all_exports_do(ring: Arena, client: Client) -> None:
    played_in(client, ring, shared="on")
    (row,) = exported(ring)
    assert row["judge"] == rater_name(Vote.objects.get())


def test_live_questions_have_no_workspace_of_their_own(client: Client) -> None:
    team = make_paying_team()
    ring = open_live(make_arena(0, 1, team=team))
    client.force_login(make_member(team, role="owner").user)
    for name in ("manage_live", "arena_settings", "manage_prompts", "vote_orders"):
        assert client.get(reverse(name, args=[ring.slug])).status_code == 404
    with pytest.raises(live.LiveError, match="prompts of its own"):
        open_live(ring, 0)


def test_live_questions_of_an_arena_that_is_hidden_are_hidden(client: Client) -> None:
    team = make_paying_team()
    ring = open_live(make_arena(0, 1, team=team))
    Arena.objects.filter(pk=ring.live_of_id).update(visibility="private")
    assert client.get(address("live", ring)).status_code == 404


def test_who_was_removed_from_the_team_is_answered_no_more(client: Client) -> None:
    team = make_paying_team()
    ring = open_live(make_arena(0, 1, team=team), voters=Arena.Voters.MEMBERS)
    member = make_member(team)
    client.force_login(member.user)
    conversation = asked_in(client, ring)
    member.delete()
    assert client.get(address("live_stream", ring, conversation.key)).status_code == 204
    assert not Call.objects.exists()


def test_who_is_archived_between_question_and_answer_is_replaced(ring: Arena) -> None:
    conversation = ask(ring)
    Candidate.objects.filter(pk=conversation.left_id).update(retired_at=timezone.now())
    answer(conversation)
    assert conversation.state == State.ANSWERED
    assert conversation.was_replaced


def test_a_changed_candidate_answers_with_its_new_content() -> None:
    arena = make_arena(0, 1)
    ring = open_live(arena, 2)
    Candidate.objects.filter(arena=arena, name="live-1").update(system_prompt="Be kind.")
    again = open_live(arena, 0)
    assert again == ring
    active = ring.candidates.active().get(name="live-1")
    assert active.system_prompt == "Be kind."
    assert ring.candidates.active().count() == 2


def test_questions_that_were_never_answered_use_up_no_day(ring: Arena) -> None:
    Arena.objects.filter(pk=ring.pk).update(live_limit=2)
    ring.refresh_from_db()
    rater = make_person()
    for _ in range(5):
        ask(ring, rater=rater)
    assert live.questions_left(arena=ring, now=timezone.now()) == 1


@pytest.mark.parametrize("question", ["G\u00adold?", "ｇｏｌｄ", "GÓLD!", "a go\u200bld bar"])
def test_refused_words_are_found_in_disguise(ring: Arena, question: str) -> None:
    ring.refused_words = "gold"
    assert live.find_refused(ring, question) == "gold"


def test_refused_words_are_whole_words(ring: Arena) -> None:
    ring.refused_words = "gold"
    assert not live.find_refused(ring, "Which marigolds are golden?")


@pytest.mark.slow
@pytest.mark.skipif("TEST_MODEL_URL" not in os.environ, reason="TEST_MODEL_URL: no small model")
def test_a_real_small_model_answers_on_both_sides(settings: Any, client: Client) -> None:
    """`TEST_MODEL_URL=http://127.0.0.1:11434/v1 TEST_MODEL=qwen2.5:0.5b pytest -m slow ...`"""
    endpoint = Endpoint(
        "local", "openai", os.environ["TEST_MODEL_URL"], timeout=120.0, prices=Free()
    )
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": endpoint}
    arena = make_arena(0, 1)
    for name, words in (("short", "Answer in one sentence."), ("long", "Answer at length.")):
        fields = {"endpoint": "local", "model": os.environ["TEST_MODEL"], "system_prompt": words}
        make_candidate(arena, name, **fields)
    conversation = played_in(client, open_live(arena, 0), question="Why is the sky blue?")
    turn = conversation.turns.get()
    assert conversation.state == State.ANSWERED
    assert len(turn.left_text) > 20
    assert len(turn.right_text) > 20
