"""`/metrics`: what Prometheus reads, always of the database's present state."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from arena.models import Arena, Backup, Import, Vote
from ranking.models import ArenaRefresh, Snapshot
from tests.factories import DOLLAR, make_call, make_run, make_user, make_vote
from tests.ranking.helpers import cast, hidden_import, publish, reveal, seconds

pytestmark = pytest.mark.django_db
TOKEN = "a-token-for-monitoring"
QUERIES = 12  # whatever the database holds


@pytest.fixture(autouse=True)
def monitored(settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN


def scrape(client: Client) -> dict[Any, float]:
    """The samples by name, or by name and labels' values."""
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200, answer.content
    return {
        (sample.name, *sample.labels.values()) if sample.labels else sample.name: sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def test_only_operators_read_metrics(client: Client) -> None:
    assert client.get("/metrics").status_code == 403
    assert client.get("/metrics", headers={"Authorization": "Bearer wrong"}).status_code == 403
    client.force_login(make_user("olga", is_staff=True))
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/plain; version=")


def test_a_new_ringside_has_zeros_everywhere(client: Client) -> None:
    assert scrape(client) == {
        "ringside_votes": 0,
        "ringside_votes_unfolded": 0,
        "ringside_queue_age_seconds": 0,
        ("ringside_money_dollars", "spent"): 0,
        ("ringside_money_dollars", "reserved"): 0,
        ("ringside_money_dollars", "uncertain"): 0,
        "ringside_board_age_seconds": 0,
        "ringside_holds": 0,
        "ringside_reviews": 0,
        ("ringside_exports", "in progress"): 0,
        ("ringside_exports", "failed"): 0,
        "ringside_export_age_seconds": 0,
    }


def test_votes_wait_until_a_refresh_has_folded_them(client: Client, arena: Arena) -> None:
    left, right = arena.candidates.all()[:2]
    before = Vote.objects.filter(voided_at=None).count()
    publish(arena)
    assert scrape(client)["ringside_votes_unfolded"] == 0
    vote = make_vote(arena, left, right, "left", cast_at=timezone.now() - seconds(40))
    found = scrape(client)
    assert (found["ringside_votes"], found["ringside_votes_unfolded"]) == (before + 1, 1)
    assert found["ringside_board_age_seconds"] == pytest.approx(40, abs=20)
    publish(arena)
    Vote.objects.filter(pk=vote.pk).update(voided_at=timezone.now(), void_reason="a script")
    found = scrape(client)
    assert (found["ringside_votes"], found["ringside_votes_unfolded"]) == (before, 1)
    publish(arena)
    ArenaRefresh.objects.update(recheck_at=None)
    found = scrape(client)
    assert (found["ringside_votes_unfolded"], found["ringside_board_age_seconds"]) == (0, 0)


def test_the_age_of_the_last_backup(client: Client) -> None:
    for hours in (50, 2):
        made_at = timezone.now() - timedelta(hours=hours)
        Backup.objects.create(made_at=made_at, size=1, is_encrypted=False)
    assert scrape(client)["ringside_backup_age_seconds"] == pytest.approx(7200, abs=20)


def test_votes_of_a_file_wait_once_they_are_revealed(
    client: Client, arena: Arena, published: Snapshot
) -> None:
    hidden: Import = hidden_import(arena, n_votes=0)
    for row in (1, 2, 3):
        cast(arena, source=hidden, source_row=row)
    assert scrape(client)["ringside_votes_unfolded"] == 0
    reveal(hidden, ago=60)
    assert scrape(client)["ringside_votes_unfolded"] == 3
    publish(arena)
    assert scrape(client)["ringside_votes_unfolded"] == 0


def test_calls_are_counted_by_endpoint_and_state(client: Client) -> None:
    run = make_run()
    make_call(run)
    make_call(run, state="done", finished_at=timezone.now())
    make_call(run, state="done", endpoint="paid", finished_at=timezone.now())
    make_call(run, state="done", endpoint="paid", finished_at=timezone.now())
    found = scrape(client)
    assert {key: n for key, n in found.items() if key[0] == "ringside_calls"} == {
        ("ringside_calls", "scripted", "waiting"): 1,
        ("ringside_calls", "scripted", "done"): 1,
        ("ringside_calls", "paid", "done"): 2,
    }


def test_the_queue_is_as_old_as_the_oldest_call_that_may_be_made(client: Client) -> None:
    now, run = timezone.now(), make_run()
    make_call(run, due_at=now + timedelta(hours=1))
    make_call(make_run("paused"), due_at=now - timedelta(hours=5))
    assert scrape(client)["ringside_queue_age_seconds"] == 0
    make_call(run, due_at=now - seconds(30))
    make_call(run, due_at=now - seconds(90))
    assert scrape(client)["ringside_queue_age_seconds"] == pytest.approx(90, abs=20)


def test_money_is_in_dollars(client: Client) -> None:
    make_run(cap=9 * DOLLAR, settled=3 * DOLLAR, reserved=DOLLAR // 4, uncertain=DOLLAR // 2)
    make_run("done", cap=9 * DOLLAR, settled=DOLLAR)
    found = scrape(client)
    kinds = ("spent", "reserved", "uncertain")
    assert [found["ringside_money_dollars", kind] for kind in kinds] == [4, 0.25, 0.5]


def test_reading_takes_as_many_queries_however_much_there_is(
    client: Client, arena: Arena, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(QUERIES):
        scrape(client)
    for _ in range(3):
        make_call(make_run(cap=DOLLAR))
        cast(arena)
    with django_assert_num_queries(QUERIES):
        scrape(client)


def test_nothing_is_left_in_the_registry_of_the_process(client: Client) -> None:
    names = set(REGISTRY._names_to_collectors)
    scrape(client)
    assert set(REGISTRY._names_to_collectors) == names
    assert not any(name.startswith("ringside") for name in names)
