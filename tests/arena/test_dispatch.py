"""Which call a worker's thread makes next: endpoints' slots, runs' turns, and waking threads."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from arena.calls import scheduling
from arena.calls.models import Call
from arena.calls.scheduling import Slots, make_calls
from arena.endpoints import Endpoint
from tests.arena.ledger import add_requesters
from tests.factories import make_call, make_run


def endpoints(**concurrency: int) -> dict[str, Endpoint]:
    return {
        name: Endpoint(name, "openai", "http://127.0.0.1:1/v1", concurrency=number)
        for name, number in concurrency.items()
    }


def fill(slots: Slots, endpoint: str) -> int:
    """Take all slots that the endpoint gets; return how many those are."""
    while slots.take(endpoint):
        pass
    return slots.used(endpoint)


def test_an_endpoint_has_its_concurrency_and_leaves_the_rest(settings: Any) -> None:
    settings.MODEL_ENDPOINTS = endpoints(slow=8, quick=8)
    slots = Slots(32)
    assert fill(slots, "slow") == 8
    assert fill(slots, "quick") == 8


@pytest.mark.parametrize(("size", "gets"), [(1, 1), (2, 1), (16, 8), (17, 9)])
def test_whatever_is_set_one_endpoint_has_at_most_half(settings: Any, size: int, gets: int) -> None:
    settings.MODEL_ENDPOINTS = endpoints(greedy=1000)
    assert fill(Slots(size), "greedy") == gets


def test_several_slow_endpoints_leave_a_slot_for_another(settings: Any) -> None:
    settings.MODEL_ENDPOINTS = endpoints(a=99, b=99, c=99, d=99)
    slots = Slots(32)
    assert [fill(slots, name) for name in "abcd"] == [16, 8, 4, 2]


def test_an_endpoint_gives_slots_back_to_one_that_came_later(settings: Any) -> None:
    settings.MODEL_ENDPOINTS = endpoints(first=99, second=99)
    slots = Slots(12)
    fill(slots, "first")
    for _ in range(20):  # every call that ends tries to go on
        for name in ("first", "second"):
            fill(slots, "second")
            slots.release(name)
            slots.take(name)
    assert (slots.used("first"), slots.used("second")) == (4, 4)


def test_calls_of_an_endpoint_that_was_removed_have_one_slot(settings: Any) -> None:
    settings.MODEL_ENDPOINTS = {}
    assert fill(Slots(16), "gone") == 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[list[int]]:
    """The calls made, in order; a call is done as soon as it is made."""
    calls: list[int] = []

    def execute(call_id: int, handler: object) -> None:
        calls.append(call_id)
        Call.objects.filter(pk=call_id).update(state="done")

    settings.MODEL_ENDPOINTS = endpoints(paid=4)
    monkeypatch.setattr(scheduling, "execute_call", execute)
    monkeypatch.setattr(scheduling, "SLOTS", Slots(16))
    scheduling.BUFFERS.clear()
    yield calls
    scheduling.BUFFERS.clear()


@pytest.mark.django_db
def test_one_thread_makes_all_calls_and_ends(made: list[int]) -> None:
    run = make_run()
    calls = [make_call(run, endpoint="paid").pk for _ in range(5)]
    make_calls(endpoint="paid", wake_another=lambda: None)
    assert made == calls
    assert scheduling.SLOTS.used("paid") == 0


@pytest.mark.django_db
def test_threads_wake_one_another_up_to_the_slots(made: list[int]) -> None:
    run = make_run()
    for _ in range(40):
        make_call(run, endpoint="paid")
    deepest: Counter[str] = Counter()

    def wake() -> None:
        deepest["slots"] = max(deepest["slots"], scheduling.SLOTS.used("paid"))
        make_calls(endpoint="paid", wake_another=wake)

    make_calls(endpoint="paid", wake_another=wake)
    assert (len(made), len(set(made)), deepest["slots"]) == (40, 40, 3)


@pytest.mark.django_db
def test_a_broker_out_of_reach_stops_no_thread(made: list[int]) -> None:
    run = make_run()
    for _ in range(5):
        make_call(run, endpoint="paid")

    def unreachable() -> None:
        raise OperationalError("Connection refused")

    make_calls(endpoint="paid", wake_another=unreachable)
    assert len(made) == 5


@pytest.mark.django_db
def test_a_call_that_breaks_its_thread_gives_the_slot_back(
    made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_call(endpoint="paid")

    def broken(call_id: int, handler: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(scheduling, "execute_call", broken)
    with pytest.raises(ZeroDivisionError):
        make_calls(endpoint="paid", wake_another=lambda: None)
    assert scheduling.SLOTS.used("paid") == 0


@pytest.mark.django_db
def test_a_worker_that_stops_begins_no_call(
    made: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_call(endpoint="paid")
    stopping = threading.Event()
    stopping.set()
    monkeypatch.setattr(scheduling, "stopping", stopping)
    make_calls(endpoint="paid", wake_another=lambda: None)
    assert made == []


@pytest.mark.django_db
def test_a_short_run_does_not_wait_for_a_long_one(made: list[int]) -> None:
    long, short = make_run(), make_run(slug="short")
    for run, number in ((long, 60), (short, 6)):
        add_requesters(run, "judge")
        for _ in range(number):
            make_call(run, endpoint="paid")
    make_calls(endpoint="paid", wake_another=lambda: None)
    own = set(Call.objects.filter(run=short).values_list("pk", flat=True))
    assert max(made.index(call_id) for call_id in own) < 40
