"""What actors may see and do: every page, list, export, endpoint and statement asks here.

A predicate answers for one row, a function that ends in a plural noun chooses rows. Lists show
what a predicate would allow; where a list is asked in SQL, both stand side by side.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.crypto import constant_time_compare

from arena.actors import ANONYMOUS, Actor, TeamPermission
from arena.models import Arena, Candidate, Prompt, Run, RunRater, Team, Vote
from arena.models.arenas import ArenaQuerySet


def visible_teams(actor: Actor) -> QuerySet[Team]:
    """The teams that `actor` can see: its own, or all for operators."""
    return Team.objects.all() if actor.is_operator else actor.teams_seen()


def visible_arenas(actor: Actor) -> ArenaQuerySet:
    """The arenas that `actor` can see: a private one only for its team and operators."""
    if actor.is_operator:
        return Arena.objects.revealed()
    is_own = Q(team__in=actor.teams_seen())
    return Arena.objects.revealed().filter(~Q(visibility=Arena.Visibility.PRIVATE) | is_own)


# The same of arena `a`, for the statement that finds a comparison to vote on.
IS_VISIBLE = """(
    a.visibility <> 'private' OR %(sees_all)s OR a.team_id = %(team)s OR EXISTS (
        SELECT 1 FROM arena_membership m WHERE m.team_id = a.team_id AND m.user_id = %(user)s)
)"""


def visibility_parameters(actor: Actor) -> dict[str, Any]:
    """The parameters of IS_VISIBLE; a pair has texts, for which a token needs the scope `read`."""
    reads = actor.token is not None and actor.has_scope(TeamPermission.READ)
    return {
        "sees_all": actor.is_operator,
        "team": actor.token.team_id if actor.token and reads else None,
        "user": actor.user.pk if actor.user and not actor.token else None,
    }


def listed_arenas(actor: Actor) -> ArenaQuerySet:
    """The arenas that lists show to `actor`: public ones, and those of the actor's teams."""
    arenas = Arena.objects.listed()
    if actor.is_operator:
        return arenas
    is_own = Q(team__in=actor.teams_seen())
    return arenas.filter(Q(visibility=Arena.Visibility.PUBLIC) | is_own)


def known_arenas(actor: Actor) -> ArenaQuerySet:
    """The arenas in which `actor` can look things up by id, without naming the arena.

    Trying all ids would reveal unlisted arenas, so the arena must be listed for the actor, or one
    of the actor's teams must have a candidate or an experiment in it.
    """
    own = Q(origin__isnull=False, team__in=actor.teams_seen())
    entered = Candidate.objects.filter(arena=OuterRef("pk"), team__in=actor.teams_seen())
    listed = listed_arenas(actor).values("pk")
    return visible_arenas(actor).filter(Q(pk__in=listed) | Exists(entered) | own)


def visible_answer_runs(actor: Actor, arenas: QuerySet[Arena]) -> QuerySet[Run]:
    """The runs of answers that `actor` can see in `arenas`, which are visible to it.

    A team keeps seeing the runs it pays for, even if it no longer sees the arena.
    """
    is_seen = Q(arena__in=arenas) | Q(team__in=actor.teams_seen())
    return Run.objects.of_answers().filter(is_seen)


def known_candidates(reader: "FieldVisibility", rows: QuerySet[Candidate]) -> QuerySet[Candidate]:
    """Those of `rows` whose name `reader` may know."""
    return (
        rows
        if reader.actor.is_operator
        else rows.filter(own_candidates(reader) | Q(disclosed_at__isnull=False))
    )


def readable_candidates(reader: "FieldVisibility") -> QuerySet[Candidate]:
    """The candidates of the arena whose texts `reader` may read, orders that hide names aside."""
    rows = Candidate.objects.revealed().filter(arena=reader.arena)
    if reader.actor.is_operator:
        return rows
    is_own = own_candidates(reader)
    return rows.filter(is_own | Q(disclosed_at__isnull=False) if reader.is_of_arena else is_own)


def own_candidates(reader: "FieldVisibility") -> Q:
    """The candidates of the reader's teams; those without a team are the arena's team's."""
    is_own = Q(team__in=reader.actor.teams_with(TeamPermission.READ))
    return is_own | Q(team=None) if reader.is_of_arena else is_own


def can_visit(reader: "FieldVisibility") -> bool:
    """Whether `reader` may open the arena's workspace: its team may, and guests."""
    if reader.is_of_arena:
        return True
    own_teams = reader.actor.teams_with(TeamPermission.READ)
    if reader.arena.open_to_teams:
        return own_teams.exists()
    return reader.arena.candidates.filter(team__in=own_teams).exists()


