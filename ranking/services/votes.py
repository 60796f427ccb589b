"""The votes of an arena, read as columns in one statement, and the small tables beside them."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import Case, F, Q, Value, When
from django.db.models.functions import Coalesce

from arena.models import Arena, ArenaTrust, Candidate, Prompt, Rater, Response, Review, Vote
from arena.models.imports import REVEALED
from arena.models.votes import OF_NETWORKS, VoteQuerySet
from arena.outcomes import OUTCOMES, Uncounted
from ranking.anchor import Anchor
from ranking.findings import FEATURES
from ranking.models import Board, ResponseStyle
from ranking.question import GroupUnderReview, Question
from ranking.votes import HUMAN, KIND_OF, KINDS, NO_STYLES, Ints, VoteTable

REASONS = tuple(reason.value for reason in Uncounted)
AT_ONCE = 50_000  # rows kept as Python's numbers at once
ALWAYS, NEVER = Value(0), Value(False)


def cast_by(raters: str) -> Q:
    """A filter for the votes of a board's raters; trust is not part of it."""
    votes = Q(rater__kind=KINDS[KIND_OF[raters]])
    return votes & Q(verified=True) if raters == "verified" else votes


def question_of(board: Board, arena: Arena, reviews: Iterable[Review] = ()) -> Question:
    """What a board asks of its arena's votes; `reviews`: the open ones, where it names a leader."""
    question = Question(
        board.raters,
        board.category,
        board.both_bad,
        board.n_resamples,
        board.seed,
        anchor=Anchor(arena.anchor_id, float(arena.anchor_score)) if arena.anchor_id else None,
    )
    if question.scored not in HUMAN:
        return replace(question, rater_share=1.0)
    return replace(
        question,
        is_open=not arena.is_of_members,
        reviews=tuple(
            GroupUnderReview(review.candidate_id, review.loses, tuple(review.suspects))
            for review in reviews
            if board.raters != "verified" or review.has_verified
        ),
        rater_share=arena.rater_cap / 100,
        network_share=arena.network_share / 100,
        keeps_named=arena.self_identifying == Arena.SelfIdentifying.KEEP,
    )


def read(arena: Arena, among: Collection[int] | None = None) -> VoteTable:
    """Read what the leaderboards of an arena need.

    Votes on a pair whose names an order still hides wait until it ends. `among`: only the votes
    between these candidates, without the style of their answers, for claims about them.
    """
    shown = Candidate.objects.revealed().filter(arena=arena)
    named_by = ("name", "version", "disclosed_at", "retired_at", "merged_into")
    candidates = list(shown.only(*named_by))
    aliases = {row.pk: row.merged_into_id for row in candidates if row.merged_into_id}
    reason = [When(uncounted=name, then=number) for number, name in enumerate(REASONS, start=1)]
    if settings.VOTE_LOG:
        # What the log says changes only under the lease of a refresh, so the votes are those of its
        # head, whatever is voided or cast meanwhile.
        counts = Q(logged=True)
        votes = Vote.objects.filter(counts | REVEALED & Q(voided_at=None, uncounted__isnull=False))
    else:
        counts, votes = Q(uncounted=None), Vote.objects.revealed().listed()
    named: Any = NEVER
    if arena.self_identifying == Arena.SelfIdentifying.KEEP:
        own = Response.objects.filter(candidate__arena=arena, names_itself=True).values("pk")
        sides = Q(comparison__left_response__in=own) | Q(comparison__right_response__in=own)
        named = Case(When(sides, comparison__names_itself=True, then=True), default=False)
    votes = votes.filter(arena=arena)
    if among is not None:
        ids = {*among, *(pk for pk, target in aliases.items() if target in among)}
        votes = votes.filter(comparison__left__in=ids, comparison__right__in=ids)
    columns = _read_columns(votes, Case(When(counts, then=0), *reason), named)
    prompts = Prompt.objects.filter(arena=arena).exclude(category="", document="")
    about = list(prompts.values_list("pk", "category", "document"))
    judges = Rater.objects.exclude(kind=Rater.Kind.PERSON).filter(Q(arena=None) | Q(arena=arena))
    measured = dict(ArenaTrust.objects.filter(arena=arena).values_list("rater", "trusted"))
    answers, features = _read_styles(arena) if among is None else (NO_STYLES, NO_STYLES)
    # Not by a join: with old statistics, PostgreSQL would look through all raters for each vote.
    for number, kind in enumerate(KINDS):
        of_kind = [judge.pk for judge in judges if judge.kind == kind]
        columns["kind"][np.isin(columns["rater"], of_kind)] = number
    table = VoteTable(
        **columns,
        names={candidate.pk: str(candidate) for candidate in candidates},
        archived=frozenset(row.pk for row in candidates if row.retired_at is not None),
        categories={pk: category for pk, category, _ in about if category},
        documents={pk: document for pk, _, document in about if document},
        trusted=frozenset(
            judge.pk for judge in judges if measured.get(judge.pk, judge.trusted_at is not None)
        ),
        raters={judge.pk: str(judge) for judge in judges},
        reasons=REASONS,
        answers=answers,
        features=features,
    )
    return table.merge(aliases)


