"""Builders for the tests of judges: runs, labels, calibration items, teams with votes, pages."""

import io
import json
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations
from math import exp
from pathlib import Path
from threading import Event, Thread
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from hypothesis import strategies as st

from arena.actors import ANONYMOUS, CLI, Actor
from arena.calls.execution import execute_call
from arena.calls.models import Call
from arena.endpoints import Endpoint, ModelPrice
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    Import,
    Membership,
    Rater,
    Role,
    Run,
    Team,
    Vote,
)
from arena.services.runs import order_run
from judges.core.calibration.items import PAIR_STATES, SCORE_STATES, PairItem, ScoreItem
from judges.core.rubric import read_files
from judges.models import (
    Calibration,
    DriftCheck,
    Epoch,
    Label,
    LabelItem,
    LabelSet,
    RubricVersion,
    RunJudge,
)
from judges.services.calibration import measure_labels
from judges.services.calls import JudgeCallHandler, _epoch_of
from judges.services.drift import run_drift_checks
from judges.services.honeypots import measure_honeypots
from judges.services.label_files import read_labels
from judges.services.label_runs import find_outstanding, order_label_run, order_outstanding
from judges.services.labels import add_labels
from judges.services.orders import prepare_order
from judges.services.planning import OrderOptions, Which
from judges.services.registry import DEFAULT_SWITCHES, Switches, register_judge, spec_named
from judges.services.rubrics import write_rubric
from judges.services.runs import one_order_at_a_time
from judges.services.settlement import settle_ready
from tests.factories import make_arena, make_person, make_votes
from tests.judges.fake_server import Answer, completion
from tests.ranking.helpers import publish
from tests.rows import written_once

LOCAL = "local:judge-7b-2024-07-01"


def judge_call(*, call_id: int) -> Call | None:
    """Make one call of a judge as a worker does."""
    return execute_call(call_id=call_id, handler=JudgeCallHandler())


def order(
    arena: Arena,
    *judges: str,
    per_pair: int = 2,
    cap: int | None = None,
    switches: Switches = DEFAULT_SWITCHES,
    pairs: Which = "all",
    like_run: Run | None = None,
    by: Actor = ANONYMOUS,
    **fields: Any,
) -> Run:
    """Order a run of these judges; several are a jury."""
    specs = [spec_named(name, switches, by) for name in judges or (LOCAL,)]
    wanted = OrderOptions(per_pair, pairs, like_run=like_run)
    prepared = prepare_order(arena=arena, specs=specs, options=wanted, **fields)
    return order_run(order=prepared, cap=cap, now=timezone.now())


def work_off(run: Run, rounds: int = 20) -> Run:
    """Make every call of a run, and retries as if they were due."""
    _epoch_of.cache_clear()  # another test's database had an epoch of the same requester
    for _ in range(rounds):
        calls = Call.objects.filter(run=run).in_progress()
        for call_id in calls.order_by("pk").values_list("pk", flat=True):
            judge_call(call_id=call_id)
        if not calls.exists():
            break
        Call.objects.filter(run=run, state="waiting").update(due_at=timezone.now())
    settle_ready(now=timezone.now())
    run.refresh_from_db()
    return run


def check_drift(now: datetime) -> DriftCheck:
    """Begin the drift check that is due, make its calls, and evaluate it with the next beat."""
    run_drift_checks(now=now)
    check = DriftCheck.objects.order_by("pk").last()
    assert check is not None
    work_off(check.run)
    run_drift_checks(now=now)
    check.refresh_from_db()
    return check


def drift_reasons() -> list[str]:
    """Why each drift check was made."""
    return list(DriftCheck.objects.order_by("pk").values_list("why", flat=True))


def add_endpoint(settings: Any, name: str, **fields: Any) -> None:
    """Add a model server to the operator's settings; nothing responds at its address."""
    endpoint = Endpoint(name, "openai", **{"base_url": "http://127.0.0.1:9/v1"} | fields)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {name: endpoint}


def price_local(settings: Any, price: int) -> None:
    """Set the price of a million tokens of the local judge, in nano-dollars."""
    prices = {LOCAL.removeprefix("local:"): ModelPrice(price, price)}
    priced = replace(settings.MODEL_ENDPOINTS["local"], prices=prices)
    settings.MODEL_ENDPOINTS = settings.MODEL_ENDPOINTS | {"local": priced}