def entering_teams(actor: Actor, arena: Arena) -> list[Team | None]:
    """The teams for which `actor` may enter candidates; None means the administrators."""
    teams: list[Team | None] = []
    if actor.may(TeamPermission.SUBMIT, arena.team_id):
        teams = [arena.team]
    if arena.open_to_teams or actor.is_operator:
        others = actor.teams_with(TeamPermission.SUBMIT).order_by("name")
        teams += [team for team in others if team.pk != arena.team_id]
    return teams


def needed_to_change(fields: Iterable[str]) -> TeamPermission:
    """Return the permission to change these fields of an arena: MANAGE, except for criteria alone.

    Judges receive the criteria just as they receive a prompt's rubric, and changing a rubric takes
    SUBMIT. No token has MANAGE, so programs can change no other settings.
    """
    return TeamPermission.SUBMIT if set(fields) == {"criteria"} else TeamPermission.MANAGE


def can_enter(actor: Actor, arena: Arena, team: Team) -> bool:
    """Return whether `actor` can register candidates of `team` in `arena`."""
    return actor.may(TeamPermission.SUBMIT, team) and is_open_to(actor, arena, team.pk)


def is_open_to(actor: Actor, arena: Arena, team_id: int | None) -> bool:
    """Return whether `actor` can register or change that team's candidates in `arena` now.

    Other teams can do so only while the arena is open to them. A candidate without a team belongs
    to the arena's team.
    """
    return team_id in (None, arena.team_id) or arena.open_to_teams or actor.is_operator


def can_read_authors(
    actor: Actor, arena: Arena, prompt: Prompt | None, *, voted: bool = False
) -> bool:
    """Return whether `actor` can read who wrote the answers to `prompt`, next to their texts.

    Anyone who can is not blind when the same answers are on their ballot. So only these can: the
    arena's team; anyone who has `voted` on these two answers; and everyone once the prompt is
    archived, or if answers are open (as they are if nobody can vote) and the prompt is not held
    out. A candidate's own team can read its answers anyway (`can_read_texts`). No team can while an
    order hides names from the actor.
    """
    if voted or prompt is None or prompt.retired_at is not None:
        return True
    if arena.has_open_answers and not prompt.is_held_out(arena):
        return True
    return actor.may(TeamPermission.READ, arena.team_id) and not is_blind(actor, arena)


def readable_votes(actor: Actor, arena: Arena) -> Q:
    """The votes in `arena` on answers whose authors `actor` can read, by `can_read_authors`; the
    actor's own votes aside."""
    if actor.may(TeamPermission.READ, arena.team_id) and not is_blind(actor, arena):
        return Q()
    ended = Q(comparison__prompt=None) | Q(comparison__prompt__retired_at__isnull=False)
    if not arena.has_open_answers:
        return ended
    prompts = arena.prompts.only("arena", "external_id") if arena.held_out else []
    held_out = [prompt.pk for prompt in prompts if prompt.is_held_out(arena)]
    return ended | ~Q(comparison__prompt__in=held_out)


def is_raters_link(arena: Arena, secret: str) -> bool:
    """Whether `secret` is that of the link whose holders vote in a private arena, and no more."""
    return bool(arena.raters_secret) and constant_time_compare(secret, arena.raters_secret)


def is_blind(actor: Actor, arena: Arena) -> bool:
    """Return whether an order in `arena` hides names from `actor`, until its raters have voted."""
    orders = Run.objects.hiding_names().filter(arena=arena)
    named = RunRater.objects.filter(run__in=orders, rater__user=actor.user)
    return actor.user is not None and named.exists()


def can_see_variables(actor: Actor, arena: Arena) -> bool:
    """Return whether `actor` can see the prompts' variables: the arena's team and guests can.

    Guests' candidates are sent prompts with the values filled in, and their answers repeat them.
    """
    if actor.may(TeamPermission.READ, arena.team_id):
        return True
    can_submit = arena.open_to_teams and actor.teams_with(TeamPermission.SUBMIT).exists()
    return can_submit and actor.has_scope(TeamPermission.READ)


def can_read_references(actor: Actor, arena: Arena | None) -> bool:
    """Return whether `actor` can read the prompts' references and rubrics: the arena's team can.

    Without an arena, only operators can.
    """
    return actor.may(TeamPermission.READ, arena.team_id if arena else None)


