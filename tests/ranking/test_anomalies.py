"""Votes that look rigged are held with their evidence, reviewed, and released or voided."""

import json
import random
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.actors import CLI
from arena.models import Arena, AuditEntry, Comparison, Hold, Notice, Rater, Review, Vote
from arena.services import holds
from arena.services.arenas import update_arena
from ranking import health, tasks
from ranking.log import file as log_file
from ranking.models import ArenaRefresh
from ranking.services import anomalies
from ranking.services.votes import read_only
from tests.factories import known, make_arena, make_person, make_team, make_vote, make_votes
from tests.ranking.helpers import hidden_import, publish, reveal

pytestmark = pytest.mark.django_db
NOW = timezone.now()
HONEST, RIGGED = 12, 40


def attacked(n_honest: int = HONEST, **fields: Any) -> tuple[Arena, Rater]:
    """An arena whose last candidate wins all votes of one rater, and few of the others'."""
    arena = make_arena(4, 60, team=make_team(), **fields)
    candidates, chance = list(arena.candidates.order_by("pk")), random.Random(4)
    prompts = list(arena.prompts.order_by("pk"))
    for _ in range(n_honest):
        rows = []
        for prompt in prompts[:20]:
            a, b = sorted(chance.sample(range(4), 2))
            outcome = "left" if chance.random() < 0.75 else "right"
            rows.append((candidates[a], candidates[b], outcome, prompt))
        make_votes(arena, rows)
    fan, rows = make_person(), []
    for number, prompt in enumerate(prompts[:RIGGED]):
        pair = [candidates[3], candidates[number % 3]]
        left, right = pair if number % 2 else pair[::-1]
        rows.append((left, right, "left" if number % 2 else "right", prompt))
    make_votes(arena, rows, fan)
    Vote.objects.update(channel="browser")
    return arena, fan


def led() -> tuple[Arena, list[Rater]]:
    """An arena with a clear leader by 30 raters, and two more of one network for the last one."""
    arena = make_arena(4, 60, team=make_team())
    candidates, chance = list(arena.candidates.order_by("pk")), random.Random(4)
    prompts = list(arena.prompts.order_by("pk"))
    for number in range(30):
        rows = []
        for prompt in chance.sample(prompts, 20):
            a, b = sorted(chance.sample(range(4), 2))
            outcome = "left" if chance.random() < (0.6 if a else 0.85) else "right"
            rows.append((candidates[a], candidates[b], outcome, prompt))
        make_votes(arena, rows, network=f"home-{number}")
    fans = [make_person(), make_person()]
    for number, fan in enumerate(fans):
        rows = [
            (candidates[3], candidates[at % 2], "left", prompt)
            for at, prompt in enumerate(prompts[number::2][:6])
        ]
        make_votes(arena, rows, fan, network="theirs")
    Vote.objects.update(channel="browser")
    return arena, fans


def counts_of(arena: Arena) -> bytes:
    return read_only(arena, Vote.objects.live().filter(arena=arena)).pairs().pack()


def test_rigged_votes_are_held_count_nowhere_and_the_leaderboard_says_how_many() -> None:
    arena, fan = attacked()
    publish(arena)
    made = anomalies.examine(arena_id=arena.pk, now=NOW)
    assert [(hold.rater, hold.test) for hold in made if hold.test == "favours"] == [
        (fan, "favours")
    ]
    assert {hold.rater for hold in made} == {fan}
    assert Vote.objects.filter(rater=fan, uncounted="held", hold=made[0]).count() == RIGGED
    assert not Vote.objects.exclude(rater=fan).filter(uncounted="held").exists()
    snapshot = publish(arena)
    assert snapshot.settings["left_out"] == {"held": RIGGED}
    assert snapshot.n_votes == HONEST * 20
    page = " ".join(Client().get(reverse("board", args=[arena.slug])).text.split())
    assert f"{RIGGED} votes not counted: {RIGGED} held for review." in page
    assert anomalies.examine(arena_id=arena.pk, now=NOW) == []
    held = AuditEntry.objects.get(action="held votes")
    assert (held.details["votes"], held.by) == (RIGGED, "a rule of the arena")


