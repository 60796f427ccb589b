"""Everything done for a team is in its audit log: each action is done here, and found there.

Operators' actions use the admin or a command, all others their services.
"""

from collections.abc import Callable
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from arena.actors import CLI, Actor
from arena.files.rows import PromptRow, ResponseRow
from arena.models import (
    AnswerCheck,
    Arena,
    AuditEntry,
    Candidate,
    Hold,
    Rater,
    Review,
    Role,
    Run,
    Vote,
)
from arena.services import (
    arenas,
    budgets,
    candidates,
    checks,
    deliveries,
    exports,
    holds,
    imports,
    invitations,
    live,
    notices,
    orders,
    prompts,
    responses,
    runs,
    teams,
    tokens,
    webhooks,
)
from arena.services.responses import Upload, import_upload
from judges.services import decisions, experiments, rubrics
from judges.services.labels import remove_labels
from tests.audit_actions import actions
from tests.audit_stage import Stage, set_stage
from tests.factories import make_arena, make_candidate, make_empty_team
from tests.ranking.helpers import publish

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage() -> Stage:
    return set_stage()


Act = Callable[[Stage], object]
ACTS: dict[str, Act] = {}


def act(action: str) -> Callable[[Act], Act]:
    """Register a function that performs the `action` of audit logs."""

    def noted(function: Act) -> Act:
        ACTS[action] = function
        return function

    return noted


ACTS |= {
    "made the team": lambda on: teams.create_team(name="Another", by=on.by),
    "renamed the team": lambda on: teams.rename_team(team=on.team, name="Acme 2", by=on.by),
    "changed a role": lambda on: teams.change_role(
        membership=on.join(), role=Role.VIEWER, by=on.by, now=on.now
    ),
    "removed a member": lambda on: teams.remove_member(membership=on.join(), by=on.by, now=on.now),
    "set the budget": lambda on: budgets.set_budget(
        team=on.team, budget=5 * 10**9, by=Actor(user=on.operator)
    ),
    "made an invitation": lambda on: on.invite(),
    "revoked an invitation": lambda on: invitations.revoke_invitation(
        invitation=on.invite(), by=on.by, now=on.now
    ),
    "joined the team": lambda on: invitations.accept_invitation(
        invitation=on.invite(), by=Actor(user=on.operator), now=on.now
    ),
    "made a token": lambda on: on.token(),
    "revoked a token": lambda on: tokens.revoke_token(token=on.token(), by=on.by, now=on.now),
    "added a webhook": lambda on: on.webhook(),
    "removed a webhook": lambda on: webhooks.remove_webhook(
        webhook=on.webhook(), by=on.by, now=on.now
    ),
    "tested a webhook": lambda on: webhooks.send_test(webhook=on.webhook(), by=on.by, now=on.now),
}


@act("left the team")
def leave(on: Stage) -> None:
    on.join(Role.OWNER)
    teams.remove_member(membership=on.membership(), by=on.by, now=on.now)


@act("switched notices by e-mail on")
def switch_on(on: Stage) -> None:
    theirs = on.membership()
    notices.set_notices_by_email(membership=theirs, wanted=False, by=CLI)
    notices.set_notices_by_email(membership=theirs, wanted=True, by=on.by)


@act("switched notices by e-mail off")
def switch_off(on: Stage) -> None:
    theirs = on.membership()
    notices.set_notices_by_email(membership=theirs, wanted=True, by=CLI)
    notices.set_notices_by_email(membership=theirs, wanted=False, by=on.by)


@act("changed live questions")
def open_live_questions(on: Stage) -> Arena:
    return live.set_up_live(
        arena=on.arena,
        by=on.by,
        now=on.now,
        limit=5,
        voters=Arena.Voters.ANYONE,
        refused_words="",
        candidates=[Candidate(name=f"s-{n}", endpoint="scripted", model=f"s-{n}") for n in (1, 2)],
    )


def hide_question(on: Stage, *, hidden: bool) -> None:
    rater = Rater.objects.create(kind=Rater.Kind.PERSON)
    fields: dict[str, Any] = {"key": uuid4(), "shared": True, "also": 0, "now": on.now}
    arena = open_live_questions(on)
    conversation = live.ask(arena=arena, rater=rater, question="Why?", **fields)
    live.set_hidden(conversation=conversation, hidden=hidden, by=on.by, now=on.now)


