"""Judges, boards and decisions through the client."""

from collections.abc import Iterator
from typing import Any

import pytest

from clients.python import ringside_client
from clients.python.ringside_client import Ringside, RingsideError, StillWaiting
from tests.clients.fake_ringside import FakeRingside, Said, listed, problem

RUN = {"id": 5, "state": "open", "pause_reason": ""}
ORDER: dict[str, Any] = {"judges": ["scripted"], "candidates": [17, 12], "per_pair": 5, "cap": 2.0}
BEFORE = {"verdict": "unknown", "counted": False}


@pytest.fixture
def server() -> Iterator[FakeRingside]:
    with FakeRingside(Said(RUN, 201)) as server:
        yield server


def test_the_same_order_is_the_same_request(server: FakeRingside) -> None:
    for order in (ORDER, dict(reversed(ORDER.items())), ORDER | {"per_pair": 6}):
        Ringside(server.url).order_judging("a", **order)
    Ringside(server.url).order_judging("b", **ORDER)
    Ringside(server.url).order_judging("a", after=5, **ORDER)

    keys = [asked.key for asked in server.asked]
    assert keys[0] == keys[1]
    assert len(set(keys)) == 4
    assert server.asked[0].said == server.asked[4].said == ORDER
    assert server.asked[0].path == "/api/v1/arenas/a/judge-runs/"


def refused(*, again: bool) -> Said:
    """A new refusal, or the one that the server stored under the key."""
    headers = {"Idempotency-Replayed": "true"} if again else {}
    said = problem(422, "All was judged already.", "nothing-to-do")
    return Said(said.body, said.status, headers)


def test_what_was_refused_before_is_asked_anew() -> None:
    """There may be more prompts by now, and a second start finds the first one's run."""
    kept = [refused(again=True), refused(again=True)]
    sent = []
    for _ in range(2):
        with FakeRingside(*kept, Said(RUN, 201)) as server:
            assert Ringside(server.url).order_judging("a", **ORDER) == RUN
        sent.append([asked.key for asked in server.asked])
    assert sent[0] == sent[1]
    assert len(set(sent[0])) == 3


def test_what_is_refused_now_is_an_answer() -> None:
    said = pytest.raises(RingsideError, match="All was judged already")
    with FakeRingside(refused(again=True), refused(again=False)) as server, said:
        Ringside(server.url).order_judging("a", **ORDER)
    assert len(server.asked) == 2


def test_the_next_key_is_not_looked_for_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ringside_client, "MOST_REFUSALS", 3)
    with FakeRingside(refused(again=True)) as server, pytest.raises(RingsideError):
        Ringside(server.url).order_judging("a", **ORDER)
    assert len(server.asked) == 3


def test_judges_are_looked_up_by_name() -> None:
    judge = {"name": "a:b@pairwise", "endpoint": "a", "model": "b", "rubric": "pairwise"}
    with FakeRingside(listed(judge)) as server:
        assert Ringside(server.url).judges("a", "a:b", "c d") == [judge, judge]
        assert Ringside(server.url).judges("a") == [judge]
    path = "/api/v1/arenas/a/judges/?page_size=1000"
    named = [f"{path}&name=a%3Ab", f"{path}&name=c+d"]
    assert [asked.path for asked in server.asked] == [*named, path]


def test_rubrics_are_listed_by_team_and_by_version() -> None:
    rubric = {"name": "a b/support.2", "rubric": "support", "version": 2, "files": {}}
    with FakeRingside(listed(rubric)) as server:
        assert Ringside(server.url).rubrics("a b") == [rubric]
        assert Ringside(server.url).rubric_versions("a b", "c/d") == [rubric]
    rubrics = "/api/v1/teams/a%20b/rubrics/"
    paths = [f"{rubrics}?page_size=1000", f"{rubrics}c%2Fd/versions/?page_size=1000"]
    assert [asked.path for asked in server.asked] == paths


def test_a_quote_orders_nothing(server: FakeRingside) -> None:
    Ringside(server.url).quote_judging("a", **ORDER)
    Ringside(server.url).quote_judging("a", **ORDER)
    assert server.asked[0].said == ORDER | {"dry_run": True}
    assert server.asked[0].key != server.asked[1].key  # prices may have changed meanwhile


@pytest.mark.parametrize("state", ["done", "cancelled", "paused"])
def test_judges_are_waited_for_until_they_stop(state: str) -> None:
    with FakeRingside(Said(RUN), Said(RUN), Said(RUN | {"state": state})) as server:
        assert Ringside(server.url).wait_for_judges(5, patience=60)["state"] == state
    assert [asked.path for asked in server.asked] == ["/api/v1/judge-runs/5/"] * 3


def test_a_decision_is_asked_for_by_both_and_whose_votes(server: FakeRingside) -> None:
    client = Ringside(server.url)
    client.decision("a", 17, 12, raters="judges")
    path = "/api/v1/arenas/a/decision/?candidate=17&baseline=12&raters="
    assert server.asked[0].path == f"{path}judges"
    client.decision("a", 17, 12)
    assert server.asked[1].path == f"{path}people"
    client.decision("a", 17, 12, raters="judges", run=5)
    assert server.asked[2].path == f"{path}judges&run=5"


@pytest.mark.parametrize("verdict", ["better", "worse"])
def test_what_is_known_is_waited_for(verdict: str) -> None:
    with FakeRingside(Said(BEFORE), Said(BEFORE | {"verdict": verdict})) as server:
        found = Ringside(server.url).wait_for_decision("a", 17, 12, patience=60)
    assert found["verdict"] == verdict


def test_the_votes_of_a_run_are_waited_for_whatever_a_part_of_them_says() -> None:
    counted = BEFORE | {"counted": True}
    said = [Said(BEFORE), Said(BEFORE | {"verdict": "better"}), Said(counted)]
    with FakeRingside(*said) as server:
        found = Ringside(server.url).wait_for_decision(
            "a", 17, 12, patience=60, raters="judges", run=5
        )
    assert found == counted
    assert {asked.path.rpartition("&")[2] for asked in server.asked} == {"run=5"}


def test_an_unknown_result_is_reported_as_unknown() -> None:
    with FakeRingside(Said(BEFORE)) as server, pytest.raises(StillWaiting) as caught:
        Ringside(server.url).wait_for_decision("a", 17, 12, patience=5)
    assert caught.value.last == BEFORE


def test_a_board_is_found_by_its_raters_and_category() -> None:
    boards = listed({"id": 3, "category": "refunds"}, {"id": 4, "category": ""})
    with FakeRingside(boards, Said({"standings": []}), boards) as server:
        assert Ringside(server.url).board("a", raters="judges") == {"standings": []}
        assert Ringside(server.url).board("a", category="orders") is None
    assert server.asked[0].path.endswith("/arenas/a/boards/?page_size=1000&raters=judges")
    assert server.asked[1].path == "/api/v1/arenas/a/boards/4/"


def test_battles_are_chosen_by_the_api() -> None:
    with FakeRingside(listed({"outcome": "left"})) as server:
        found = list(Ringside(server.url).battles("a", candidate=17))
    assert found == [{"outcome": "left"}]
    assert server.asked[0].path.endswith("/arenas/a/battles/?page_size=1000&candidate=17")