def test_raters_in_files_are_compared_with_and_never_held() -> None:
    arena, fan = attacked()
    source = hidden_import(arena, n_votes=0)
    reveal(source)
    others = Vote.objects.exclude(rater=fan)
    for number, vote in enumerate(others, 1):
        Vote.objects.filter(pk=vote.pk).update(source=source, source_row=number, channel="file")
    examined = anomalies.read(arena)
    assert (examined.cast.n_raters, examined.in_files.n_raters) == (1, HONEST)
    assert {hold.rater for hold in anomalies.examine(arena_id=arena.pk, now=NOW)} == {fan}
    assert not others.filter(uncounted="held").exists()


NOT_EXAMINED = [
    {"n_honest": 8},
    {"voters": "members"},
    {"counts": "invited"},
    {"visibility": "private"},
]


@pytest.mark.parametrize("fields", NOT_EXAMINED)
def test_few_raters_and_arenas_of_members_are_never_held(fields: dict[str, Any]) -> None:
    arena, _ = attacked(**fields)
    assert anomalies.examine(arena_id=arena.pk, now=NOW) == []
    others = Arena.objects.not_of_members()
    assert arena.is_of_members == (arena not in others) == ("n_honest" not in fields)
    assert Review.objects.count() == 0


def test_votes_are_examined_once_however_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack that was over before a worker was back was never examined."""
    arena, _ = attacked()
    publish(arena)
    private = make_arena(2, 4, team=make_team(), visibility="private")
    publish(private)
    make_votes(private, [(*private.candidates.order_by("pk"), "left", None)])
    Vote.objects.update(channel="browser", cast_at=NOW - timedelta(days=2))
    monkeypatch.setattr(anomalies, "NEW", 100)
    read = []
    while arena.pk in anomalies.arenas_to_examine():
        assert anomalies.arenas_to_examine() == [arena.pk]
        anomalies.examine(arena_id=arena.pk, now=NOW)
        read.append(ArenaRefresh.objects.get(arena=arena).examined_vote_id)
    newest = Vote.objects.filter(arena=arena).order_by("pk").values_list("pk", flat=True)
    assert read == [newest[99], newest[199], newest[279]]
    assert Hold.objects.exists()
    first, *_, last = arena.candidates.order_by("pk")
    make_votes(arena, [(first, last, "left", None)])
    Vote.objects.update(channel="browser")
    assert anomalies.arenas_to_examine() == [arena.pk]


def test_votes_that_are_not_tested_are_passed_over_once() -> None:
    """Every minute, an arena's judges' votes and those of its files were looked through again."""
    arena, _ = attacked()
    publish(arena)
    Vote.objects.filter(arena=arena).update(channel="file")
    assert anomalies.arenas_to_examine() == [arena.pk]
    anomalies.examine(arena_id=arena.pk, now=NOW)
    newest = Vote.objects.filter(arena=arena).latest("pk").pk
    assert ArenaRefresh.objects.get(arena=arena).examined_vote_id == newest
    assert anomalies.arenas_to_examine() == []


def bought(n_networks: int = 10, each: int = 4, **fields: Any) -> Arena:
    """An arena whose votes all came from cookies of a few networks, for the candidate that is the
    last one in a file."""
    arena = make_arena(5, 40, team=make_team(), **fields)
    candidates, prompts = list(arena.candidates.order_by("pk")), list(arena.prompts.order_by("pk"))
    for number in range(n_networks * each):
        rows = []
        for at in range(5):
            pair = [candidates[4], candidates[(number + at) % 4]]
            left, right = pair if at % 2 else pair[::-1]
            prompt = prompts[(number * 5 + at) % 40]
            rows.append((left, right, "left" if at % 2 else "right", prompt))
        make_votes(arena, rows, network=f"net-{number % n_networks}")
    Vote.objects.filter(arena=arena).update(channel="browser")
    return arena


def test_where_all_are_rigged_the_votes_are_held_and_under_review(admin_client: Client) -> None:
    """Evidence of e^53 held nothing, because there were no honest raters, and nobody was told."""
    arena = bought()
    assert publish(arena).findings["claimed_leader"] is not None
    anomalies.examine(arena_id=arena.pk, now=NOW)
    review = Review.objects.get()
    target = arena.candidates.latest("pk")
    assert (review.candidate, review.loses, len(review.suspects)) == (target, False, 40)
    assert Vote.objects.filter(uncounted="held").count() == 200
    assert Notice.objects.get().kind == "votes.review"
    assert f"under review in {arena.slug}" in " ".join(health.check_health(NOW).findings)
    figures = admin_client.get("/metrics").text
    assert "ringside_reviews 1.0" in figures
    assert f"ringside_holds {Hold.objects.open().count()}.0" in figures
    assert Hold.objects.open().exists()
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert (Review.objects.count(), Notice.objects.count()) == (1, 1)


def test_a_group_that_nobody_may_hold_still_flags_the_leaderboard(
    monkeypatch: pytest.MonkeyPatch, admin_client: Client
) -> None:
    monkeypatch.setattr("ranking.stats.anomalies.SURE", 1.1)
    monkeypatch.setattr("ranking.stats.anomalies.LEAST_VOTES", 1000)
    arena = bought()
    page = reverse("board", args=[arena.slug])
    assert publish(arena).findings["leader"] is None  # few networks carry it
    assert "Provisional: few networks carry this lead." in Client().get(page).text
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert not Hold.objects.exists()
    snapshot = publish(arena)
    assert (snapshot.n_votes, snapshot.findings["is_under_review"]) == (200, True)
    text = Client().get(page).text
    assert "<strong>Votes under review.</strong>" in text
    assert "No leader while votes are under review." in text
    assert "clear leader" not in text
    assert "Votes under review." in Client().get(reverse("index")).text
    board = Client().get(reverse("board_json", args=[arena.slug])).json()
    assert board["findings"]["is_under_review"] is True
    for review in Review.objects.all():
        fields = {"review": review, "by": CLI, "reason": "a class", "now": NOW}
        with pytest.raises(holds.HoldError, match="none of its raters certainly does"):
            holds.close_review(are_rigged=True, **fields)
        address = reverse("admin:arena_review_change", args=[review.pk])
        shown = admin_client.post(address, {"decision": "void", "reason": "we asked them"}).text
        assert "none of its raters certainly does" in shown
        assert 'value="we asked them"' in shown
        holds.close_review(are_rigged=False, **fields)
    ArenaRefresh.objects.update(examined_vote_id=0)
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert not Review.objects.open().exists()


def test_a_group_that_could_not_have_made_the_leader_does_not_unname_it() -> None:
    """Twelve votes for the last candidate, all of them held, took the leader off the page."""
    arena, _ = led()
    best, *_, last = arena.candidates.order_by("pk")
    assert publish(arena).findings["leader"] == best.pk
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert Vote.objects.filter(uncounted="held").count() == 12
    review, snapshot = Review.objects.get(), publish(arena)
    assert (review.candidate, review.loses) == (last, False)
    assert (snapshot.findings["leader"], snapshot.findings["is_under_review"]) == (best.pk, True)
    page = Client().get(reverse("board", args=[arena.slug])).text
    assert "<strong>Votes under review.</strong>" in page
    assert f"{best} is the clear leader." in page
    assert f"{best} is the clear leader." in Client().get(reverse("index")).text


GROUPS = [
    (0, False, "few", None),
    (0, True, "few", 0),
    (1, True, "few", 0),
    (3, False, "most", None),
]


@pytest.mark.parametrize(("moved", "loses", "who", "leader"), GROUPS)
def test_a_leader_under_review_is_first_without_the_group_and_not_by_its_favour(
    moved: int, loses: bool, who: str, leader: int | None
) -> None:
    arena, fans = led()
    candidates = list(arena.candidates.order_by("pk"))
    others = Rater.objects.exclude(pk__in=[fan.pk for fan in fans]).order_by("pk")
    # Without those who let it win, the leader is not first.
    fond = Vote.objects.filter(comparison__left=candidates[0], outcome="left").values("rater")
    suspects = others.filter(pk__in=fond) if who == "most" else Rater.objects.filter(votes=None)
    holds.open_review(
        candidate=candidates[moved],
        loses=loses,
        test="board",
        group=[rater.pk for rater in suspects],
        evidence={"e_value": 1e6, "n": 9, "k": 9, "raters": 2},
        suspects=[rater.pk for rater in suspects],
        has_verified=False,
        last_vote_id=Vote.objects.latest("pk").pk,
        now=NOW,
    )
    named = publish(arena).findings["leader"]
    assert named == (None if leader is None else candidates[leader].pk)


@pytest.mark.parametrize("are_rigged", [True, False])
def test_an_operator_decides_on_a_review(admin_client: Client, are_rigged: bool) -> None:
    arena = bought()
    publish(arena)
    anomalies.examine(arena_id=arena.pk, now=NOW)
    review = Review.objects.get()
    address = reverse("admin:arena_review_change", args=[review.pk])
    text = admin_client.get(address).text
    assert "candidate-4 won 200 of 200 votes" in text
    shown = {"seen": len(review.suspects)}
    assert f'name="seen" value="{shown["seen"]}"' in text
    admin_client.post(address, {"decision": "void", "reason": ""} | shown)
    assert Review.objects.open().exists()
    decided = {"decision": "void" if are_rigged else "release", "reason": "we asked them"}
    refused = admin_client.post(address, decided | {"seen": shown["seen"] - 1})
    assert holds.GROWN in refused.text
    assert Review.objects.open().exists()
    admin_client.post(address, decided | shown)
    review.refresh_from_db()
    assert (review.closed_at is not None, review.reason) == (True, "we asked them")
    assert not Hold.objects.open().exists()
    live = Vote.objects.live().filter(arena=arena)
    assert live.count() == (0 if are_rigged else 200)
    assert anomalies.examine(arena_id=arena.pk, now=NOW) == []
    assert not Review.objects.open().exists()
    assert publish(arena).findings["is_under_review"] is False


def review_of(
    arena: Arena, suspects: Iterable[int], *, candidate: int = -1, last: int = 0, **fields: Any
) -> Review | None:
    candidates = list(arena.candidates.order_by("pk"))
    found: dict[str, Any] = {
        "candidate": candidates[candidate],
        "loses": False,
        "test": "board",
        "evidence": {"e_value": 1e6, "n": 12, "k": 12, "raters": 2},
        "suspects": list(suspects),
        "has_verified": False,
        "last_vote_id": last or Vote.objects.latest("pk").pk,
    }
    return holds.open_review(group=found["suspects"], now=NOW, **found | fields)


def test_suspects_that_are_found_later_have_leaderboards_made_again(
    django_capture_on_commit_callbacks: Any,
) -> None:
    arena, fans = led()
    publish(arena)
    of_arena = ArenaRefresh.objects.filter(arena=arena)
    for suspects, is_news in ((fans[:1], True), (fans[:1], False), (fans, True)):
        of_arena.update(is_stale=False)
        with django_capture_on_commit_callbacks(execute=True):
            review_of(arena, [fan.pk for fan in suspects])
        assert of_arena.filter(is_stale=is_news).exists()


def test_a_decision_is_about_the_suspects_whom_the_operator_saw() -> None:
    arena, fans = led()
    seen = review_of(arena, [fans[0].pk])
    review_of(arena, [fan.pk for fan in fans])
    assert seen is not None
    with pytest.raises(holds.HoldError, match="More raters of this group look rigged"):
        holds.close_review(review=seen, are_rigged=True, by=CLI, reason="bought", now=NOW)
    assert Review.objects.open().exists()
    assert not Vote.objects.exclude(voided_at=None).exists()


@pytest.mark.parametrize("are_rigged", [True, False])
def test_a_decision_leaves_the_others_of_a_network_on_hold(are_rigged: bool) -> None:
    arena = bought()
    theirs = Rater.objects.filter(votes__network="net-0").distinct().order_by("pk")
    suspect, *others = theirs
    evidence = {"e_value": 1e6, "n": 9, "k": 9, "raters": 4, "candidate": None}
    votes = list(Vote.objects.filter(rater__in=theirs).values_list("pk", flat=True))
    where = {"arena": arena, "rater": None, "network": "net-0"}
    holds.hold(**where, test="network", evidence=evidence, votes=votes, now=NOW)
    review = review_of(arena, [suspect.pk], candidate=0, loses=True)
    assert review is not None
    holds.close_review(review=review, are_rigged=are_rigged, by=CLI, reason="a class", now=NOW)
    assert Hold.objects.open().exists()
    of_others = Vote.objects.filter(rater__in=others)
    assert not of_others.exclude(voided_at=None, uncounted="held").exists()
    assert Vote.objects.filter(rater=suspect, voided_at=None).exists() != are_rigged


def test_a_group_of_any_size_is_decided_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds, "MOST_IN_QUERY", 7)
    arena = bought()
    nobody = review_of(arena, [], candidate=0)
    assert nobody is not None
    holds.close_review(review=nobody, are_rigged=False, by=CLI, reason="a class", now=NOW)
    review = review_of(arena, Rater.objects.filter(votes__arena=arena).values_list("pk", flat=True))
    assert review is not None
    holds.close_review(review=review, are_rigged=True, by=CLI, reason="bought", now=NOW)
    assert not Vote.objects.live().filter(arena=arena).exists()


def test_a_decision_while_votes_are_examined_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    arena = bought()
    publish(arena)
    anomalies.examine(arena_id=arena.pk, now=NOW)
    make_votes(arena, [(*arena.candidates.order_by("pk")[:2], "left", None)], network="new")
    Vote.objects.update(channel="browser")
    found = anomalies.suspicions_of

    def decide_meanwhile(*read: Any) -> Any:
        for review in Review.objects.open():
            holds.close_review(review=review, are_rigged=False, by=CLI, reason="a class", now=NOW)
        return found(*read)

    monkeypatch.setattr(anomalies, "suspicions_of", decide_meanwhile)
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert [review.reason for review in Review.objects.all()] == ["a class"]


def test_votes_that_new_rules_let_count_are_examined(
    django_capture_on_commit_callbacks: Any,
) -> None:
    arena, fan = attacked()
    others = Vote.objects.exclude(rater=fan)
    others.update(verified=True)
    with django_capture_on_commit_callbacks(execute=True):
        update_arena(arena=arena, by=CLI, counts="verified")
    publish(arena)
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert not Hold.objects.exists()
    with django_capture_on_commit_callbacks(execute=True):
        update_arena(arena=arena, by=CLI, counts="anyone")
    assert anomalies.arenas_to_examine() == [arena.pk]
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert Hold.objects.get().rater == fan


def test_an_arena_that_cannot_be_examined_keeps_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken, (arena, fan) = attacked()[0], attacked()
    for each in (broken, arena):
        publish(each)
    found = anomalies.suspicions_of

    def fail_for_one(examined: Arena, *read: Any) -> Any:
        if examined == broken:
            raise ValueError("a bad row")
        return found(examined, *read)

    monkeypatch.setattr(anomalies, "suspicions_of", fail_for_one)
    tasks.examine_votes()
    assert Hold.objects.get().rater == fan
    assert "could not be examined" in caplog.text


def test_a_comparison_under_review_says_so_and_is_not_quoted() -> None:
    arena = bought()
    publish(arena)
    first, *_, last = arena.candidates.order_by("pk")
    address = reverse("compare", args=[arena.slug]) + f"?a={last.pk}&b={first.pk}"
    verdict = "candidate-4 is better than candidate-0"
    before = Client().get(address).text
    assert before.count(verdict) > 1
    assert "Votes under review" not in before
    anomalies.examine(arena_id=arena.pk, now=NOW)
    Vote.objects.update(uncounted=None, hold=None)
    publish(arena)
    text = Client().get(address).text
    assert "<strong>Votes under review.</strong>" in text
    assert text.count(verdict) == 1  # the heading, below the warning


def test_a_file_of_a_provisional_leaderboard_checks_out(tmp_path: Path, capsys: Any) -> None:
    arena = bought()
    assert publish(arena).findings["provisional"] is not None
    path = tmp_path / "log.jsonl"
    call_command("verify_log", arena.slug, export=path)
    call_command("verify", path)
    printed = capsys.readouterr().out
    assert "numbers match the published" in printed
    assert "under review" not in printed
    # Earlier releases knew neither.
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    boards = [line for line in lines if line["type"] == "leaderboard"]
    for board in boards:
        board["is_open"] = False
    path.write_text("".join(log_file.as_jsonl(lines)))
    with pytest.raises(CommandError, match="failed the check"):
        call_command("verify", path)


def test_a_file_of_a_leaderboard_under_review_checks_out(tmp_path: Path, capsys: Any) -> None:
    arena, fans = led()
    review_of(arena, [fan.pk for fan in fans])
    assert publish(arena).findings["is_under_review"]
    path = tmp_path / "log.jsonl"
    call_command("verify_log", arena.slug, export=path)
    call_command("verify", path)
    printed = capsys.readouterr().out
    assert "Votes are under review: whom it names as first is not checked." in printed


def test_a_file_of_an_earlier_release_checks_out(tmp_path: Path, capsys: Any) -> None:
    arena, _ = led()
    publish(arena)
    path = tmp_path / "log.jsonl"
    call_command("verify_log", arena.slug, export=path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["version"] = 4
    for board in [line for line in lines if line["type"] == "leaderboard"]:
        del board["is_open"]
        for name in log_file.CLAIMED:
            del board["findings"][name]
    path.write_text("".join(log_file.as_jsonl(lines)))
    call_command("verify", path)
    assert "numbers match the published" in capsys.readouterr().out


@pytest.mark.parametrize("are_rigged", [True, False])
def test_whoever_is_not_decided_on_is_examined_further(are_rigged: bool) -> None:
    arena, fans = led()
    others = set(Vote.objects.exclude(rater__in=fans).values_list("pk", flat=True))
    review = holds.open_review(
        candidate=arena.candidates.latest("pk"),
        loses=False,
        test="board",
        evidence={"e_value": 1e6, "n": 12, "k": 12, "raters": 2},
        group=[rater.pk for rater in Rater.objects.all()],
        suspects=[fan.pk for fan in fans],
        has_verified=False,
        last_vote_id=Vote.objects.latest("pk").pk,
        now=NOW,
    )
    assert review is not None
    holds.close_review(review=review, are_rigged=are_rigged, by=CLI, reason="a class", now=NOW)
    assert set(anomalies.read(arena).pk.tolist()) == others


def test_verified_people_s_leaderboard_is_shown_first_while_votes_are_under_review() -> None:
    arena = bought()
    candidates, chance = list(arena.candidates.order_by("pk")), random.Random(2)
    for number in range(30):
        rows = []
        for prompt in arena.prompts.order_by("pk")[:8]:
            a, b = sorted(chance.sample(range(5), 2))
            outcome = "left" if chance.random() < 0.65 else "right"
            rows.append((candidates[a], candidates[b], outcome, prompt))
        make_votes(arena, rows, verified=True, network=f"home-{number}")
    Vote.objects.update(channel="browser")
    publish(arena)
    page = reverse("board", args=[arena.slug])
    assert "Only votes by verified people count here" not in Client().get(page).text
    anomalies.examine(arena_id=arena.pk, now=NOW)
    assert Review.objects.get().has_verified is False
    publish(arena)
    text = Client().get(page).text
    assert "Only votes by verified people count here" in text
    assert "<strong>Votes under review.</strong>" in text


def test_the_database_refuses_a_second_open_review_and_one_closed_without_a_reason() -> None:
    arena = make_arena(2, 2)
    fields = {"arena": arena, "candidate": arena.candidates.first(), "loses": False}
    fields |= {"test": "board", "evidence": {}, "group": [], "suspects": []}
    fields["has_verified"] = False
    fields |= {"last_vote_id": 1, "opened_at": NOW}
    Review.objects.create(**fields)
    for more, constraint in (
        ({}, "review_one_open_per_candidate|arena_review.candidate_id"),
        ({"closed_at": NOW}, "review_closed_with_a_reason"),
    ):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            Review.objects.create(**fields | more)


@pytest.mark.parametrize("channel", ["invited", "token"])
def test_where_others_vote_too_members_and_programs_are_held_like_them(channel: str) -> None:
    arena, fan = attacked()
    fan.votes.update(channel=channel)
    assert {hold.rater for hold in anomalies.examine(arena_id=arena.pk, now=NOW)} == {fan}
    assert Vote.objects.filter(rater=fan, uncounted="held").count() == RIGGED


def test_later_votes_wait_for_the_same_decision_however_they_are_cast() -> None:
    """Whoever was on hold could go on with other votes, until the evidence was weak again."""
    arena, fan = attacked()
    before = counts_of(arena)
    anomalies.examine(arena_id=arena.pk, now=NOW)
    first, *_, last = arena.candidates.order_by("pk")
    more = list(arena.prompts.order_by("-pk")[:10]) * 6
    make_votes(arena, [(first, last, "left", prompt) for prompt in more], fan)
    fan.votes.filter(channel="").update(channel="browser")
    assert anomalies.suspicions_of(arena, anomalies.read(arena)) == []
    (hold,) = anomalies.examine(arena_id=arena.pk, now=NOW)
    assert (hold.rater, hold.n_votes, hold.evidence["k"]) == (fan, RIGGED + len(more), RIGGED)
    assert fan.votes.filter(uncounted=None).count() == 0
    holds.release(hold=hold, by=CLI, reason="a matter of taste", now=NOW)
    assert fan.votes.filter(uncounted=None).count() == RIGGED + len(more)
    assert counts_of(arena) != before


def test_released_votes_count_as_before_and_are_not_held_again_for_the_same() -> None:
    arena, _ = attacked()
    before = counts_of(arena)
    (hold,) = anomalies.examine(arena_id=arena.pk, now=NOW)[:1]
    assert counts_of(arena) != before
    holds.release(hold=hold, by=CLI, reason="a colleague of ours", now=NOW)
    assert counts_of(arena) == before
    assert anomalies.examine(arena_id=arena.pk, now=NOW) == []
    with pytest.raises(holds.HoldError, match="already"):
        holds.void(hold=hold, by=CLI, reason="late", now=NOW)


def test_votes_cast_before_a_release_are_released_with_those_held() -> None:
    arena, fan = attacked()
    votes = list(fan.votes.order_by("pk"))
    held = [vote.pk for vote in votes[:3]]
    fields = {"network": "", "test": "favours", "evidence": {}, "votes": held, "now": NOW}
    hold = holds.hold(arena=arena, rater=fan, **fields)
    assert hold is not None
    holds.release(hold=hold, by=CLI, reason="a matter of taste", now=NOW)
    assert anomalies.examine(arena_id=arena.pk, now=NOW) == []


def test_an_operator_reads_the_evidence_and_voids(admin_client: Client) -> None:
    arena, fan = attacked()
    (hold,) = anomalies.examine(arena_id=arena.pk, now=NOW)[:1]
    address = reverse("admin:arena_hold_change", args=[hold.pk])
    page = admin_client.get(address).text
    assert f"candidate-3 won {RIGGED} of this rater’s {RIGGED} votes." in page
    assert "<svg" in page
    admin_client.post(address, {"decision": "void", "reason": ""})
    assert Hold.objects.get(pk=hold.pk).state == "held"
    admin_client.post(address, {"decision": "void", "reason": "bought votes"})
    hold.refresh_from_db()
    assert (hold.state, hold.reason) == ("voided", "bought votes")
    assert set(fan.votes.values_list("void_reason", flat=True)) == {"bought votes"}
    assert AuditEntry.objects.filter(action="voided held votes").exists()


def test_the_evidence_says_that_a_candidate_always_lost(admin_client: Client) -> None:
    arena, fan = attacked()
    votes = list(fan.votes.values_list("pk", flat=True))
    first = arena.candidates.earliest("pk").pk
    evidence = {"e_value": 2e3, "n": 40, "k": 39, "raters": 1, "candidate": first, "wins": []}
    fields = {"test": "favours", "evidence": evidence | {"loses": True}, "votes": votes, "now": NOW}
    hold = holds.hold(arena=arena, rater=fan, network="", **fields)
    assert hold is not None
    page = admin_client.get(reverse("admin:arena_hold_change", args=[hold.pk])).text
    assert "candidate-0 lost 39 of this rater’s 40 votes." in page


def test_the_rater_sees_it_and_can_object() -> None:
    arena, _ = attacked()
    user = get_user_model().objects.create_user("mary", password="s3cret-words")
    fan = Rater.objects.filter(votes__arena=arena).order_by("-pk").first()
    Rater.objects.filter(pk=fan.pk).update(user=user)
    anomalies.examine(arena_id=arena.pk, now=NOW)
    client = Client()
    client.force_login(user)
    vote = reverse("vote", args=[arena.slug])
    assert "Your votes here are on hold" in known(client).get(vote).text
    address = reverse("object_to_hold", args=[arena.slug])
    client.post(address, {"objection": "I like it better."})
    hold = Hold.objects.get(rater=fan)
    assert hold.objection == "I like it better."
    assert "We have received your objection" in known(client).get(vote).text
    assert "on hold" not in Client().get(vote).text
    assert "On hold" in client.get(reverse("my_votes", args=[arena.slug])).text
    holds.void(hold=hold, by=CLI, reason="A script cast them.", now=NOW)
    page = known(client).get(vote).text
    assert "excluded them: A script cast them." in page
    assert "on hold</h2>" not in page


def test_each_rater_of_a_network_on_hold_can_object_and_hears_the_decision() -> None:
    arena, _ = attacked(n_honest=2)
    votes = list(Vote.objects.order_by("pk").distinct().values_list("pk", "rater"))
    first, second = Rater.objects.filter(pk__in={rater for _, rater in votes}).order_by("pk")[:2]
    own = [pk for pk, rater in votes if rater in (first.pk, second.pk)]
    hold = holds.hold(
        arena=arena, rater=None, network="ab", test="network", evidence={}, votes=own, now=NOW
    )
    assert hold is not None
    holds.object_to(raters=[first], arena=arena, text="An office.", now=NOW)
    holds.object_to(raters=[second], arena=arena, text="Me too.", now=NOW)
    hold.refresh_from_db()
    assert hold.objection == "An office.\n\nMe too."
    assert holds.find_newest(raters=[second], arena=arena, now=NOW) == hold


def test_raters_of_a_network_hear_that_their_votes_were_released() -> None:
    arena, (first, second, bystander) = make_arena(2, 3), (make_person() for _ in range(3))
    pair = arena.candidates.order_by("pk")
    votes = {
        rater: make_vote(arena, *pair, "left", rater=rater, network="ab")
        for rater in (first, second, bystander)
    }
    held = [votes[first].pk, votes[second].pk]
    hold = holds.hold(
        arena=arena, rater=None, network="ab", test="network", evidence={}, votes=held, now=NOW
    )
    assert hold is not None
    holds.release(hold=hold, by=CLI, reason="a class", now=NOW)
    for rater in (first, second):
        assert holds.find_newest(raters=[rater], arena=arena, now=NOW) == hold
        assert holds.find_newest(raters=[rater], arena=arena, now=NOW + timedelta(days=31)) is None
    assert holds.find_newest(raters=[bystander], arena=arena, now=NOW) is None


@pytest.mark.parametrize(
    "n_histories",
    [40, pytest.param(2000, marks=[pytest.mark.slow, pytest.mark.any_database])],
)
def test_histories_of_hold_release_and_void_leave_counts_identical(n_histories: int) -> None:
    arena, _ = attacked(n_honest=2)
    votes = list(Vote.objects.order_by("pk").values_list("pk", "rater")[:24])
    Vote.objects.exclude(pk__in=[pk for pk, _ in votes]).delete()
    raters = Rater.objects.in_bulk({rater for _, rater in votes})
    before, chance = counts_of(arena), random.Random(1)
    assert bytes(publish(arena).matrices.cells) == before
    for number in range(n_histories):
        for _ in range(chance.randint(1, 4)):
            pk, rater = chance.choice(votes)
            holds.hold(
                arena=arena,
                rater=raters[rater],
                network="",
                test="favours",
                evidence={},
                votes=[*chance.sample([v for v, of in votes if of == rater], 3), pk],
                now=NOW,
            )
            if chance.random() < 0.5 and (held := Hold.objects.open().first()):
                holds.release(hold=held, by=CLI, reason="fine", now=NOW)
        if chance.random() < 0.3 and (held := Hold.objects.open().last()):
            gone = list(held.votes.values_list("pk", flat=True))
            with transaction.atomic():
                save = transaction.savepoint()
                holds.void(hold=held, by=CLI, reason="bad", now=NOW)
                assert not Vote.objects.live().filter(pk__in=gone).exists()
                transaction.savepoint_rollback(save)
        for held in Hold.objects.open():
            holds.release(hold=held, by=CLI, reason="fine", now=NOW)
        assert counts_of(arena) == before, number
        if number % 20 == 0:
            assert bytes(publish(arena).matrices.cells) == before


def test_the_database_refuses_a_second_open_hold_and_one_without_a_reason() -> None:
    arena, fan = attacked(n_honest=1)
    fields = {"test": "favours", "evidence": {}, "last_vote_id": 1, "held_at": NOW}
    Hold.objects.create(arena=arena, rater=fan, **fields)
    for more, constraint in (
        ({"rater": fan}, "hold_one_open_per_rater|arena_id, arena_hold.rater_id"),
        ({}, "hold_of_rater_or_network"),
        ({"network": "ab", "state": "voided", "decided_at": NOW}, "hold_decided_with_a_reason"),
    ):
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            Hold.objects.create(arena=arena, **fields | more)
    assert Comparison.objects.exists()