def merge(on: Stage) -> list[Candidate]:
    into, *others = on.arena.candidates.order_by("pk")[:2]
    candidates.merge_candidates(candidates=others, into=into, by=on.by, now=on.now)
    return others


ACTS |= {
    "merged a candidate": merge,
    "undid a merge of candidates": lambda on: candidates.undo_merges(
        candidates=merge(on), by=on.by
    ),
    "hid a live question": lambda on: hide_question(on, hidden=True),
    "showed a live question": lambda on: hide_question(on, hidden=False),
    "made an arena": lambda on: arenas.create_team_arena(team=on.team, by=on.by, name="New"),
    "changed an arena": lambda on: arenas.update_arena(arena=on.arena, by=on.by, name="New"),
    "created a link for raters": lambda on: arenas.create_raters_link(arena=on.arena, by=on.by),
    "revoked a link for raters": lambda on: arenas.revoke_raters_link(arena=on.arena, by=on.by),
    "deleted an arena": lambda on: call_command("delete_arena", on.arena.slug, yes=True),
    "ordered votes of people": lambda on: orders.order_people_run(
        arena=on.arena, per_pair=1, by=Actor(user=on.operator)
    ),
    "cancelled a run of people": lambda on: orders.cancel_people_run(
        run=orders.order_people_run(arena=on.arena, per_pair=1, by=on.by),
        by=Actor(user=on.operator),
        now=on.now,
    ),
    "voided votes": lambda on: on.choose("vote", "void", on.vote()),
}


def checked(on: Stage) -> AnswerCheck:
    return checks.add_check(arena=on.arena, by=on.by, kind="contains", expected="refund")


ACTS |= {
    "added a check": checked,
    "added checks": lambda on: prompts.upsert_prompts(
        arena=on.arena, rows=[PromptRow(1, "Why?", checks=[{"kind": "is-json"}])], by=on.by
    ),
    "deleted a check": lambda on: checks.delete_check(check=checked(on), by=on.by),
}


def held(on: Stage) -> Hold:
    vote = on.vote()
    made = holds.hold(
        arena=on.arena,
        rater=vote.rater,
        network="",
        test="speed",
        evidence={},
        votes=[vote.pk],
        now=on.now,
    )
    assert made is not None
    return made


def reviewed(on: Stage) -> Review:
    vote = on.vote()
    review = holds.open_review(
        candidate=vote.comparison.left,
        loses=False,
        test="board",
        evidence={},
        group=[vote.rater_id],
        suspects=[vote.rater_id],
        has_verified=False,
        last_vote_id=vote.pk,
        now=on.now,
    )
    assert review is not None
    return review


def decided(on: Stage, *, are_rigged: bool) -> Review:
    return holds.close_review(
        review=reviewed(on), are_rigged=are_rigged, by=on.by, reason="we asked", now=on.now
    )


ACTS |= {
    "put votes under review": reviewed,
    "ended the review of votes": lambda on: decided(on, are_rigged=False),
    "voided votes under review": lambda on: decided(on, are_rigged=True),
    "held votes": held,
    "released held votes": lambda on: holds.release(
        hold=held(on), by=on.by, reason="a mistake", now=on.now
    ),
    "voided held votes": lambda on: holds.void(
        hold=held(on), by=on.by, reason="bought", now=on.now
    ),
}


@act("imported an arena")
def import_an_arena(on: Stage) -> None:
    with TemporaryDirectory() as folder:
        target = Path(folder) / "arena.zip"
        exports.export_arena(arena=on.arena, target=target)
        imports.import_archive(team=on.team, by=on.by, path=target, now=on.now)


@act("blocked a rater")
def block(on: Stage) -> None:
    rater = Rater.objects.create(kind=Rater.Kind.PERSON, arena=on.arena, name="bot")
    call_command("void_rater", str(rater.pk), reason="a script")


@act("unblocked a rater")
def unblock(on: Stage) -> None:
    rater = Rater.objects.create(
        kind=Rater.Kind.PERSON, arena=on.arena, name="Ann", blocked_at=on.now
    )
    call_command("void_rater", str(rater.pk), reason="it was a mistake", unblock=True)
    rater.refresh_from_db()
    assert rater.blocked_at is None


