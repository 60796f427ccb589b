"""Who may see and do what with judges, their runs, verdicts, calibrations and decisions."""

from django.db.models import Exists, OuterRef, Q, QuerySet

from arena.actors import Actor, TeamPermission
from arena.models import Arena, Rater, Run, Vote
from arena.permissions import can_read_authors, can_read_references, known_arenas, listed_arenas
from judges.models import Calibration, Judge, Judgement, LabelSet, RunJudge
from judges.models.judges import JudgeQuerySet
from judges.services.registry import read_source
from judges.services.runs import runs_of_judges


def can_steer(actor: Actor, arena: Arena | None) -> bool:
    """Whether `actor` may order, pause, resume and cancel judge runs in `arena`.

    They spend the money of the arena's team. Runs without an arena, and those in arenas without a
    team, are the administrators'.
    """
    return actor.may(TeamPermission.JUDGE, arena.team_id if arena else None)


def steered_arenas(actor: Actor) -> QuerySet[Arena]:
    """The arenas in which `actor` may order judge runs, and see what judges are sent."""
    arenas = Arena.objects.listed()
    if actor.is_operator:
        return arenas
    return arenas.filter(team__in=actor.teams_with(TeamPermission.JUDGE))


def listed_label_sets(actor: Actor) -> QuerySet[LabelSet]:
    """Files of the site, those of the actor's teams, and what was made from an arena that is listed
    for `actor`."""
    if actor.is_operator:
        return LabelSet.objects.all()
    of_site = Q(from_arena=False, from_team=False)
    own = Q(team__in=actor.teams_seen())
    return LabelSet.objects.filter(of_site | own | Q(arena__in=listed_arenas(actor)))


def listed_calibrations(actor: Actor) -> QuerySet[Calibration]:
    """Calibrations on labels, or in an arena, that are listed for `actor`."""
    if actor.is_operator:
        return Calibration.objects.all()
    on_labels = Q(label_set__in=listed_label_sets(actor))
    return Calibration.objects.filter(on_labels | Q(arena__in=listed_arenas(actor)))


def listed_judges(actor: Actor) -> JudgeQuerySet:
    """Judges used on labels, or in an arena, that are listed for `actor`.

    A judge used only in private arenas, or on their votes and answers, is not listed for others.
    """
    if actor.is_operator:
        return Judge.objects.all()
    in_label_run = Q(run_judges__run__isnull=False, run_judges__run__arena=None) & (
        Q(run_judges__labels_in=None) | Q(run_judges__labels_in__in=listed_label_sets(actor))
    )
    listed = Q(run_judges__run__arena__in=listed_arenas(actor))
    return Judge.objects.with_epochs(in_label_run | listed)


def usable_judges(actor: Actor, judges: JudgeQuerySet) -> JudgeQuerySet:
    """Those of `judges` that `actor` may ask: the team of a judge's rubric must be one it sees."""
    if actor.is_operator:
        return judges
    is_own = Q(rubric_version__rubric__team__in=actor.teams_seen())
    return judges.filter(Q(rubric_version=None) | is_own)


def can_read_rubric(actor: Actor, judge: Judge) -> bool:
    """Whether `actor` can read a judge's rubric: everyone can, or only the rubric's team."""
    version = judge.rubric_version
    return version is None or actor.may(TeamPermission.READ, version.rubric.team_id)


def listed_runs(actor: Actor) -> QuerySet[Run]:
    """Runs whose figures count for `actor`: on labels, and in arenas, that are listed for it."""
    if actor.is_operator:
        return Run.objects.all()
    hidden = RunJudge.objects.filter(run=OuterRef("pk"), labels_in__isnull=False).exclude(
        labels_in__in=listed_label_sets(actor)
    )
    listed = Q(arena__in=listed_arenas(actor))
    return Run.objects.filter(listed | Q(arena=None) & ~Exists(hidden))


def has_secrets(judgement: Judgement) -> bool:
    """Whether its prompt has a reference answer or a rubric of its own."""
    prompt = judgement.comparison.prompt if judgement.comparison else None
    return prompt is not None and bool(prompt.reference or prompt.rubric)


def can_repeat_secrets(judgement: Judgement) -> bool:
    """Whether the judge was shown a secret, which its reply may repeat.

    Every judge sees a prompt's own rubric; only those that ask for it see its reference.
    """
    if not has_secrets(judgement):
        return False
    prompt = judgement.comparison.prompt if judgement.comparison else None
    if prompt and prompt.rubric:
        return True
    source = read_source(judgement.epoch.judge)
    # If the judge's files have changed since, nobody knows what it was told.
    return source.rubric is None or source.changed or source.rubric.reference == "required"


def can_read_answers(actor: Actor, rater: Rater | None, judgement: Judgement) -> bool:
    """Whether `actor`, who votes as `rater`, can see the answers next to votes and names.

    A judge's text about answers quotes them, so it follows the same rule.
    """
    comparison = judgement.comparison
    if comparison is None:
        return True
    pair = [comparison.left_response_id, comparison.right_response_id]
    own = Vote.objects.revealed().filter(
        rater=rater, comparison__left_response__in=pair, comparison__right_response__in=pair
    )
    voted = rater is not None and any(
        not vote.hides_names for vote in own.select_related("comparison__run")
    )
    return can_read_authors(actor, comparison.arena, comparison.prompt, voted=voted)


def can_read_reply(actor: Actor, rater: Rater | None, judgement: Judgement) -> bool:
    """Whether `actor` can read what the judge wrote about the answers, and rate it."""
    arena = judgement.comparison.arena if judgement.comparison else None
    keeps_secrets = can_read_references(actor, arena) or not can_repeat_secrets(judgement)
    return keeps_secrets and can_read_answers(actor, rater, judgement)


def known_runs(actor: Actor) -> "QuerySet[Run]":
    """Runs on labels, and judge runs of arenas that `actor` may reach by the run's number."""
    arenas = known_arenas(actor)
    return runs_of_judges().filter(Q(arena=None) | Q(arena__in=arenas))