def can_read_spending(actor: Actor, arena: Arena | None) -> bool:
    """Return whether `actor` can read what judges in `arena` cost: the arena's team can.

    So can a token that may only start judge runs, because the token sets their cap.
    """
    team_id = arena.team_id if arena else None
    return actor.may(TeamPermission.READ, team_id) or actor.may(TeamPermission.JUDGE, team_id)


def can_change(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can revise `candidate` and generate or upload its answers.

    A candidate without a team belongs to the arena's team.
    """
    return actor.may(TeamPermission.SUBMIT, candidate.team_id or candidate.arena.team_id)


def changeable_candidates(
    actor: Actor, arena: Arena, candidates: Iterable[Candidate]
) -> list[Candidate]:
    """Those of an arena's `candidates` that `actor` can change, with one query for each team."""
    may = dict[int | None, bool]()
    found = []
    for candidate in candidates:
        team = candidate.team_id or arena.team_id
        if team not in may:
            may[team] = actor.may(TeamPermission.SUBMIT, team)
        if may[team]:
            found.append(candidate)
    return found


def can_retire(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can archive `candidate`: its own team and the arena's team can."""
    return can_change(actor, candidate) or actor.may(TeamPermission.SUBMIT, candidate.arena.team_id)


def can_delete(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can delete `candidate` while nobody has voted on it: its owners
    can.
    """
    return actor.may(TeamPermission.MANAGE, candidate.team_id or candidate.arena.team_id)


def can_read_money(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can read the cost of the candidate's runs: its team, in any role."""
    return actor.may(TeamPermission.READ, candidate.team_id or candidate.arena.team_id)


def can_read_texts(actor: Actor, candidate: Candidate) -> bool:
    """Return whether `actor` can read the candidate's configuration and all of its answers.

    Its own team can; the arena's team can once the candidate is disclosed. Nobody can while an
    order hides names from them.
    """
    of_team = can_read_money(actor, candidate) or (
        candidate.disclosed_at is not None
        and actor.may(TeamPermission.READ, candidate.arena.team_id)
    )
    return of_team and not is_blind(actor, candidate.arena)


@dataclass
class FieldVisibility:
    """What an actor can see of one arena's candidates and prompts; answers are cached."""

    actor: Actor
    arena: Arena

    @cached_property
    def teams(self) -> set[int]:
        """The ids of the teams that the actor may read."""
        return set(self.actor.teams_with(TeamPermission.READ).values_list("pk", flat=True))

    @property
    def reads(self) -> bool:
        """Whether the actor can read texts; a token without the scope `read` cannot."""
        return self.actor.has_scope(TeamPermission.READ)

    @property
    def is_of_arena(self) -> bool:
        """Whether the actor can see what only the arena's team can see."""
        return self.actor.is_operator or self.arena.team_id in self.teams

    @cached_property
    def sees_variables(self) -> bool:
        return can_see_variables(self.actor, self.arena)

    @cached_property
    def is_blind(self) -> bool:
        return is_blind(self.actor, self.arena)

    def knows(self, candidate: Candidate) -> bool:
        """Whether the actor can see the candidate's name and configuration, as everybody can after
        disclosure.
        """
        return candidate.disclosed_at is not None or self.is_of_team(candidate)

    def name_of(self, candidate: Candidate) -> str:
        """The candidate's name as the actor can see it."""
        return candidate.own_name if self.knows(candidate) else str(candidate)

    def reads_authors(self, prompt: Prompt | None, vote: Vote | None = None) -> bool:
        """Whether the actor can read who wrote which answer; `vote` is on them."""
        if self.is_of_arena and not self.is_blind:
            return True
        user = self.actor.user
        is_own = user is not None and vote is not None and vote.rater.user_id == user.pk
        voted = is_own and vote is not None and not vote.names_withheld
        return can_read_authors(ANONYMOUS, self.arena, prompt, voted=voted)

    def reads_answer(self, candidate: Candidate, prompt: Prompt | None, vote: Vote) -> bool:
        """Whether the actor can read the candidate's answer, beside its name and `vote`."""
        of_team = self.is_of_team(candidate) and not self.is_blind
        return self.knows(candidate) and (of_team or self.reads_authors(prompt, vote))

    def is_of_team(self, candidate: Candidate) -> bool:
        """Whether the candidate belongs to a team of the actor's."""
        team_id = candidate.team_id or self.arena.team_id
        return self.actor.is_operator or team_id in self.teams