@act("repaired the log of votes")
def repair(on: Stage) -> None:
    vote = on.vote()
    publish(on.arena)
    Vote.objects.filter(pk=vote.pk).update(outcome="tie")
    call_command("verify_log", on.arena.slug, repair="mistake corrected")


@act("brought in prompts")
def bring(on: Stage) -> None:
    prompts.upsert_prompts(arena=on.arena, rows=[PromptRow(1, "New?")], by=on.by)


@act("imported a file")
def import_file(on: Stage) -> None:
    upload = Upload("a.csv", b"prompt,response\nNew?,Yes.\n")
    import_upload(arena=on.arena, upload=upload, by=on.by, now=on.now)


@act("changed a prompt")
def change(on: Stage) -> None:
    bring(on)
    prompt = on.arena.prompts.get(text="New?")
    prompts.revise_prompt(prompt=prompt, by=on.by, text="Newer?")


@act("retired a prompt")
def retire(on: Stage) -> None:
    prompts.retire_prompt(prompt=on.arena.prompts.all()[0], by=on.by, now=on.now)


@act("deleted a prompt")
def delete(on: Stage) -> None:
    prompts.delete_prompt(prompt=on.arena.prompts.all()[0], by=on.by)


@act("took categories as documents")
def _(on: Stage) -> None:
    prompts.use_categories_as_documents(arena=on.arena, by=on.by)


@act("brought back a prompt")
def bring_back(on: Stage) -> None:
    prompt = on.arena.prompts.all()[0]
    prompts.retire_prompt(prompt=prompt, by=on.by, now=on.now)
    prompts.bring_back_prompt(prompt=prompt, by=on.by)


@act("showcased a prompt")
@act("removed a prompt from the showcase")
def showcase(on: Stage) -> None:
    arena = make_arena(2, 41, team=on.team)
    prompt = arena.prompts.all()[0]
    prompts.showcase_prompt(prompt=prompt, by=on.by, now=on.now)
    prompts.remove_from_showcase(prompt=prompt, by=on.by)


@act("retired prompts")
def retire_several(on: Stage) -> None:
    prompts.retire_prompts(arena=on.arena, prompts=on.arena.prompts.all(), by=on.by, now=on.now)


@act("brought back prompts")
def bring_back_several(on: Stage) -> None:
    retire_several(on)
    prompts.bring_back_prompts(arena=on.arena, prompts=on.arena.prompts.all(), by=on.by)


ACTS |= {
    "registered a candidate": lambda on: candidates.register_candidate(
        arena=on.arena, team=on.team, by=on.by, now=on.now, name="New"
    ),
    "changed a candidate": lambda on: candidates.revise_candidate(
        candidate=on.variant(), by=on.by, now=on.now, notes="New."
    ),
    "wrote the next version of a candidate": lambda on: candidates.revise_candidate(
        candidate=on.candidate, by=on.by, now=on.now, notes="New."
    ),
    "retired a candidate": lambda on: candidates.retire_candidate(
        candidate=on.candidate, by=on.by, now=on.now
    ),
    "deleted a candidate": lambda on: candidates.delete_candidate(candidate=on.variant(), by=on.by),
    "uploaded answers": lambda on: responses.upsert_responses(
        candidate=on.variant(endpoint=""), rows=[ResponseRow(1, "Yes.", "p0")], by=on.by
    ),
    "ordered answers": lambda on: on.answers(),
    "chose a baseline": lambda on: decisions.choose_baseline(
        team=on.team, arena=on.arena, candidate=on.candidate, by=on.by, now=on.now
    ),
}


@act("retired a guest's candidate")
def send_away(on: Stage) -> None:
    guests = make_empty_team(slug="guests", name="Guests")
    theirs = make_candidate(on.arena, "theirs", team=guests)
    candidates.retire_candidate(candidate=theirs, by=on.by, now=on.now)


@act("disclosed a candidate")
def disclose(on: Stage) -> None:
    on.variant(disclosed_at=None, private_until=on.now - timedelta(days=1))
    candidates.disclose_due(now=on.now)