def read_only(arena: Arena, votes: VoteQuerySet) -> VoteTable:
    """Read these votes of an arena and nothing beside them; all of them count, as if people had
    cast them, but those between candidates that were merged are left out."""
    aliases = dict(arena.candidates.merged().values_list("pk", "merged_into"))
    return VoteTable(**_read_columns(votes)).merge(aliases).counted


def _read_columns(
    votes: VoteQuerySet, uncounted: Any = ALWAYS, named: Any = NEVER
) -> dict[str, Any]:
    """The columns of a `VoteTable`, by one statement, in the order of the ids."""
    columns = {
        "left": F("comparison__left"),
        "right": F("comparison__right"),
        "prompt": Coalesce("comparison__prompt", Value(0)),
        "rater": F("rater"),
        "outcome": Case(*(When(outcome=name, then=n) for n, name in enumerate(OUTCOMES))),
        "preference": F("preference"),
        "verified": F("verified"),
        "network": Case(When(OF_NETWORKS, then=F("network")), default=Value("")),
        "uncounted": uncounted,
        "named": named,
    }
    selected = {f"{name}_": value for name, value in columns.items()}
    rows = votes.annotate(**selected).order_by("pk").values_list("pk", *selected)
    names, networks = ("pk", *columns), {"": 0}
    kinds = {"preference": np.float64, "verified": np.bool_, "named": np.bool_}
    chunks: list[list[Any]] = [[] for _ in names]
    read = rows.iterator(chunk_size=AT_ONCE)
    while chunk := list(islice(read, AT_ONCE)):
        for name, values, parts in zip(names, zip(*chunk, strict=True), chunks, strict=True):
            numbers: Any = values
            if name == "network":
                numbers = [networks.setdefault(text, len(networks)) for text in values]
            parts.append(np.array(numbers, kinds.get(name, np.int64)))  # None becomes NaN
    table = {
        name: np.concatenate([np.zeros(0, kinds.get(name, np.int64)), *parts])
        for name, parts in zip(names, chunks, strict=True)
    }
    return table | {"kind": np.zeros(len(table["pk"]), np.int64)}


def _read_styles(arena: Arena) -> tuple[Ints, Ints]:
    """(A, 2) prompt and candidate of each counted answer, in order; (A, F) its counts."""
    rows = ResponseStyle.objects.filter(response__prompt__arena=arena).order_by(
        "response__prompt", "response__candidate"
    )
    columns = rows.values_list("response__prompt", "response__candidate", *FEATURES)
    table = np.array(list(columns.iterator(chunk_size=10_000)), np.int64)
    table = table.reshape(-1, 2 + len(FEATURES))
    return table[:, :2], table[:, 2:]
