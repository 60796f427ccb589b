"""Starting to work with Ringside: a team, its arena and what belongs into it, in one step."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction

from arena.actors import Actor
from arena.files.rows import PromptRow
from arena.models import Arena, Candidate, Team
from arena.services.arenas import ArenaError, create_team_arena
from arena.services.candidates import register_variants
from arena.services.prompts import upsert_prompts
from arena.services.teams import create_team


@transaction.atomic
def start_arena(
    *,
    team: Team | None,
    team_name: str = "",
    by: Actor,
    now: datetime,
    prompts: Sequence[PromptRow] = (),
    variants: Sequence[Mapping[str, Any]] = (),
    cap: int | None = None,
    **fields: Any,
) -> tuple[Arena, list[Candidate]]:
    """Create an arena with its prompts and candidates, and without a `team` that too, or nothing.

    `variants`, `cap` and further errors are those of `register_variants`. Raises TeamError and
    ArenaError, also for a name that the team has used: a double click must not pay twice.
    """
    if team is None:
        team = create_team(name=team_name, by=by)
    else:
        Team.objects.select_for_update(no_key=True).get(pk=team.pk)
        check_arena_name_is_free(team, fields["name"])
    arena = create_team_arena(team=team, by=by, **fields)
    if prompts:
        report = upsert_prompts(arena=arena, rows=prompts, by=by, atomic=True)
        if report.problems:
            problem = report.problems[0]
            raise ArenaError(f"Prompt {problem.row}: {problem.sentence}", field="questions")
    made = register_variants(arena=arena, team=team, by=by, now=now, variants=variants, cap=cap)
    return arena, made


def check_arena_name_is_free(team: Team, name: str) -> None:
    if team.arenas.filter(name__iexact=name.strip()).exists():
        raise ArenaError(
            f"{team} already has an arena with this name. Open it, or choose another name.",
            field="name",
        )
