"""The rows that tests begin with, created by services where there are any."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from django.contrib.auth import get_user_model
from django.core import signing
from django.db.models import TextField, Value
from django.db.models.functions import Cast, Concat
from django.test import Client
from django.utils import timezone

from arena.actors import CLI, Actor
from arena.calls.models import Call
from arena.models import (
    Arena,
    Candidate,
    Comparison,
    Membership,
    Prompt,
    Rater,
    Response,
    Role,
    Run,
    Team,
    Vote,
)
from arena.services import teams
from arena.services.arenas import create_arena
from arena.services.pairs import sync_pairs
from arena.services.voting import void_votes

DOLLAR = 10**9
MODEL = "m-1"
NOW = timezone.now()
PASSWORD = "s3cret-words"
SCRIPTED = {"endpoint": "scripted", "model": "scripted-1"}
_numbers = count(1)


def make_user(name: str = "", **fields: Any) -> Any:
    """A person with an account, an address and a password."""
    name = name or f"person{next(_numbers)}"
    return get_user_model().objects.create_user(name, f"{name}@example.org", PASSWORD, **fields)


def make_team(owner: Any = None, name: str = "", **fields: Any) -> Team:
    """A team whose owner is `owner`, or a new person."""
    by = Actor(user=owner or make_user())
    team = teams.create_team(name=name or f"Team {next(_numbers)}", by=by)
    for field, value in fields.items():
        setattr(team, field, value)
    team.save(update_fields=fields)
    return team


def make_empty_team(**fields: Any) -> Team:
    """A team that nobody is in yet."""
    number = next(_numbers)
    return Team.objects.create(**{"slug": f"team-{number}", "name": f"Team {number}"} | fields)


def make_paying_team(budget: int = 100 * DOLLAR, **fields: Any) -> Team:
    """A team without members, with money to spend."""
    return make_empty_team(budget=budget, **fields)


def make_member(team: Team, role: str = Role.MEMBER, user: Any = None, **fields: Any) -> Membership:
    """The membership of `user`, or of a new person."""
    return Membership.objects.create(team=team, user=user or make_user(), role=role, **fields)


def make_arena(n_candidates: int = 3, n_prompts: int = 4, **fields: Any) -> Arena:
    """An arena in which every candidate answers every prompt, and everybody may read all answers.

    Where the answers are blind, as they are by default, is tested in `tests.security`.
    """
    number = next(_numbers)
    values = {"slug": f"arena-{number}", "name": f"Arena {number}"}
    arena = create_arena(
        **values | {"open_answers": True, "held_out": 0, "counts_tokens": True} | fields
    )
    candidates = Candidate.objects.bulk_create(
        Candidate(arena=arena, name=f"candidate-{i}") for i in range(n_candidates)
    )
    prompts = Prompt.objects.bulk_create(
        Prompt(
            arena=arena, external_id=f"p{i}", text=f"Question {i}?", category=f"category-{i % 2}"
        )
        for i in range(n_prompts)
    )
    Response.objects.bulk_create(
        Response(candidate=c, prompt=prompt, text=f"Answer {i}-{j} of somebody.")
        for i, prompt in enumerate(prompts)
        for j, c in enumerate(candidates)
    )
    sync_pairs(arena=arena)
    return arena


def rewrite_answers(text: str) -> None:
    """Let every answer be `text` and a number of its own, because equal ones are not compared."""
    Response.objects.update(text=Concat(Value(text), Cast("pk", TextField())))


def make_candidate(arena: Arena, name: str = "", **fields: Any) -> Candidate:
    """A candidate without answers, the operator's unless a team is given."""
    name = name or f"candidate-{next(_numbers)}"
    return Candidate.objects.create(arena=arena, name=name, **fields)


def make_variant(n_prompts: int = 3, team: Team | None = None, **fields: Any) -> Candidate:
    """A prompt variant without answers, in its own arena with `n_prompts` prompts."""
    arena = fields.pop("arena", None) or make_arena(0, n_prompts, team=team)
    values = {
        "name": f"variant-{Candidate.objects.count()}",
        "endpoint": "paid",
        "model": MODEL,
        "system_prompt": "Be brief.",
        "user_template": "Q: {{ prompt }}",
        "team": team,
    }
    return make_candidate(arena, **values | fields)


def make_person(**fields: Any) -> Rater:
    """An anonymous rater."""
    return Rater.objects.create(kind=Rater.Kind.PERSON, **fields)


def known(client: Client) -> Client:
    """The same browser, with the cookie of a rater: whoever only looks gets a preview."""
    if "rater" not in client.cookies and "sessionid" not in client.cookies:
        signer = signing.get_cookie_signer(salt="rater")
        client.cookies["rater"] = signer.sign(f"{make_person().pk}-")
    return client


def make_vote(
    arena: Arena,
    left: Candidate,
    right: Candidate,
    outcome: str,
    prompt: Prompt | None = None,
    rater: Rater | None = None,
    **fields: Any,
) -> Vote:
    """A vote with its own comparison, as an import would create it."""
    (vote,) = make_votes(arena, [(left, right, outcome, prompt)], rater, **fields)
    return vote


def make_votes(
    arena: Arena,
    rows: Iterable[tuple[Candidate, Candidate, str, Prompt | None]],
    rater: Rater | None = None,
    **fields: Any,
) -> list[Vote]:
    """Votes of one rater, by left and right candidate, outcome and prompt."""
    rater, rows = rater or make_person(), list(rows)
    comparisons = Comparison.objects.bulk_create(
        Comparison(arena=arena, rater=rater, prompt=prompt, left=left, right=right)
        for left, right, _, prompt in rows
    )
    values = {"cast_at": timezone.now()} | fields
    return Vote.objects.bulk_create(
        Vote(arena=arena, comparison=comparison, rater=rater, outcome=outcome, **values)
        for comparison, (_, _, outcome, _) in zip(comparisons, rows, strict=True)
    )


def make_run(state: str = "open", slug: str = "", **fields: Any) -> Run:
    """A judge run in its own arena, without calls."""
    arena = Arena.objects.create(slug=slug or f"a-{Run.objects.count()}", name="A")
    return Run.objects.create(arena=arena, kind="judge", per_pair=1, state=state, **fields)


def make_call(run: Run | None = None, **fields: Any) -> Call:
    """A call as it is stored before any request."""
    values = {
        "run": run or make_run(),
        "requester": "judge",
        "subject": f"{Call.objects.count()},0",
        "endpoint": "scripted",
        "model": MODEL,
        "due_at": NOW,
        "enqueue_after": NOW,
    }
    return Call.objects.create(**values | fields)


def void_vote(vote: Vote, by: Actor = CLI, reason: str = "a test") -> int:
    """Void one vote; 0 if it was void before."""
    votes = Vote.objects.filter(pk=vote.pk)
    return void_votes(votes=votes, by=by, reason=reason, now=timezone.now())
