"""`manage.py generate`, with a stand-in for the worker."""

import io
import time
from datetime import datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from arena import tasks
from arena.actors import CLI
from arena.calls.providers.base import RejectedError
from arena.generation_runs import AnswerReport, report_on
from arena.management import terminal
from arena.management.commands import generate as command
from arena.models import AuditEntry, Candidate, Run
from arena.services import runs as engine
from tests.arena.generation import order
from tests.arena.ledger import Model, end
from tests.factories import DOLLAR, make_call, make_variant

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.management.terminal.LOOK_EVERY", 0.0)
    monkeypatch.setattr("arena.management.terminal.SILENCE", 0.05)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the calls as soon as a worker is woken."""
    monkeypatch.setattr(tasks.make_calls, "delay", tasks.make_calls)


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks.make_calls, "delay", lambda endpoint: None)


def generate(candidate: Candidate, *extra: str, name: str = "Brief") -> str:
    out = io.StringIO()
    call_command("generate", candidate.arena.slug, name, *extra, stdout=out, stderr=out)
    return out.getvalue()


@pytest.mark.usefixtures("worker")
def test_answers_are_ordered_watched_and_summed_up(paid_candidate: Candidate) -> None:
    said = generate(paid_candidate, "--cap=1")
    run = Run.objects.get()
    assert (run.state, paid_candidate.responses.count()) == ("done", 3)
    assert "3 prompts: answered 3." in said
    assert "3 requests: $0.000060." in said
    assert f"/manage/answers/{run.pk}/" in said
    assert AuditEntry.objects.get().by == "an administrator (command line)"


@pytest.mark.usefixtures("no_worker")
def test_a_dry_run_quotes_and_writes_nothing(paid_candidate: Candidate) -> None:
    said = generate(paid_candidate, "--dry-run")
    assert "m-1 at paid: 3 prompts, about 18 tokens in and 900 out." in said
    assert "Cost: $0.0018 expected" in said
    assert not Run.objects.exists()


@pytest.mark.usefixtures("worker")
def test_a_name_means_its_newest_version_and_a_number_itself(paid_candidate: Candidate) -> None:
    newer = make_variant(
        arena=paid_candidate.arena, team=paid_candidate.team, name="Brief", version=2
    )
    generate(paid_candidate, "--cap=1")
    assert (paid_candidate.responses.count(), newer.responses.count()) == (0, 3)
    generate(paid_candidate, "--cap=1", name=str(paid_candidate.pk))
    assert paid_candidate.responses.count() == 3


@pytest.mark.usefixtures("worker")
def test_the_same_command_resumes_a_paused_run_with_its_cap(paid_candidate: Candidate) -> None:
    run = order(paid_candidate)
    engine.pause(run=run, by=CLI)
    said = generate(paid_candidate, "--cap=2")
    run.refresh_from_db()
    assert f"Continuing unfinished run {run.pk} of Brief." in said
    assert (run.state, run.cap, Run.objects.count()) == ("done", 2 * DOLLAR, 1)


@pytest.mark.usefixtures("no_worker")
def test_a_worker_that_does_not_answer_is_missed(paid_candidate: Candidate) -> None:
    with pytest.raises(CommandError, match="No worker is answering"):
        generate(paid_candidate, "--cap=1")
    assert "Continuing" in generate(paid_candidate, "--no-wait")


@pytest.mark.usefixtures("worker")
def test_a_run_that_pauses_is_an_error_that_says_why(model: Model) -> None:
    model.otherwise = RejectedError("Not like this.")
    with pytest.raises(CommandError, match="10 calls in a row failed"):
        generate(make_variant(12, name="Brief"), "--cap=1")


@pytest.mark.usefixtures("no_worker")
@pytest.mark.parametrize(
    ("extra", "name", "said"),
    [
        ((), "Brief", "spending cap"),
        (("--cap=much",), "Brief", "amount of dollars"),
        (("--cap=1000",), "Brief", "left of its budget"),
        (("--cap=1",), "Long", "no candidate 'Long'"),
        (("--cap=1",), "9" * 30, "no candidate"),
    ],
)
def test_an_error_is_reported_and_nothing_is_ordered(
    paid_candidate: Candidate, extra: tuple[str, ...], name: str, said: str
) -> None:
    with pytest.raises(CommandError, match=said):
        generate(paid_candidate, *extra, name=name)
    assert not Run.objects.exists()


@pytest.mark.usefixtures("no_worker")
def test_a_run_whose_endpoint_is_busy_with_other_runs_waits_and_says_for_what(
    paid_candidate: Candidate, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = timezone.now() + timedelta(minutes=1)
    others = [make_call(endpoint="paid", state="running", lease_expires_at=lease) for _ in range(8)]
    looks: list[float] = []

    def report_later(run_id: int, now: datetime) -> AnswerReport:
        looks.append(time.monotonic())
        if looks[-1] - looks[0] > 4 * terminal.SILENCE:
            for call in others:
                end(call, "done")
            tasks.make_calls("paid")
        return report_on(run_id, now)

    monkeypatch.setattr(command, "report_on", report_later)
    generate(paid_candidate, "--cap=1")
    assert "8 calls are waiting for paid" in capsys.readouterr().err
    assert paid_candidate.responses.count() == 3


def test_an_arena_that_is_not_there_is_reported() -> None:
    with pytest.raises(CommandError, match="no arena 'nowhere'"):
        call_command("generate", "nowhere", "Brief")


def test_the_sweep_wakes_workers_for_the_endpoint(
    paid_candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    monkeypatch.setattr(tasks.make_calls, "delay", woken.append)
    order(paid_candidate)
    tasks.sweep_calls()
    assert woken == ["paid"] * 3
