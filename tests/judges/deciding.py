"""A team with an arena where its candidates have votes."""

import random
from itertools import combinations
from math import exp
from typing import Any

from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from arena.models import Arena, Candidate, Membership, Role, Team
from tests.factories import make_arena, make_person, make_vote


def make_team(name: str = "Help centre", slug: str = "help") -> Team:
    return Team.objects.create(name=name, slug=slug)


def join(team: Team, role: str = Role.MEMBER, name: str = "", **fields: Any) -> Client:
    """A browser of somebody new who is in the team."""
    user = get_user_model().objects.create_user(name or f"{role}-of-{team.slug}", **fields)
    Membership.objects.create(team=team, user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


def team_arena(team: Team, strengths: tuple[float, ...] = (0.0, 0.0), **fields: Any) -> Arena:
    """An arena of the team with so many of its candidates, and 50 prompts."""
    arena = make_arena(len(strengths), 50, team=team, **fields)
    arena.candidates.update(team=team)
    vote(arena, strengths)
    return arena


def vote(arena: Arena, strengths: tuple[float, ...], each: int = 100, seed: int = 4) -> None:
    """Let every two candidates meet `each` times, and win as their strengths have it."""
    rng, person = random.Random(seed), make_person()
    prompts = list(arena.prompts.order_by("pk"))
    candidates = list(arena.candidates.order_by("pk"))[: len(strengths)]
    for (i, a), (j, b) in combinations(enumerate(candidates), 2):
        share = 1 / (1 + exp(strengths[j] - strengths[i]))
        for _ in range(each):
            won = "left" if rng.random() < share else "right"
            make_vote(arena, a, b, won, rng.choice(prompts), person)


def candidates_of(arena: Arena) -> list[Candidate]:
    return list(arena.candidates.order_by("pk"))


def decision_url(team: Team, arena: Arena, **query: Any) -> str:
    return reverse("decision", args=[team.slug, arena.slug], query=query or None)