ACTS |= {
    "created an experiment": lambda on: on.experiment(),
    "started an experiment": lambda on: on.started(on.experiment()),
    "stopped an experiment": lambda on: experiments.stop_experiment(
        experiment=on.started(on.experiment()), by=on.by, now=on.now
    ),
    "promoted a draft": lambda on: experiments.promote_draft(
        experiment=on.experiment(), draft=on.draft(), by=on.by, now=on.now, why="It greets."
    ),
    "deleted an experiment": lambda on: experiments.delete_experiment(
        experiment=on.experiment(), by=on.by
    ),
}


ACTS |= {
    "ordered a run of judges": lambda on: on.judgements(),
    "wrote a rubric": lambda on: on.rubric(),
    "uploaded labels": lambda on: on.labels(),
    "deleted labels": lambda on: remove_labels(label_set=on.labels(), by=on.by),
    "deleted a rubric": lambda on: rubrics.remove_rubric(rubric=on.rubric().rubric, by=on.by),
    "paused a run of answers": lambda on: runs.pause(run=on.answers(), by=on.by),
    "paused a run of judges": lambda on: runs.pause(run=on.judgements(), by=on.by),
    "cancelled a run of answers": lambda on: runs.cancel(run=on.answers(), by=on.by, now=on.now),
    "cancelled a run of judges": lambda on: runs.cancel(
        run=on.judgements(), by=Actor(user=on.operator), now=on.now
    ),
    "resumed a run of answers": lambda on: runs.resume(
        run=on.paused(on.answers()), by=on.by, now=on.now
    ),
    "resumed a run of judges": lambda on: runs.resume(
        run=on.paused(on.judgements()), by=on.by, now=on.now
    ),
}


@act("asked failed answers again")
def ask_answers_again(on: Stage) -> None:
    run = on.answers()
    run.calls.update(state="failed", finished_at=on.now)
    Run.objects.filter(pk=run.pk).update(state="done")
    runs.retry_failed(run=run, by=on.by, now=on.now)


@act("asked failed verdicts again")
def ask_verdicts_again(on: Stage) -> None:
    run = on.judgements()
    run.judgements.update(state="failed", settled_at=on.now)
    Run.objects.filter(pk=run.pk).update(state="done")
    runs.retry_failed(run=run, by=on.by, now=on.now)


@act("settled uncertain costs")
def settle_costs(on: Stage) -> None:
    run = on.judgements()
    run.calls.update(state="failed", uncertain=9, finished_at=on.now)
    Run.objects.filter(pk=run.pk).update(state="done", uncertain=9 * run.calls.count())
    runs.settle(run=run, billed=9, by=Actor(user=on.operator))


BY = {
    "boss": {
        "cancelled a run of judges",
        "cancelled a run of people",
        "joined the team",
        "ordered votes of people",
        "set the budget",
        "settled uncertain costs",
        "voided votes",
    },
    "an administrator (command line)": {
        "blocked a rater",
        "deleted an arena",
        "repaired the log of votes",
        "unblocked a rater",
    },
    "a rule of the arena": {"disclosed a candidate", "held votes", "put votes under review"},
}


def who_did(action: str) -> str:
    return next((name for name, theirs in BY.items() if action in theirs), "ann")


@pytest.mark.parametrize("action", sorted(ACTS))
def test_anyone_who_does_something_for_a_team_is_in_its_audit_log(
    stage: Stage, action: str
) -> None:
    ACTS[action](stage)
    entry = AuditEntry.objects.get(action=action, by=who_did(action))
    assert (entry.team == stage.team) is (action != "made the team")


def test_every_action_that_is_written_anywhere_is_done_here() -> None:
    undone = {
        f"{action} ({where})"
        for action, where in actions().items()
        if not any(fnmatchcase(done, action) for done in ACTS)
    }
    assert not undone


def test_the_actions_are_found_however_they_are_written() -> None:
    """As a keyword, in a variable, handed on by a function, and with something filled in."""
    found = actions()
    for action in ("made a token", "left the team", "changed a prompt", "paused *"):
        assert action in found
    assert len(found) > 35


def test_what_a_receiver_removes_is_in_the_audit_log(stage: Stage) -> None:
    notice = webhooks.send_test(webhook=stage.webhook(), by=stage.by, now=stage.now)
    deliveries._remove_webhook(notice.deliveries.get(), "It is gone.", stage.now)
    assert AuditEntry.objects.get(by="its receiver").action == "removed a webhook"