def run_command(*arguments: Any) -> str:
    """The output of a management command."""
    out = io.StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=out)
    return out.getvalue()


def expire_leases(run: Run) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Call.objects.filter(run=run, state="running").update(lease_expires_at=past, enqueue_after=past)


@contextmanager
def order_lock_held(arena: Arena) -> Iterator[None]:
    """Like another process to the lock."""
    held, done = Event(), Event()

    def hold() -> None:
        with one_order_at_a_time(arena=arena):
            held.set()
            done.wait(120)
        connection.close()

    thread = Thread(target=hold)
    thread.start()
    try:
        assert held.wait(120)
        yield
    finally:
        done.set()
        thread.join()


GOOD, POOR = "Because the Earth turns (GOOD)", "Because"
ANSWERS = ("Yes.", "A much longer answer than that one, with reasons.")


def pair_row(number: int, label: str = "", **fields: Any) -> dict[str, Any]:
    """A labelled pair; the good answer is the first one in every second item.

    Either answer is the longer one as often as not, whichever side it is on.
    """
    left = number % 2 == 0
    good, poor = f"{GOOD} {number}", f"{POOR} {number}" + ", in my view" * 5 * (number // 2 % 2)
    first, second = (good, poor) if left else (poor, good)
    row = {"prompt": f"Question {number}?", "response_1": first, "response_2": second}
    return row | {"label": label or ("1" if left else "2")} | fields


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_labels(folder: Path, rows: Sequence[dict[str, Any]], name: str = "labels.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def store_labels(folder: Path, rows: Sequence[dict[str, Any]]) -> LabelSet:
    return add_labels(file=read_labels(write_labels(folder, rows)), name="labels")


def epoch_of(judge: str = LOCAL) -> Epoch:
    return register_judge(spec=spec_named(judge))


def ask_about(
    epoch: Epoch, labels_in: LabelSet, samples: Sequence[int] = (0,), cap: int | None = None
) -> list[Run]:
    """Ask a judge about a set, and make the calls."""
    items = list(labels_in.items.order_by("pk"))
    found = find_outstanding(
        spec=spec_named(epoch.judge.name), epoch=epoch, items=items, samples=samples
    )
    now = timezone.now()
    runs = order_outstanding(epoch=epoch, outstanding=found, samples=samples, cap=cap, now=now)
    return [work_off(run) for run in runs]


def answer_verdicts(answer: Answer) -> Answer:
    """Answers requests for a verdict, and probes of the model with a plain word."""
    return lambda body: answer(body) if is_verdict_request(body) else completion("Hello.")


def is_verdict_request(body: dict[str, Any]) -> bool:
    return "VERDICT-" in body["messages"][0]["content"]


def register_used_judge(name: str = "scripted", **switches: Any) -> Epoch:
    return with_run(register_judge(spec=spec_named(name, Switches(**switches))))


def with_run(epoch: Epoch) -> Epoch:
    """Used on labelled items, so that every reader may know about it."""
    RunJudge.objects.create(run=Run.objects.create(kind=Run.Kind.JUDGE), epoch=epoch)
    return epoch


def make_labels(kind: str = "pairs", n: int = 12) -> LabelSet:
    made = LabelSet.objects.create(name=f"{kind} <b>of</b> ours", kind=kind, digest=kind)
    for number in range(n):
        second = {} if kind == "scores" else {"response_2": f"{ANSWERS[1]} {number}"}
        item = LabelItem.objects.create(
            labels_in=made,
            key=str(number),
            prompt=f"Why {number}?",
            response_1=f"{ANSWERS[0]} {number}",
            category=f"<i>kind</i> {number % 2}",
            **second,
        )
        for person in ("ann", "bob"):
            said = {"score": float(number % 4 + 1)}
            if kind == "pairs":
                said = {"outcome": "left" if number % 3 else "tie"}
            Label.objects.create(item=item, rater=person, **said)
    return made


def ask_and_measure(epoch: Epoch, label_set: LabelSet) -> Calibration:
    items, now = list(label_set.items.order_by("pk")), timezone.now()
    work_off(order_label_run(epoch=epoch, items=items, cap=None, now=now))
    measure = measure_honeypots if label_set.kind == "honeypots" else measure_labels
    return measure(epoch=epoch, labels_in=label_set, now=now)


def vote_on(comparison: Comparison, rater: Rater, outcome: str) -> None:
    Vote.objects.create(
        arena=comparison.arena, comparison=comparison, rater=rater, outcome=outcome, logged=False
    )


def issue_pair(arena: Any, rater: Rater, number: int, *, turned: bool = False) -> Comparison:
    """One pair of the arena's responses to a prompt, as this rater sees it."""
    prompt = arena.prompts.order_by("pk")[number]
    responses = list(prompt.responses.order_by("pk"))[:2]
    left, right = responses[::-1] if turned else responses
    return Comparison.objects.create(
        arena=arena,
        rater=rater,
        prompt=prompt,
        left=left.candidate,
        right=right.candidate,
        left_response=left,
        right_response=right,
    )


OUTCOMES = ["left", "right", "tie"]


def pair_item(key: Any, labels: str = "l", verdict: str | None = "left", **facts: Any) -> PairItem:
    """An item whose labels are letters: l, r, t(ie) and b(oth bad), one per person."""
    spelt = {"l": "left", "r": "right", "t": "tie", "b": "both_bad"}
    told = tuple((f"person-{i}", spelt[letter]) for i, letter in enumerate(labels))
    plain = {
        "cluster": str(key),
        "category": "all",
        "state": "voted" if verdict else "abstained",
        "forward": verdict,
        "reverse": verdict,
        "length_left": 20,
        "length_right": 10,
    }
    return PairItem(key=str(key), labels=told, verdict=verdict, **plain | facts)


def score_item(key: Any, labels: Any, given: float | None, **facts: Any) -> ScoreItem:
    """A response with a score per person."""
    told = tuple((f"person-{i}", float(value)) for i, value in enumerate(labels))
    plain = {
        "cluster": str(key),
        "category": "all",
        "state": "refused" if given is None else "done",
        "length": 100,
    }
    return ScoreItem(key=str(key), labels=told, score=given, **plain | facts)


@st.composite
def pair_items(draw: Any, max_size: int = 25) -> list[PairItem]:
    reading = st.sampled_from([*OUTCOMES, None])
    items = []
    for key in range(draw(st.integers(0, max_size))):
        verdict = draw(reading)
        items.append(
            pair_item(
                key,
                draw(st.text("lrtb", max_size=4)),
                verdict,
                cluster=draw(st.sampled_from("abcdefg")),
                category=draw(st.sampled_from(["code", "essay"])),
                state="voted" if verdict else draw(st.sampled_from(PAIR_STATES[1:])),
                forward=draw(reading),
                reverse=draw(reading),
                length_left=draw(st.integers(0, 3)),
                length_right=draw(st.integers(0, 3)),
                repeats=tuple(draw(st.lists(reading, max_size=2))),
                own_family=draw(st.sampled_from([None, "left", "right"])),
            )
        )
    return items


@st.composite
def score_items(draw: Any, max_size: int = 25) -> list[ScoreItem]:
    value = st.integers(1, 5).map(float)
    items = []
    for key in range(draw(st.integers(0, max_size))):
        given = draw(st.none() | value)
        items.append(
            score_item(
                key,
                draw(st.lists(value, max_size=3)),
                given,
                cluster=draw(st.sampled_from("abcdefg")),
                state="done" if given is not None else draw(st.sampled_from(SCORE_STATES[1:])),
                length=draw(st.integers(0, 5)),
                repeats=tuple(draw(st.lists(st.none() | value, max_size=2))),
            )
        )
    return items


def make_team(name: str = "Help centre", slug: str = "help") -> Team:
    return Team.objects.create(name=name, slug=slug)


def make_member(team: Team, role: str = Role.MEMBER, name: str = "", **fields: Any) -> Any:
    user = get_user_model().objects.create_user(name or f"{role}-of-{team.slug}", **fields)
    Membership.objects.create(team=team, user=user, role=role)
    return user


def join(team: Team, role: str = Role.MEMBER, name: str = "", **fields: Any) -> Client:
    """The browser of a new member of the team."""
    return browser_of(make_member(team, role, name, **fields))


def team_arena(
    team: Team,
    strengths: tuple[float, ...] = (0.0, 0.0),
    *,
    has_categories: bool = False,
    **fields: Any,
) -> Arena:
    """An arena of the team with some of its candidates, and 50 prompts."""
    arena = make_arena(len(strengths), 50, team=team, **fields)
    if not has_categories:  # each would have leaderboards of its own, to be made every time
        arena.prompts.update(category="")
    arena.candidates.update(team=team)
    vote_by_strength(arena, strengths)
    return arena


def published_arena(team: Team, strengths: tuple[float, ...], **fields: Any) -> Arena:
    """The same, with its boards published."""

    def write() -> Arena:
        arena = team_arena(team, strengths, **fields)
        publish(arena)
        return arena

    return written_once(f"published arena {strengths} {fields}", write)


def vote_by_strength(
    arena: Arena, strengths: tuple[float, ...], each: int = 100, seed: int = 4
) -> None:
    """Let every two candidates meet `each` times, and win as their strengths have it."""
    rng, person = random.Random(seed), make_person()
    prompts = list(arena.prompts.order_by("pk"))
    candidates = list(arena.candidates.order_by("pk"))[: len(strengths)]
    rows = []
    for (i, a), (j, b) in combinations(enumerate(candidates), 2):
        share = 1 / (1 + exp(strengths[j] - strengths[i]))
        for _ in range(each):
            won = "left" if rng.random() < share else "right"
            rows.append((a, b, won, rng.choice(prompts)))
    make_votes(arena, rows, person)


def candidates_of(arena: Arena) -> list[Candidate]:
    return list(arena.candidates.order_by("pk"))


def decision_url(team: Team, arena: Arena, **query: Any) -> str:
    return reverse("decision", args=[team.slug, arena.slug], query=query or None)


QUOTE = {
    "scripted": ["scripted:scripted-1"],
    "rubric": "pairwise",
    "pairs": "all",
    "per_pair": "2",
    "order_policy": "abstain",
}


def run_url(run: Run, **query: Any) -> str:
    return reverse("judge_run", args=[run.arena.slug, run.pk], query=query or None)


def verdict_url(run: Run, judgement: int, **query: Any) -> str:
    path = [run.arena.slug, run.pk, judgement]
    return reverse("judge_verdict", args=path, query=query or None)


def signed_in(name: str, *, staff: bool = False) -> Client:
    return browser_of(get_user_model().objects.create_user(name, is_staff=staff))


def browser_of(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page_text(client: Client, url: str, **kwargs: Any) -> str:
    """A page with each run of white space as one space, because templates' layout does not
    matter."""
    answer = client.get(url, **kwargs)
    assert answer.status_code == 200, answer.status_code
    return " ".join(answer.content.decode().split())


def steer(client: Client, run: Run, action: str, **fields: Any) -> Any:
    """Press a button of the run's page."""
    return client.post(reverse("steer_run", args=[run.pk]), {"action": action} | fields)


def hide_arena(arena: Arena) -> None:
    arena.founded_by = Import.objects.create(
        arena=arena, file_name="f", sha256="0", format="native", started_at=arena.created_at
    )
    arena.save()


def order_url(arena: Arena, **query: Any) -> str:
    return reverse("order_run", args=[arena.slug], query=query or None)


def post_order(client: Client, arena: Arena, **fields: Any) -> Any:
    return client.post(order_url(arena), QUOTE | fields)


def quote_page(client: Client, arena: Arena, **fields: Any) -> str:
    answer = post_order(client, arena, do="quote", **fields)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def quote_mark(html: str) -> str:
    return re.search(r'name="quoted" value="([0-9a-f]+)"', html).group(1)


def order_on_page(client: Client, arena: Arena, **fields: Any) -> Any:
    mark = quote_mark(quote_page(client, arena, **fields))
    return post_order(client, arena, do="order", quoted=mark, **fields)


def rubric_files(slug: str = "pairwise") -> dict[str, str]:
    """The files of one of the server's rubrics."""
    return {name: content.decode() for name, content in read_files(slug).items()}


def stricter_files(sentence: str = "Be strict.") -> dict[str, str]:
    texts = rubric_files()
    return texts | {"system.md": f"{texts['system.md']}\n{sentence}\n"}


def write_version(
    team: Team, slug: str = "support", texts: dict[str, str] | None = None, **fields: Any
) -> RubricVersion:
    """A version of a team's rubric, by default the first one, as the server has it."""
    wanted: dict[str, Any] = {"by": CLI, "after": 0} | fields
    return write_rubric(team=team, slug=slug, texts=texts or rubric_files(), **wanted)
